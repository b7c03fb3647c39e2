"""The operators beyond the paper."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.mutations.cases import case, children, noise_of, operator
from tests.reference import measures
from tfsm.kernels.random import root_seed
from tfsm.kernels.sensitivity import divergence

RESCALED = ("sm-g-sum+r", "sm-g-abs+r", "sm-g-so+r", "sm-g-rms+r")
NETWORKS = ("dense", "simple-rnn", "conv2d")


def moved(of: object, child: tf.Tensor) -> float:
    before, after = (
        of.network.rows(tf.constant(genome), tf.constant(of.inputs[None]))  # type: ignore[attr-defined]
        for genome in (of.genome[None], child)  # type: ignore[attr-defined]
    )
    return float(divergence(before, after)[0])


@pytest.mark.parametrize("mutation", RESCALED)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("wanted", [1e-4, 0.02])
def test_a_rescaled_child_moves_the_outputs_by_the_wanted_divergence(mutation: str, name: str, wanted: float) -> None:
    of = case(name)
    child = children(of.network, of.genome[None], tf.constant(of.inputs[None]), mutation, wanted, [3])
    assert moved(of, child.genome) == pytest.approx(wanted, rel=0.01)
    assert child.diagnostics["unreached"].numpy() == 0


@pytest.mark.parametrize("mutation", RESCALED)
def test_a_rescaled_child_lies_in_the_direction_of_the_gradient_variant(mutation: str) -> None:
    of = case("dense")
    noise = noise_of(3, len(of.genome))
    s = {
        "sm-g-sum+r": measures.sum_sensitivity(of.jacobian),
        "sm-g-abs+r": measures.abs_sensitivity(of.jacobian),
        "sm-g-rms+r": measures.rms_sensitivity(of.jacobian),
        "sm-g-so+r": measures.so_sensitivity(of.jacobian, noise / np.linalg.norm(noise)),
    }[mutation]
    along = noise / measures.guarded(s)
    child = children(of.network, of.genome[None], tf.constant(of.inputs[None]), mutation, 0.01, [3])
    change = child.genome.numpy()[0] - of.genome
    np.testing.assert_allclose(change / np.linalg.norm(change), along / np.linalg.norm(along), rtol=1e-4, atol=1e-6)


def test_where_nothing_moves_the_outputs_a_rescaled_child_says_so() -> None:
    of = case("dense")
    child = children(of.network, of.genome[None], tf.zeros([1, 5, 3], tf.float64), "sm-g-abs+r", 1e9, [3])
    assert child.diagnostics["unreached"].numpy() == 1
    assert np.isfinite(child.genome.numpy()).all()


def test_a_change_of_one_weight_by_its_inverse_sensitivity_is_worth_the_same_for_all() -> None:
    """The meaning of SM-G-RMS: `(s d)^2` is the divergence of a small change `d` of one weight."""
    of = case("dense")
    s = operator("sm-g-rms").sensitivity(
        of.network, tf.constant(of.genome[None]), tf.constant(of.inputs[None]), tf.constant(of.genome[None])
    )[0]
    for p in (0, 5, len(of.genome) - 1):
        change = np.zeros_like(of.genome)
        change[p] = 1e-4 / s[p].numpy()
        assert moved(of, (of.genome + change)[None]) == pytest.approx(1e-8, rel=1e-2)


@pytest.mark.parametrize("mutation", ["sm-g-rms", "sm-g-sum", "sm-g-sum+r"])
def test_probes_are_drawn_by_the_childs_own_seed(mutation: str) -> None:
    of = case("dense")
    parents = np.repeat(of.genome[None], 3, axis=0)
    seen = tf.constant(of.inputs[None])
    together = children(of.network, parents, seen, mutation, 0.01, [1, 2, 1], probes=2).genome.numpy()
    np.testing.assert_array_equal(together[0], together[2])
    assert not np.allclose(together[0], together[1])
    alone = children(of.network, parents[:1], seen, mutation, 0.01, [2], probes=2).genome.numpy()
    np.testing.assert_allclose(together[1], alone[0], rtol=1e-9)


def test_many_answers_are_probed_and_few_measured_exactly() -> None:
    few, many = case("lstm, every time a row"), case("conv-lstm2d")
    assert few.network.answers == 8
    assert many.network.answers == 2
    part = operator("sm-g-rms")
    assert part.passes(few.network) == 0
    assert operator("sm-g-rms", probes=3).passes(few.network) == 3

    class Chatty:
        answers = 9

    class Silent:
        answers = None

    assert part.passes(Chatty()) == part.passes(Silent()) == 8
    seed = tf.broadcast_to(root_seed(0), [1, 2])
    genome, seen = tf.constant(few.genome[None]), tf.constant(few.inputs[None])
    fixed = operator("sm-g-rms", probes=4)
    np.testing.assert_array_equal(
        fixed.sensitivity(few.network, genome, seen, genome),
        fixed.measured(few.network, genome, seen, genome, seed),
    )
