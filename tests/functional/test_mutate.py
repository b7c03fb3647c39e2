"""Children depend on their parent, what was seen and their stream, and on nothing else."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import tfsm
from tests.functional.networks import OPERATORS, dense, linear, normal, pictures, recurrent
from tfsm import functional
from tfsm.functional._batching import lanes_of

X = normal(6, 3)


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return dense()


@pytest.mark.parametrize("mutation", OPERATORS)
def test_a_child_is_the_one_that_tfsm_mutate_makes(model: keras.Model, mutation: str) -> None:
    genome = tfsm.flatten(model)
    child = functional.mutate(model, genome, X, mutation, intensity=0.05, seed=2**40 + 7)
    wanted = tfsm.flatten(tfsm.mutate(model, X, mutation, intensity=0.05, seed=2**40 + 7))
    assert child.shape == genome.shape
    assert child.dtype == np.float32
    # The one is compiled and the other is not, which may change the last digits.
    np.testing.assert_allclose(child - genome, wanted - genome, rtol=2e-3, atol=1e-6)
    assert np.abs(child - genome).max() > 1e-3


@pytest.mark.parametrize("mutation", ["sm-r", "sm-g-so"])
def test_a_batch_is_its_members_one_at_a_time_bit_for_bit(model: keras.Model, mutation: str) -> None:
    parents = functional.initial(model, 5, seed=1)
    own = functional.streams(3, 5)
    together = functional.mutate(model, parents, X, mutation, seed=3)
    np.testing.assert_array_equal(together, functional.mutate(model, parents, X, mutation, seed=own))
    for b in (0, 4):
        alone = functional.mutate(model, parents[b], X, mutation, seed=int(own[b]))
        np.testing.assert_array_equal(together[b], alone)
    np.testing.assert_array_equal(
        together[[3, 1, 3]], functional.mutate(model, parents[[3, 1, 3]], X, mutation, seed=own[[3, 1, 3]])
    )


@pytest.mark.parametrize(("make", "mutation"), [(pictures, "sm-g-abs"), (recurrent, "sm-g-sum")])
def test_pictures_and_sequences_are_mutated_one_at_a_time_or_together(make: Any, mutation: str) -> None:
    model = make()
    x = normal(4, *model.inputs[0].shape[1:])
    parents, own = functional.initial(model, 2), functional.streams(0, 2)
    together = functional.mutate(model, parents, x, mutation, intensity=0.1)
    for b in range(2):
        alone = functional.mutate(model, parents[b], x, mutation, intensity=0.1, seed=int(own[b]))
        np.testing.assert_allclose(together[b], alone, rtol=1e-5, atol=1e-6)
    wanted = tfsm.flatten(tfsm.mutate(tfsm.unflatten(model, parents[1]), x, mutation, 0.1, seed=int(own[1])))
    np.testing.assert_allclose(together[1], wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("make", [dense, pictures])
def test_an_experience_for_each_is_as_good_as_a_call_for_each(make: Any) -> None:
    model = make()
    seen = normal(2, 4, *model.inputs[0].shape[1:])
    parents, own = functional.initial(model, 2), functional.streams(0, 2)
    together = functional.mutate(model, parents, seen, each=True)
    for b in range(2):
        alone = functional.mutate(model, parents[b], seen[b], seed=int(own[b]))
        # Products with one matrix of inputs or with one for each are summed in different orders.
        np.testing.assert_allclose(together[b], alone, rtol=1e-4, atol=1e-6)
        again = functional.mutate(model, parents[b], seen[b : b + 1], seed=int(own[b]), each=True)
        np.testing.assert_array_equal(together[b], again)


def test_more_genomes_than_fit_into_a_call_take_several(model: keras.Model) -> None:
    parents = functional.initial(model, 600)
    children = functional.mutate(model, parents, X, "control")
    few = functional.mutate(model, parents[510:515], X, "control", seed=functional.streams(0, 600)[510:515])
    np.testing.assert_array_equal(children[510:515], few)
    assert len(np.unique(children - parents, axis=0)) == 600


@pytest.mark.parametrize("mutation", OPERATORS)
def test_no_intensity_is_no_change(model: keras.Model, mutation: str) -> None:
    parents = functional.initial(model, 2)
    np.testing.assert_array_equal(functional.mutate(model, parents, X, mutation, intensity=0.0), parents)


def test_sm_r_moves_the_outputs_as_far_as_asked(model: keras.Model) -> None:
    parents = functional.initial(model, 5)
    for intensity in (0.01, np.float32(1.0)):
        children = functional.mutate(model, parents, X, "sm-r", intensity=intensity)  # type: ignore[arg-type]
        moved = functional.divergence(model, parents, children, X)
        np.testing.assert_allclose(moved, np.full(5, intensity), rtol=0.02)


def test_what_cannot_be_reached_is_warned_of() -> None:
    bounded = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, "sigmoid")])
    with pytest.warns(UserWarning, match=r"^sm-r: along some directions no magnitude gives a divergence of 5; "):
        functional.mutate(bounded, functional.initial(bounded, 2), X, "sm-r", intensity=5.0)


def test_noise_is_divided_by_the_sensitivity_of_a_linear_model() -> None:
    """Its output gradient is the input, whatever the weights are: noise times mean absolute input is left."""
    model, parents = linear(1), np.zeros([2, 3])
    inputs = np.array([[[2.0, -0.5, 4.0], [2.0, 1.5, -8.0]], [[0.5, -3.0, 1.0], [1.5, 3.0, 0.0]]])
    noise = [functional.mutate(model, parents, x, "sm-g-abs", intensity=0.1) * np.abs(x).mean(axis=0) for x in inputs]
    np.testing.assert_allclose(noise[0], noise[1], rtol=1e-5)
    assert 0.01 < noise[0].std() < 0.3


def test_options_are_the_operators_and_an_operator_may_be_handed_over(model: keras.Model) -> None:
    from tfsm_plugins.mutations.gradient import SafeMutationSum

    parents = functional.initial(model, 2)
    usual = functional.mutate(model, parents, X)
    gentle = functional.mutate(model, parents, X, floor=10.0)
    assert np.abs(gentle - parents).max() < np.abs(usual - parents).max()
    np.testing.assert_array_equal(gentle, functional.mutate(model, parents, X, SafeMutationSum(floor=10.0)))
    compiled = lanes_of(model).functions.made
    functional.mutate(model, parents, X, SafeMutationSum(floor=10.0), seed=1)
    assert lanes_of(model).functions.made == compiled


def test_double_precision_is_kept() -> None:
    model = dense("float64")
    parents = functional.initial(model, 3)
    assert parents.dtype == np.float64
    children = functional.mutate(model, parents, X, "sm-g-abs", intensity=1e-12)
    assert children.dtype == np.float64
    assert 0.0 < np.abs(children - parents).max() < 1e-9
    assert functional.outputs(model, parents, X).dtype == np.float64
