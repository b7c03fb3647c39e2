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


def crossed(wanted: float, seed: int = 1, mate: np.ndarray = MATE, **options: float) -> tfsm.Child:
    seen = tf.constant(OF.inputs[None]), tf.constant(2.0 * OF.inputs[None] + 0.5)
    return mutate_batch(
        operator("safe-crossover", **options),
        OF.network,
        tf.constant(OF.genome[None]),
        seen[0],
        tf.constant(wanted, tf.float64),
        root_seed(seed)[None],
        (tf.constant(mate[None]), seen[1]),
    )


def away(genome: np.ndarray) -> float:
    """The mean squared distance of answers to the nearer of two parents', by a plain loop."""
    means = []
    for inputs in (OF.inputs, 2.0 * OF.inputs + 0.5):
        own, first, second = (OF.rows(g, inputs) for g in (genome, OF.genome, MATE))
        nearest = [min(((y - a) ** 2).sum(), ((y - b) ** 2).sum()) for y, a, b in zip(own, first, second, strict=True)]
        means.append(np.mean(nearest))
    return float(np.mean(means))


@pytest.mark.parametrize("wanted", [1e-4, 1e-2])
def test_the_outputs_are_as_far_from_the_nearer_parents_as_is_wanted(wanted: float) -> None:
    child = crossed(wanted)
    assert away(child.genome.numpy()[0]) == pytest.approx(wanted, rel=0.011)
    assert child.diagnostics["unreached"].numpy() == 0


def test_every_weight_lies_between_the_parents_and_some_stay() -> None:
    genome = crossed(1e-2).genome.numpy()[0]
    part = (genome - OF.genome) / (MATE - OF.genome)
    assert (part >= -1e-12).all()
    assert (part <= 1 + 1e-12).all()
    asked = np.abs(part) > 0
    assert 0.2 < asked.mean() < 0.8  # half of them are asked for
    assert crossed(1e-2).diagnostics["taken_over"].numpy()[0] == pytest.approx(asked.mean(), abs=1e-6)


def test_where_all_may_be_taken_over_all_is() -> None:
    child = crossed(1e3, share=1.0)
    np.testing.assert_allclose(child.genome.numpy()[0], MATE, rtol=1e-12)
    assert child.diagnostics["unreached"].numpy() == 1


def test_a_parent_crossed_with_itself_or_with_no_divergence_stays() -> None:
    np.testing.assert_array_equal(crossed(0.01, mate=OF.genome).genome.numpy()[0], OF.genome)
    np.testing.assert_array_equal(crossed(0.0).genome.numpy()[0], OF.genome)


def test_other_seeds_ask_for_other_weights() -> None:
    assert not np.array_equal(crossed(0.01, seed=1).genome, crossed(0.01, seed=2).genome)


def test_where_there_is_no_mate_it_is_said() -> None:
    import keras

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(TfsmError, match="recombines two parents, but only one is given"):
        tfsm.mutate(model, np.ones((3, 2)), "safe-crossover")
    with pytest.raises(TfsmError, match="the population is one: choose another selection scheme"):
        make_engine(mutation=operator("safe-crossover"), selection=None, population=1)


@pytest.mark.slow
def test_a_run_with_mates_is_the_same_run_alone() -> None:
    both, _ = evolve(make_engine(mutation=operator("safe-crossover"), seed=5), runs=2, evaluations=30)
    alone, told = evolve(make_engine(mutation=operator("safe-crossover"), seed=5, runs=1), runs=2, evaluations=30)
    for one, other in zip(both, alone, strict=True):
        np.testing.assert_array_equal(one.champion, other.champion)
    assert any(line["taken_over"] for line in told.metrics)
