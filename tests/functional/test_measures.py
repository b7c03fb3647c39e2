"""Sensitivities, divergences and outputs of many genomes, by their closed forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsm
from tests.functional.networks import dense, linear, normal, pictures, recurrent, two_inputs
from tfsm import functional

X = normal(6, 3)


@pytest.mark.parametrize(
    ("mutation", "of_inputs"),
    [("sm-g-sum", lambda x: np.abs(x.sum(axis=0))), ("sm-g-abs", lambda x: np.abs(x).mean(axis=0))],
)
def test_a_linear_model_is_as_sensitive_as_its_inputs_are_large(mutation: str, of_inputs: Any) -> None:
    """Every weight reaches one output, by its own input."""
    model, genomes = linear(2), normal(3, 6)
    found = functional.sensitivity(model, genomes, X, mutation)
    np.testing.assert_allclose(found, np.tile(np.repeat(of_inputs(X), 2), [3, 1]), rtol=1e-5)
    np.testing.assert_array_equal(functional.sensitivity(model, genomes[1], X, mutation), found[1])
    seen = normal(3, 6, 3, seed=1)
    each = functional.sensitivity(model, genomes, seen, mutation, each=True)
    np.testing.assert_allclose(each, [np.repeat(of_inputs(x), 2) for x in seen], rtol=1e-5)


def test_the_divergence_of_a_linear_model_is_curved_by_its_inputs() -> None:
    """D is the mean of (x d)^2, whose second derivative along v is 2 x (x v); SM-G-SO is the root of its size."""
    model, genomes = linear(1), normal(2, 3)
    ahead = np.array([[1.0, 2.0, 4.0], [-3.0, 0.5, 1.0]], np.float32)
    found = functional.sensitivity(model, genomes, X, "sm-g-so", direction=ahead)
    curvature = 2 * (X.T @ (X @ ahead.T)).T / len(X)
    np.testing.assert_allclose(found, np.sqrt(np.abs(curvature)), rtol=1e-4)
    one_for_all = functional.sensitivity(model, genomes, X, "sm-g-so", direction=ahead[1])
    np.testing.assert_allclose(one_for_all, np.sqrt(np.abs(curvature[[1, 1]])), rtol=1e-4)


@pytest.mark.parametrize("mutation", ["sm-g-sum", "sm-g-abs", "sm-g-so"])
def test_a_sensitivity_is_the_one_that_tfsm_measures(mutation: str) -> None:
    model = dense()
    genomes = functional.initial(model, 2, scheme="xavier-biased")
    found = functional.sensitivity(model, genomes, X, mutation)
    for b in range(2):
        wanted = tfsm.sensitivity(tfsm.unflatten(model, genomes[b]), X, mutation)
        np.testing.assert_allclose(found[b], wanted, rtol=1e-3, atol=1e-5)


def test_an_operator_needs_no_more_than_a_sensitivity_to_be_measured() -> None:
    found = functional.sensitivity(linear(1), normal(2, 3), X, Ramp())  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, [[0.0, 1.0, 2.0]] * 2)


@dataclass(frozen=True)
class Ramp:
    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + intensity

    def sensitivity(self, network: Any, genome: Any, experience: Any, direction: Any) -> Any:
        return tf.zeros_like(genome) + tf.range(float(network.size))


def test_the_divergence_of_linear_models_is_the_mean_square_of_the_difference() -> None:
    model, genomes, others = linear(2), normal(5, 6), normal(5, 6, seed=1)
    apart = np.square(X @ (genomes - others).reshape(5, 3, 2)).sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(functional.divergence(model, genomes, others, X), apart, rtol=1e-5)
    one = functional.divergence(model, genomes[2], others[2], X)
    assert isinstance(one, float)
    assert one == pytest.approx(apart[2], rel=1e-5)
    for first, second in ((genomes[0], others), (others, genomes[0])):
        to_one = np.square(X @ (genomes[0] - others).reshape(5, 3, 2)).sum(axis=-1).mean(axis=-1)
        np.testing.assert_allclose(functional.divergence(model, first, second, X), to_one, rtol=1e-5)
    seen = normal(5, 4, 3, seed=2)
    each = np.square(seen @ (genomes[0] - others).reshape(5, 3, 2)).sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(functional.divergence(model, genomes[0], others, seen, each=True), each, rtol=1e-5)


@pytest.mark.parametrize("make", [dense, pictures, recurrent])
def test_equal_genomes_diverge_by_exactly_nothing(make: Any) -> None:
    model = make()
    genomes, x = functional.initial(model, 7), normal(4, *model.inputs[0].shape[1:])
    assert functional.divergence(model, genomes, genomes.copy(), x).tolist() == [0.0] * 7
    assert functional.divergence(model, genomes[3], genomes, x)[3] == 0.0


@pytest.mark.parametrize("make", [dense, pictures, recurrent])
def test_outputs_are_those_of_the_keras_models(make: Any) -> None:
    model = make()
    genomes, x = functional.initial(model, 3), normal(4, *model.inputs[0].shape[1:])
    found = functional.outputs(model, genomes, x)
    for b in range(3):
        answered = tfsm.unflatten(model, genomes[b])(x).numpy()
        np.testing.assert_allclose(found[b], answered.reshape(-1, 2), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(functional.outputs(model, genomes[1], x), found[1], rtol=1e-5, atol=1e-6)
    seen = normal(3, 4, *model.inputs[0].shape[1:], seed=1)
    each = functional.outputs(model, genomes, seen, each=True)
    np.testing.assert_allclose(each[2], functional.outputs(model, genomes[2], seen[2]), rtol=1e-5, atol=1e-6)


def test_several_inputs_come_as_a_list_or_by_name() -> None:
    model = two_inputs()
    genomes = functional.initial(model, 2)
    left, right = normal(4, 2), normal(4, 3)
    found = functional.outputs(model, genomes, [left, right])
    wanted = tfsm.unflatten(model, genomes[1])([left, right])
    np.testing.assert_allclose(found[1], wanted, rtol=1e-5, atol=1e-6)
    for given in ((left, right), {"right": right, "left": left}):
        np.testing.assert_array_equal(functional.outputs(model, genomes, given), found)
    both = [np.stack([left, -left]), np.stack([right, -right])]
    by_list = functional.mutate(model, genomes, both, each=True)
    by_name = functional.mutate(model, genomes, dict(zip(("left", "right"), both, strict=True)), each=True)
    np.testing.assert_array_equal(by_list, by_name)
    own = functional.streams(0, 2)
    alone = functional.mutate(model, genomes[1], {"left": -left, "right": -right}, seed=int(own[1]))
    np.testing.assert_allclose(by_list[1], alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("each", [False, True])
def test_no_genomes_have_no_children_but_shapes(each: bool) -> None:
    model = recurrent()
    none, x = functional.initial(model, 0), normal(*([0] if each else []), 4, 3, 2)
    assert none.shape == functional.mutate(model, none, x, each=each).shape == (0, tfsm.flatten(model).size)
    assert functional.sensitivity(model, none, x, each=each).shape == none.shape
    assert functional.divergence(model, none, none, x, each=each).shape == (0,)
    assert functional.divergence(model, none, tfsm.flatten(model), x, each=each).shape == (0,)
    assert functional.outputs(model, none, x, each=each).shape == (0, 12, 2)
    assert functional.streams(5, 0).shape == (0,)


def test_arrays_may_lie_in_memory_as_they_like() -> None:
    model = linear(1)
    genomes, x = normal(3, 8).T[::2], normal(3, 12).T[::-2]
    assert not genomes.flags.c_contiguous
    expected = x @ genomes.T
    np.testing.assert_allclose(functional.outputs(model, genomes, x)[..., 0], expected.T, rtol=1e-5, atol=1e-6)
    wide = genomes.astype(np.float64)
    wide.flags.writeable = False
    np.testing.assert_array_equal(
        functional.mutate(model, wide, x), functional.mutate(model, np.ascontiguousarray(genomes), np.array(x))
    )


def test_frozen_layers_are_no_part_of_a_genome() -> None:
    kl = keras.layers
    model = keras.Sequential([keras.Input((3,)), kl.Dense(2, name="kept"), kl.Dense(1, name="own")])
    assert functional.initial(model, 1).shape == (1, 11)
    model.get_layer("kept").trainable = False
    genomes = functional.initial(model, 2)
    assert genomes.shape == (2, 3)
    np.testing.assert_allclose(
        functional.outputs(model, genomes, X)[1], tfsm.unflatten(model, genomes[1])(X), rtol=1e-5, atol=1e-6
    )
