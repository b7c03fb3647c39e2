"""How much of a solution's performance mutants retain."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfsm
from tfsm.analysis.robustness import MutantEvaluator, MutantSample, Robustness, build_operator, measure_robustness
from tfsm.errors import TfsmError
from tfsm.evolution.evaluation import Evaluator
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.settings import resolve
from tfsm_domains.parity.parity import Parity
from tfsm_plugins.mutations.gradient_free import Control

PLUGINS = load_plugins()


def test_another_operator_is_built_for_a_domain_with_options_that_have_no_default() -> None:
    run = resolve(PLUGINS, domain="gym", mutation="sm-g-sum", sets=["env=CartPole-v1"], cwd=Path("/")).settings
    settings, operator = build_operator(PLUGINS, run, "control", None, None)
    assert settings.domain_options["env"] == "CartPole-v1"
    assert operator == Control()


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("solved") / "run"
    result = tfsm.evolve("parity", mutation="sm-g-sum", runs=2, seed=1, out=out, bits=2, evaluations=20_000)
    assert result.solved == 2
    return out


@pytest.mark.slow
def test_every_solution_is_perturbed_by_every_operator(solved: Path) -> None:
    calls: list[tuple[int, int, str]] = []
    found = measure_robustness(
        PLUGINS,
        [solved],
        mutations=["control", "sm-g-sum"],
        perturbations=7,
        histogram=60,
        on_progress=lambda *x: calls.append(x),
    )
    assert [(e.method, e.run, e.operator) for e in found.entries] == [
        ("sm-g-sum", run, operator) for run in (0, 1) for operator in ("control", "sm-g-sum")
    ]
    assert all(entry.fraction.shape == (7,) and entry.before == 4.0 for entry in found.entries)
    assert {entry.operator: entry.intensity for entry in found.entries} == {"control": 0.05, "sm-g-sum": 0.001}
    # Of two runs ordered by evaluations, the later one counts as the median.
    (sample,) = found.samples
    assert (sample.operator, sample.fraction.shape) == ("sm-g-sum", (60,))
    assert calls[-1][:2] == (2, 2)
    assert found.measure == "sequences right"
    for entry in (*found.entries, sample):
        np.testing.assert_allclose(entry.fraction, entry.performance / 4.0)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_mutants(solved: Path) -> None:
    def fractions(seed: int) -> np.ndarray:
        found = measure_robustness(PLUGINS, [solved], mutations=["control"], perturbations=40, histogram=0, seed=seed)
        return np.array([entry.performance for entry in found.entries])

    np.testing.assert_array_equal(fractions(1), fractions(1))
    assert (fractions(1) != fractions(2)).any()


@pytest.mark.slow
def test_no_solution_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    tfsm.evolve("simple-easy", mutation="control", out=tmp_path / "r", evaluations=3)
    with pytest.raises(TfsmError, match="--all"):
        measure_robustness(PLUGINS, [tmp_path / "r"], mutations=["control"], perturbations=2, histogram=0)
    found = measure_robustness(
        PLUGINS, [tmp_path / "r"], mutations=["control"], perturbations=3, histogram=0, include_unsolved=True
    )
    assert found.measure == "fitness above that of random networks"
    assert np.isfinite(found.entries[0].fraction).all()


def test_a_compiled_operator_is_kept_alive() -> None:
    """The cache is keyed by the id of the operator, which Python may reuse for another object."""
    domain = Parity(bits=2)
    network = Network(domain.network())
    evaluator = MutantEvaluator(domain, network, jit=False)
    parents, experience = evaluator.gather_experience(tf.constant(network.genome, network.dtype), 2)
    operator = Control()
    alive = weakref.ref(operator)
    settings = resolve(load_plugins(), domain="parity", mutation="control").settings
    evaluator.mutate(operator, settings, parents, experience, tf.constant([1, 2]))
    del operator
    gc.collect()
    assert alive() is not None


def test_performance_counts_correct_sequences() -> None:
    domain = Parity(bits=3)
    network = Network(domain.network())
    genomes = tf.constant(np.random.default_rng(0).normal(size=(5, network.size)), tf.float32)
    found = Evaluator(domain, network, jit=False)(genomes, tf.zeros([5, 2], tf.int32), tf.ones([5], tf.bool))
    odd = np.array([bin(number).count("1") % 2 for number in range(8)])
    expected = ((found.behavior.numpy() > 0.5) == odd).sum(axis=1)
    np.testing.assert_array_equal(domain.performance(found), expected)
    np.testing.assert_array_equal(expected == 8, found.solved)


def make_result() -> Robustness:
    entries = [
        MutantSample("a", run, operator, 0.1, 2.0, np.array([1.0, np.nan]), np.array([mean, mean]))
        for operator, means in {"x": [0.9, 0.8, 0.7], "y": [0.1, 0.2, 0.3]}.items()
        for run, mean in enumerate(means)
    ]
    return Robustness("d", "points", 2, 0.0, tuple(entries), ())


def test_saved_results_can_be_read_again(tmp_path: Path) -> None:
    make_result().save(tmp_path / "robustness.json")
    again = Robustness.load(tmp_path / "robustness.json")
    assert again.as_dict() == make_result().as_dict()
    assert np.isnan(again.entries[0].performance[1])
    (tmp_path / "robustness.json").write_text('{"entries": []}')
    with pytest.raises(TfsmError, match="not a robustness record"):
        Robustness.load(tmp_path / "robustness.json")


def test_operators_are_compared_on_each_methods_solutions() -> None:
    (pair,) = make_result().pairs()
    assert (pair.method, pair.first, pair.second) == ("a", "x", "y")
    # Three against three without overlap: U = 9, p = 2 / C(6, 3) = 0.1; alone in its family.
    assert (pair.verdict.statistic, pair.verdict.p, pair.verdict.adjusted) == (
        9.0,
        pytest.approx(0.1),
        pytest.approx(0.1),
    )
    np.testing.assert_allclose(make_result().means("a", "x"), [0.9, 0.8, 0.7])
