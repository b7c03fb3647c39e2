"""Plans: how runs are compiled, and how many share a batch."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import CHILD_COPIES, Plan, check_memory, find_limits, make_plan
from tfsm.evolution.lockstep_loop import StepScheduler
from tfsm.models.network import Network

LAYERS = keras.layers


def make_test_plan(model: keras.Model, **options: Any) -> Plan:
    return make_plan(Network(model), **{"runs": 20, "population": 250} | options)


def make_dense_model() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), LAYERS.Dense(4)])


@pytest.mark.parametrize(
    ("layers", "shape", "jit"),
    [
        ([LAYERS.Dense(4)], (3,), True),
        ([LAYERS.SimpleRNN(4)], (4, 1), True),
        ([LAYERS.SimpleRNN(4)], (40, 1), True),
        ([LAYERS.SimpleRNN(4)], (401, 1), False),
        ([LAYERS.SimpleRNN(4)], (None, 1), False),
        ([LAYERS.Conv2D(4, 3), LAYERS.GlobalAveragePooling2D()], (8, 8, 1), False),
        ([LAYERS.ConvLSTM2D(2, 3)], (4, 6, 6, 1), True),
        ([LAYERS.ConvLSTM2D(2, 3)], (20, 6, 6, 1), True),
        ([LAYERS.ConvLSTM2D(2, 3)], (65, 6, 6, 1), False),
        ([LAYERS.ConvLSTM2D(2, 3)], (None, 6, 6, 1), False),
        ([LAYERS.ConvLSTM2D(2, 3), LAYERS.Conv2D(2, 3)], (4, 6, 6, 1), False),
        ([LAYERS.LayerNormalization()], (3,), True),
        ([LAYERS.GRU(4, reset_after=False)], (4, 1), False),
    ],
)
def test_xla_is_used_where_every_layer_suits_it(layers: list[Any], shape: tuple[int | None, ...], jit: bool) -> None:
    found = make_test_plan(keras.Sequential([keras.Input(shape), *layers]))
    assert found.jit is jit
    assert found.why


def test_the_user_may_override_the_compile_mode() -> None:
    assert make_test_plan(make_dense_model(), compile="graph").jit is False
    assert make_test_plan(make_dense_model(), compile="xla").jit is True


def test_a_single_run_has_width_two_under_xla_only() -> None:
    assert make_test_plan(make_dense_model(), runs=1).width == 2
    assert make_test_plan(make_dense_model(), runs=1, compile="graph").width == 1


def test_the_width_is_reduced_to_fit_memory_with_a_note() -> None:
    model = keras.Sequential([keras.Input((1000,)), LAYERS.Dense(1000)])
    found = make_test_plan(model, population=100, memory=1.0)
    assert found.width == 2
    assert "2 of 20 runs at a time" in found.note
    assert make_test_plan(model, population=100, memory=100.0).note == ""
    assert make_test_plan(model, population=100, memory=100.0, experience_bytes=10**8).runs == 9
    assert "takes 0.37 GiB and engine.memory is 0.1 GiB" in make_test_plan(model, population=100, memory=0.1).note


def test_sensitivities_are_reused_if_those_of_one_run_fit_in_memory() -> None:
    model = keras.Sequential([keras.Input((1000,)), LAYERS.Dense(1000)])
    for runs in (1, 20):
        assert make_test_plan(model, runs=runs, population=100, memory=4.0).reuse is False
        assert make_test_plan(model, runs=runs, population=100, memory=8.0).reuse is True
        assert make_test_plan(model, runs=runs, population=100, memory=8.0, reuse=False).reuse is False
    assert make_test_plan(model, population=100, memory=8.0).runs == 10, "sensitivities count towards memory"


def test_widths_halve_down_to_the_minimum() -> None:
    assert make_test_plan(make_dense_model()).widths() == (20, 10, 5, 3, 2)
    assert make_test_plan(make_dense_model(), runs=2).widths() == (2,)


def test_a_narrower_batch_must_be_worth_its_compilation() -> None:
    scheduler = StepScheduler((20, 10, 5))
    assert scheduler.width(20, 0, 1000) == 20
    scheduler.learn((False, 20), 1, 5.0)  # compiling
    scheduler.learn((False, 20), 10, 0.01)  # a millisecond per step
    assert scheduler.width(9, 1_000, 1_000) == 20, "half a second saved, ten spent"
    assert scheduler.width(9, 50_000, 50_000) == 10
    assert scheduler.width(9, 1_000, 1_000) == 10, "it stays narrow while that suffices"
    assert scheduler.width(15, 1_000, 1_000) == 20, "the next group of runs is wide again"


def test_only_first_calls_count_as_compilation() -> None:
    scheduler = StepScheduler((20, 10))
    for key, steps, seconds in (((True, 20), 1, 2.0), ((False, 20), 1, 5.0), ((False, 20), 8, 0.5)):
        scheduler.learn(key, steps, seconds)
    assert scheduler.compile_seconds == 7.0


def test_what_does_not_fit_the_memory_is_refused_with_the_numbers() -> None:
    model = keras.Sequential([keras.Input((249,)), LAYERS.Dense(4)])
    plan = make_test_plan(model, runs=4, population=100, reuse=False)
    sizes = {"population": 100, "weights": 1000, "weight_bytes": 4, "experience_bytes": 0}
    check_memory(plan, None, **sizes)
    check_memory(plan, 2**30, **sizes)
    with pytest.raises(TfsmError) as caught:
        check_memory(plan, 500_000.0, **sizes)
    message = str(caught.value)
    assert "4 runs at once of a population of 100 with 1,000 weights" in message
    assert "0.5 MiB are available; one run has room for a population of 119, or 1,179 weights" in message
    assert "fewer runs at once (engine.width)" in message


@pytest.mark.parametrize("limit", ["population", "weights", "experience_bytes"])
def test_the_limits_just_fit(limit: str) -> None:
    sizes = {"population": 50, "weights": 2000, "weight_bytes": 4, "experience_bytes": 300}
    memory = 10**7
    limits = find_limits(memory, **sizes)
    value = {"population": limits.population, "weights": limits.weights, "experience_bytes": limits.experience}[limit]

    def needed(**changed: int) -> int:
        at = sizes | changed
        genome = at["weights"] * at["weight_bytes"]
        return at["population"] * (genome + at["experience_bytes"]) + CHILD_COPIES * genome

    step = max(1, value // 100)
    assert needed(**{limit: value}) <= memory < needed(**{limit: value + step})
