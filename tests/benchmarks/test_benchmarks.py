"""The benchmark suite's arithmetic, on made-up numbers, and one small part of it for real."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks.__main__ import PARTS, parser
from benchmarks.arithmetic import Spread, power_law, rate, ratio, spread
from benchmarks.flops import Product, backward_flops, backward_products, forward_flops, products, sum_flops
from benchmarks.measure import Effort, Failure, Timing, interleave, needed
from benchmarks.plain.population import Population
from benchmarks.plain.search import rescaled
from benchmarks.results import Table, number, show, text, write
from benchmarks.rivals.problem import WEIGHTS, initial, reference_fitness

ROOT = Path(__file__).parents[2]
QUICK = Effort(quick=True, repetitions=3, seconds=1e-4, most=1.0)


def test_a_spread_is_the_median_and_the_quartiles() -> None:
    assert spread([5.0, 1.0, 2.0, 4.0, 3.0]) == Spread(3.0, 2.0, 4.0, 5)


def test_there_is_no_spread_of_nothing() -> None:
    with pytest.raises(ValueError, match="no samples"):
        spread([])


def test_a_rate_is_work_by_time() -> None:
    assert rate([0.5, 0.5], 10.0).median == 20.0


def test_a_ratio_pairs_neighbours_so_that_a_common_disturbance_cancels() -> None:
    disturbance = [1.0, 7.0, 2.0]
    assert ratio([3.0 * d for d in disturbance], [2.0 * d for d in disturbance]) == Spread(1.5, 1.5, 1.5, 3)


def test_a_ratio_of_unequal_numbers_of_repetitions_uses_the_pairs_there_are() -> None:
    assert ratio([4.0, 6.0], [2.0, 2.0, 2.0]).samples == 2


@given(exponent=st.floats(-2, 3), factor=st.floats(1e-3, 1e3))
def test_a_power_law_is_found_again(exponent: float, factor: float) -> None:
    x = [10.0, 100.0, 1000.0]
    fit = power_law(x, [factor * value**exponent for value in x])
    assert fit.exponent == pytest.approx(exponent, abs=1e-6)
    assert fit.factor == pytest.approx(factor, rel=1e-4)


def test_a_power_law_says_how_much_it_explains() -> None:
    assert power_law([1, 10, 100], [1, 10, 100]).explained == pytest.approx(1.0)
    assert power_law([1, 10, 100], [1, 50, 1]).explained < 0.1


@pytest.mark.parametrize(("x", "y"), [([1, 2], [1]), ([3, 3], [1, 2]), ([], [])])
def test_a_power_law_needs_two_sizes(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError, match="at least two"):
        power_law(x, y)


def test_flops_of_a_dense_network_are_counted_by_hand() -> None:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5), keras.layers.Dense(2)])
    each = products(model, experiences=7)
    assert forward_flops(each) == 2 * 7 * (3 * 5 + 5 * 2)
    # Both weights' gradients, and what flows back through the second layer alone.
    assert backward_flops(each) == 2 * 7 * (3 * 5 + 2 * 5 * 2)
    assert sum_flops(each, 2) == forward_flops(each) + 2 * backward_flops(each)


def test_flops_of_the_parity_network_are_counted_by_hand() -> None:
    from tfsm_domains.parity.parity import Parity

    times, units = 4, 20
    layers = times * (1 * units + units * units) + times * (units * units + units * units) + units * 2
    assert forward_flops(products(Parity().network(), 16)) == 2 * 16 * layers


def test_backward_products_have_the_flops_of_a_backward_pass() -> None:
    each = [Product(7, 3, 5, reads_data=True), Product(7, 5, 2, times=4)]
    assert forward_flops(backward_products(each)) == backward_flops(each)


def test_a_layer_that_cannot_be_counted_is_named() -> None:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.LayerNormalization()])
    with pytest.raises(ValueError, match="LayerNormalization"):
        products(model, 1)


def test_sides_are_measured_in_turns() -> None:
    order: list[str] = []
    effort = Effort(quick=True, repetitions=3, seconds=0.0, most=1.0)
    interleave({name: lambda name=name: order.append(name) for name in "ab"}, effort)
    warm_up = 3
    assert order[2 * warm_up :] == ["a", "b"] * 3
    assert [name for name, _ in itertools.groupby(order[: 2 * warm_up])] == ["a", "b"]


def test_a_side_that_fails_does_not_stop_the_others() -> None:
    def fails() -> None:
        raise RuntimeError("out of luck")

    found = interleave({"good": lambda: None, "bad": fails}, QUICK)
    assert isinstance(found["good"], Timing)
    assert found["bad"] == Failure("RuntimeError: out of luck")
    with pytest.raises(RuntimeError, match="bad failed: RuntimeError: out of luck"):
        needed(found, "bad")


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "NO"),
        ("words", "words"),
        (12345.6, "12,300"),
        (12345, "12,345"),
        (0.012345, "0.0123"),
        (0, "0"),
        (Spread(2.0, 1.0, 3.0, 5), "2 [1, 3]"),
    ],
)
def test_cells_are_shown_with_three_digits_or_as_counts(cell: object, shown: str) -> None:
    assert text(cell) == shown


def test_a_number_that_is_none_is_shown_as_such() -> None:
    assert number(float("inf")) == "inf"


def test_a_table_shows_every_column_that_any_row_has() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    show(Table("name", "a title", [{"x": 1}, {"x": 2, "y": Spread(3.0, 2.0, 4.0, 5)}], ["a note"]), console)
    printed = console.export_text()
    assert all(part in printed for part in ("a title", "3 [2, 4]", "a note"))


def test_results_are_written_as_json(tmp_path: Path) -> None:
    rows = [{"rate": Spread(3.0, 2.0, 4.0, 5), "held": True, "worst": float("nan")}]
    write(tmp_path / "benchmarks.json", {"command": "x"}, {"a": [Table("name", "title", rows)]})
    found = json.loads((tmp_path / "benchmarks.json").read_text())
    assert found["parts"]["a"][0]["rows"] == [
        {"rate": {"median": 3.0, "low": 2.0, "high": 4.0, "samples": 5}, "held": True, "worst": None}
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "benchmarks.json"]


@pytest.mark.parametrize("given", ["x", "", "a,x"])
def test_unknown_parts_are_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--only", given])
    assert "a,b,c,d,e" in capsys.readouterr().err


def test_all_parts_run_unless_told_otherwise() -> None:
    assert parser().parse_args([]).only == list(PARTS)
    assert parser().parse_args(["--only", "e,a"]).only == ["e", "a"]


@pytest.mark.parametrize("curve", [lambda m: 3 * m**2, lambda m: np.tanh(m**2), lambda m: m**2 / (1 + 50 * m)])
def test_the_plain_search_finds_the_magnitude(curve: object) -> None:
    assert curve(rescaled(curve, 0.3, 0.01)) == pytest.approx(0.3, rel=0.01)


def test_the_plain_tournament_breeds_from_the_better_and_replaces_the_worse() -> None:
    population = Population(np.arange(8.0)[:, None], np.arange(8.0), "tournament")
    parents: list[float] = []
    for _ in range(50):
        population.advance(lambda parent: (parents.append(float(parent[0])), (parent, 100.0))[1])
    assert min(parents) >= 4.0  # the best of five out of eight is never one of the worst four
    assert population.fitness.min() > 0.0


def test_the_plain_hill_climber_keeps_the_better() -> None:
    population = Population(np.zeros((1, 1)), np.array([1.0]), "hill-climber")
    population.advance(lambda parent: (parent + 1.0, 0.5))
    assert population.genomes[0, 0] == 0.0
    population.advance(lambda parent: (parent + 2.0, 1.5))
    assert population.genomes[0, 0] == 2.0


def test_the_reference_fitness_of_the_rivals_is_tfsms() -> None:
    import tensorflow as tf

    from tfsm.models.network import Network
    from tfsm_domains.parity.parity import Parity

    genomes = initial(4)
    assert genomes.shape == (4, WEIGHTS)
    found = Parity().evaluate(Network(Parity().network()), tf.constant(genomes), tf.zeros([4, 2], tf.int32)).fitness
    np.testing.assert_allclose(found, reference_fitness(genomes), rtol=1e-5)


def test_a_plain_loop_that_computes_something_else_is_refused() -> None:
    from benchmarks.agreement import check
    from benchmarks.engines import begun, engine_of, settings_of
    from benchmarks.whole_loop import plain_loops

    donor = begun(engine_of(settings_of("simple-easy", "sm-g-abs", 2)))
    loops = plain_loops(settings_of("simple-easy", "sm-g-abs", 1), donor)
    assert max(check("simple-easy", "sm-g-abs", donor, loops).values()) < 1e-5
    wrong = loops["eager"]
    wrong.fitness = lambda genome: 0.5  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="eager: fitness differs"):
        check("simple-easy", "sm-g-abs", donor, {"eager": wrong})


@pytest.mark.slow
def test_a_small_part_really_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "e", "--plots", "--out", str(tmp_path)]
    command += ["--markdown", str(tmp_path / "tables.md")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "benchmarks.json").read_text())
    assert found["meta"]["quick"] is True
    assert found["meta"]["versions"]["tensorflow"]
    assert found["meta"]["command"].startswith("python -m benchmarks --quick --only e")
    for row in found["parts"]["e"][0]["rows"]:
        assert 0 < row["tfsm"]["low"] <= row["tfsm"]["median"] <= row["tfsm"]["high"]
    assert (tmp_path / "flop_rate.png").stat().st_size > 1000
    assert "| dense | forward |" in (tmp_path / "tables.md").read_text(encoding="utf-8")
