"""Safe crossover: which weights of a second parent are adopted."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tfsm
from tests.helpers.engines import evolve, make_engine
from tests.mutations.cases import case, operator
from tfsm.errors import TfsmError
from tfsm.evolution.variation import mutate_batch
from tfsm.kernels.random import root_seed

OF = case("dense")
MATE = OF.genome + np.random.default_rng(8).standard_normal(OF.genome.shape)


def cross(target: float, seed: int = 1, mate: np.ndarray = MATE, **options: float) -> tfsm.Child:
    seen = tf.constant(OF.inputs[None]), tf.constant(2.0 * OF.inputs[None] + 0.5)
    return mutate_batch(
        operator("safe-crossover", **options),
        OF.network,
        tf.constant(OF.genome[None]),
        seen[0],
        tf.constant(target, tf.float64),
        root_seed(seed)[None],
        (tf.constant(mate[None]), seen[1]),
    )


def measure_distance(genome: np.ndarray) -> float:
    """Return the mean squared distance of the outputs to those of the nearer parent, by a plain loop."""
    means = []
    for inputs in (OF.inputs, 2.0 * OF.inputs + 0.5):
        own, first, second = (OF.rows(g, inputs) for g in (genome, OF.genome, MATE))
        nearest = [min(((y - a) ** 2).sum(), ((y - b) ** 2).sum()) for y, a, b in zip(own, first, second, strict=True)]
        means.append(np.mean(nearest))
    return float(np.mean(means))


@pytest.mark.parametrize("target", [1e-4, 1e-2])
def test_the_outputs_have_the_target_divergence_from_the_nearer_parent(target: float) -> None:
    child = cross(target)
    assert measure_distance(child.genome.numpy()[0]) == pytest.approx(target, rel=0.011)
    assert child.diagnostics["unreached"].numpy() == 0


def test_every_weight_lies_between_the_parents_and_some_are_unchanged() -> None:
    genome = cross(1e-2).genome.numpy()[0]
    part = (genome - OF.genome) / (MATE - OF.genome)
    assert (part >= -1e-12).all()
    assert (part <= 1 + 1e-12).all()
    selected = np.abs(part) > 0
    assert 0.2 < selected.mean() < 0.8  # half of the weights are selected
    assert cross(1e-2).diagnostics["taken_over"].numpy()[0] == pytest.approx(selected.mean(), abs=1e-6)


def test_all_weights_are_adopted_for_an_unreachable_target() -> None:
    child = cross(1e3, share=1.0)
    np.testing.assert_allclose(child.genome.numpy()[0], MATE, rtol=1e-12)
    assert child.diagnostics["unreached"].numpy() == 1


def test_a_parent_is_unchanged_by_itself_or_a_target_of_zero() -> None:
    np.testing.assert_array_equal(cross(0.01, mate=OF.genome).genome.numpy()[0], OF.genome)
    np.testing.assert_array_equal(cross(0.0).genome.numpy()[0], OF.genome)


def test_other_seeds_select_other_weights() -> None:
    assert not np.array_equal(cross(0.01, seed=1).genome, cross(0.01, seed=2).genome)


def test_a_missing_mate_is_an_error() -> None:
    import keras

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(TfsmError, match="recombines two parents, but only one is given"):
        tfsm.mutate(model, np.ones((3, 2)), "safe-crossover")
    with pytest.raises(TfsmError, match="the population is one: choose another selection scheme"):
        make_engine(mutation=operator("safe-crossover"), selection=None, population=1)


@pytest.mark.slow
def test_a_run_with_mates_is_the_same_run_alone() -> None:
    both, _ = evolve(make_engine(mutation=operator("safe-crossover"), seed=5), runs=2, evaluations=30)
    alone, recorder = evolve(make_engine(mutation=operator("safe-crossover"), seed=5, runs=1), runs=2, evaluations=30)
    for one, other in zip(both, alone, strict=True):
        np.testing.assert_array_equal(one.champion, other.champion)
    assert any(line["taken_over"] for line in recorder.metrics)
