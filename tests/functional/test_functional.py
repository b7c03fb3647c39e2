"""Children depend on their parent, the experience and their stream, and on nothing else."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import random
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsm
from tests.functional.networks import OPERATORS, dense, linear, normal, pictures, recurrent, stairs, two_inputs
from tfsm import functional
from tfsm import functional as f
from tfsm.functional._batching import runner_for
from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network

X = normal(6, 3)


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return dense()


@pytest.mark.sample(13)
@pytest.mark.parametrize("mutation", OPERATORS)
def test_a_child_is_that_of_tfsm_mutate(model: keras.Model, mutation: str) -> None:
    genome = tfsm.flatten(model)
    child = functional.mutate(model, genome, X, mutation, intensity=0.05, seed=2**40 + 7)
    expected = tfsm.flatten(tfsm.mutate(model, X, mutation, intensity=0.05, seed=2**40 + 7))
    assert child.shape == genome.shape
    assert child.dtype == np.float32
    # Only one of them is compiled, which may change the last digits.
    np.testing.assert_allclose(child - genome, expected - genome, rtol=2e-3, atol=1e-6)
    assert np.abs(child - genome).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("mutation", ["sm-g-so", "sm-r"])
def test_a_batch_equals_single_calls_bit_for_bit(model: keras.Model, mutation: str) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(("make", "mutation"), [(pictures, "sm-g-abs"), (recurrent, "sm-g-sum")])
def test_pictures_and_sequences_are_mutated_one_at_a_time_or_together(make: Any, mutation: str) -> None:
    model = make()
    x = normal(4, *model.inputs[0].shape[1:])
    parents, own = functional.initial(model, 2), functional.streams(0, 2)
    together = functional.mutate(model, parents, x, mutation, intensity=0.1)
    for b in range(2):
        alone = functional.mutate(model, parents[b], x, mutation, intensity=0.1, seed=int(own[b]))
        np.testing.assert_allclose(together[b], alone, rtol=1e-5, atol=1e-6)
    expected = tfsm.flatten(tfsm.mutate(tfsm.unflatten(model, parents[1]), x, mutation, 0.1, seed=int(own[1])))
    np.testing.assert_allclose(together[1], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.sample(5)
@pytest.mark.parametrize("make", [dense, pictures])
def test_an_experience_per_genome_equals_a_call_per_genome(make: Any) -> None:
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


@pytest.mark.slow
def test_large_batches_are_split_into_several_calls(model: keras.Model) -> None:
    parents = functional.initial(model, 600)
    children = functional.mutate(model, parents, X, "control")
    few = functional.mutate(model, parents[510:515], X, "control", seed=functional.streams(0, 600)[510:515])
    np.testing.assert_array_equal(children[510:515], few)
    assert len(np.unique(children - parents, axis=0)) == 600


@pytest.mark.sample(9)
@pytest.mark.parametrize("mutation", OPERATORS)
def test_no_intensity_is_no_change(model: keras.Model, mutation: str) -> None:
    parents = functional.initial(model, 2)
    np.testing.assert_array_equal(functional.mutate(model, parents, X, mutation, intensity=0.0), parents)


def test_sm_r_reaches_the_target_divergence(model: keras.Model) -> None:
    parents = functional.initial(model, 5)
    for intensity in (0.01, np.float32(1.0)):
        children = functional.mutate(model, parents, X, "sm-r", intensity=intensity)  # type: ignore[arg-type]
        moved = functional.divergence(model, parents, children, X)
        np.testing.assert_allclose(moved, np.full(5, intensity), rtol=0.02)


def test_an_unreachable_divergence_causes_a_warning() -> None:
    bounded = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, "sigmoid")])
    with pytest.warns(UserWarning, match=r"^sm-r: along some directions no magnitude gives a divergence of 5; "):
        functional.mutate(bounded, functional.initial(bounded, 2), X, "sm-r", intensity=5.0)


def test_noise_is_divided_by_the_sensitivity_of_a_linear_model() -> None:
    """The output gradient is the input, whatever the weights, so a change times the mean absolute input is noise."""
    model, parents = linear(1), np.zeros([2, 3])
    inputs = np.array([[[2.0, -0.5, 4.0], [2.0, 1.5, -8.0]], [[0.5, -3.0, 1.0], [1.5, 3.0, 0.0]]])
    noise = [functional.mutate(model, parents, x, "sm-g-abs", intensity=0.1) * np.abs(x).mean(axis=0) for x in inputs]
    np.testing.assert_allclose(noise[0], noise[1], rtol=1e-5)
    assert 0.01 < noise[0].std() < 0.3


def test_options_are_passed_to_the_operator_which_may_be_an_object(model: keras.Model) -> None:
    from tfsm_plugins.mutations.gradient import SafeMutationSum

    parents = functional.initial(model, 2)
    usual = functional.mutate(model, parents, X, intensity=0.05)
    gentle = functional.mutate(model, parents, X, intensity=0.05, floor=10.0)
    assert np.abs(gentle - parents).max() < np.abs(usual - parents).max()
    np.testing.assert_array_equal(gentle, functional.mutate(model, parents, X, SafeMutationSum(floor=10.0), 0.05))
    compiled = runner_for(model).functions.misses
    functional.mutate(model, parents, X, SafeMutationSum(floor=10.0), 0.05, seed=1)
    assert runner_for(model).functions.misses == compiled


@dataclass(frozen=True)
class NoiseForSmallWeights:
    """An operator of another package, with Python's `if` on a tensor."""

    batched: ClassVar[bool] = True

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        if tf.reduce_max(tf.abs(parent)) > 100.0:
            return parent
        return parent + intensity


NoiseForSmallWeights.__module__ = "another_package"


def test_an_operator_of_another_package_may_use_python_control_flow_on_tensors(model: keras.Model) -> None:
    small, large = functional.initial(model, 2), np.full([2, len(tfsm.flatten(model))], 1000.0, np.float32)
    np.testing.assert_allclose(functional.mutate(model, small, X, NoiseForSmallWeights(), 0.5), small + 0.5, rtol=1e-6)
    np.testing.assert_array_equal(functional.mutate(model, large, X, NoiseForSmallWeights(), 0.5), large)


def test_double_precision_is_kept() -> None:
    model = dense("float64")
    parents = functional.initial(model, 3)
    assert parents.dtype == np.float64
    children = functional.mutate(model, parents, X, "sm-g-abs", intensity=1e-12)
    assert children.dtype == np.float64
    assert 0.0 < np.abs(children - parents).max() < 1e-9
    assert functional.outputs(model, parents, X).dtype == np.float64


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("mutation", "of_inputs"),
    [("sm-g-sum", lambda x: np.abs(x.sum(axis=0))), ("sm-g-abs", lambda x: np.abs(x).mean(axis=0))],
)
def test_the_sensitivity_of_a_linear_model_is_the_size_of_its_inputs(mutation: str, of_inputs: Any) -> None:
    """Every weight affects one output, through its own input."""
    model, genomes = linear(2), normal(3, 6)
    found = functional.sensitivity(model, genomes, X, mutation)
    np.testing.assert_allclose(found, np.tile(np.repeat(of_inputs(X), 2), [3, 1]), rtol=1e-5)
    np.testing.assert_array_equal(functional.sensitivity(model, genomes[1], X, mutation), found[1])
    seen = normal(3, 6, 3, seed=1)
    each = functional.sensitivity(model, genomes, seen, mutation, each=True)
    np.testing.assert_allclose(each, [np.repeat(of_inputs(x), 2) for x in seen], rtol=1e-5)


def test_the_curvature_of_a_linear_model_follows_from_its_inputs() -> None:
    """D is the mean of (x d)^2, whose second derivative along v is 2 x (x v); SM-G-SO is the root of its size."""
    model, genomes = linear(1), normal(2, 3)
    ahead = np.array([[1.0, 2.0, 4.0], [-3.0, 0.5, 1.0]], np.float32)
    found = functional.sensitivity(model, genomes, X, "sm-g-so", direction=ahead)
    curvature = 2 * (X.T @ (X @ ahead.T)).T / len(X)
    np.testing.assert_allclose(found, np.sqrt(np.abs(curvature)), rtol=1e-4)
    one_for_all = functional.sensitivity(model, genomes, X, "sm-g-so", direction=ahead[1])
    np.testing.assert_allclose(one_for_all, np.sqrt(np.abs(curvature[[1, 1]])), rtol=1e-4)


@pytest.mark.sample(7)
@pytest.mark.parametrize("mutation", ["sm-g-sum", "sm-g-abs", "sm-g-so"])
def test_a_sensitivity_is_that_of_tfsm_sensitivity(mutation: str) -> None:
    model = dense()
    genomes = functional.initial(model, 2, scheme="xavier-biased")
    found = functional.sensitivity(model, genomes, X, mutation)
    for b in range(2):
        expected = tfsm.sensitivity(tfsm.unflatten(model, genomes[b]), X, mutation)
        np.testing.assert_allclose(found[b], expected, rtol=1e-3, atol=1e-5)


def test_an_operator_with_a_sensitivity_method_can_be_measured() -> None:
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
def test_equal_genomes_have_zero_divergence(make: Any) -> None:
    model = make()
    genomes, x = functional.initial(model, 7), normal(4, *model.inputs[0].shape[1:])
    assert functional.divergence(model, genomes, genomes.copy(), x).tolist() == [0.0] * 7
    assert functional.divergence(model, genomes[3], genomes, x)[3] == 0.0


@pytest.mark.sample(7)
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


@pytest.mark.slow
def test_several_inputs_are_a_list_or_a_dictionary() -> None:
    model = two_inputs()
    genomes = functional.initial(model, 2)
    left, right = normal(4, 2), normal(4, 3)
    found = functional.outputs(model, genomes, [left, right])
    expected = tfsm.unflatten(model, genomes[1])([left, right])
    np.testing.assert_allclose(found[1], expected, rtol=1e-5, atol=1e-6)
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
def test_empty_batches_keep_their_shapes(each: bool) -> None:
    model = recurrent()
    none, x = functional.initial(model, 0), normal(*([0] if each else []), 4, 3, 2)
    assert none.shape == functional.mutate(model, none, x, each=each).shape == (0, tfsm.flatten(model).size)
    assert functional.sensitivity(model, none, x, each=each).shape == none.shape
    assert functional.divergence(model, none, none, x, each=each).shape == (0,)
    assert functional.divergence(model, none, tfsm.flatten(model), x, each=each).shape == (0,)
    assert functional.outputs(model, none, x, each=each).shape == (0, 12, 2)
    assert functional.streams(5, 0).shape == (0,)


def test_arrays_may_have_any_memory_layout() -> None:
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


def test_frozen_layers_are_not_part_of_a_genome() -> None:
    kl = keras.layers
    model = keras.Sequential([keras.Input((3,)), kl.Dense(2, name="kept"), kl.Dense(1, name="own")])
    assert functional.initial(model, 1).shape == (1, 11)
    model.get_layer("kept").trainable = False
    genomes = functional.initial(model, 2)
    assert genomes.shape == (2, 3)
    np.testing.assert_allclose(
        functional.outputs(model, genomes, X)[1], tfsm.unflatten(model, genomes[1])(X), rtol=1e-5, atol=1e-6
    )


def test_a_stream_is_the_fold_of_a_seed_and_a_number() -> None:
    found = functional.streams(2**62 + 5, 300)
    assert found.dtype == np.int64
    for b in (0, 255, 256, 299):
        low, high = (int(word) & 0xFFFFFFFF for word in fold_in(root_seed(2**62 + 5), b).numpy())
        assert found[b] == low + ((high & 0x7FFFFFFF) << 32)
    assert len(set(found)) == 300
    assert not set(found) & set(functional.streams(2**62 + 6, 300))
    # Bits are as often one as zero: 300 of them, to within five standard deviations.
    ones = [((found >> bit) & 1).mean() for bit in range(63)]
    assert np.abs(np.array(ones) - 0.5).max() < 5 * 0.5 / math.sqrt(300)


def test_an_initial_genome_depends_on_seed_and_number(model: keras.Model) -> None:
    many = functional.initial(model, 9, seed=4)
    np.testing.assert_array_equal(functional.initial(model, 3, seed=4), many[:3])
    assert len(np.unique(many[:, 0])) == 9
    assert (functional.initial(model, 9, seed=5)[:, 0] != many[:, 0]).all()


def test_initialization_schemes_have_their_spread(model: keras.Model) -> None:
    kernel = slice(0, 12)  # three inputs to four units
    normal = functional.initial(model, 1000)
    assert normal[:, kernel].std() == pytest.approx(math.sqrt(2 / 7), rel=0.05)
    assert (normal[:, 12:16] == 0).all(), "biases are those of the model"
    half = math.sqrt(6 / 7)
    evenly = functional.initial(model, 1000, scheme="xavier-uniform", scale=2.0)[:, kernel]
    assert 0.99 * 2 * half < np.abs(evenly).max() <= 2 * half
    assert functional.initial(model, 1000, scheme="normal", scale=0.3).std() == pytest.approx(0.3, rel=0.05)
    assert 0.49 < np.abs(functional.initial(model, 1000, scheme="uniform", scale=0.5)).max() <= 0.5
    assert functional.initial(model, 1000, scheme="xavier-biased")[:, 12:16].std() > 0.1
    np.testing.assert_array_equal(functional.initial(model, 2, scheme="model"), [tfsm.flatten(model)] * 2)


X_ERRORS, G = normal(6, 3), normal(2, 6)


@dataclass
class Unhashable:
    seen: list[int] = field(default_factory=list)

    def __call__(self, *arguments: Any) -> Any: ...


NAN, HUGE = G.copy(), G.astype(np.float64)
NAN[1, 3], HUGE[0, 0] = np.nan, 1e300

WRONG: dict[str, tuple[Callable[[keras.Model], Any], str]] = {
    "no model": (lambda m: f.mutate("model", G, X_ERRORS), "expected a Keras model, got str"),  # type: ignore[arg-type]
    "unbuilt": (lambda m: f.mutate(keras.Sequential([keras.layers.Dense(2)]), G, X_ERRORS), "is not built"),
    "width": (lambda m: f.mutate(m, G[:, :5], X_ERRORS), "genomes: expected [B, 6] or [6], got an array of [2, 5]"),
    "rank": (lambda m: f.outputs(m, G[None], X_ERRORS), "genomes: expected [B, 6] or [6], got an array of [1, 2, 6]"),
    "whole numbers": (
        lambda m: f.mutate(m, [[1] * 6], X_ERRORS),
        "genomes: expected floating-point numbers, got an array of",
    ),
    "ragged": (lambda m: f.mutate(m, [[1.0], [1.0, 2.0]], X_ERRORS), "genomes: not an array"),
    "nan": (lambda m: f.mutate(m, NAN, X_ERRORS), "genomes: number 1 has NaN or infinite values"),
    "nan alone": (lambda m: f.mutate(m, NAN[1], X_ERRORS), "genomes: the one given has NaN or infinite values"),
    "too large": (
        lambda m: f.mutate(m, HUGE, X_ERRORS),
        "genomes: number 0 has NaN or infinite values, or values too large",
    ),
    "inputs": (lambda m: f.mutate(m, G, X_ERRORS[:, :2]), "takes [N, 3], the experience has [6, 2]"),
    "no inputs": (lambda m: f.outputs(m, G, X_ERRORS[:0]), "the experience is empty"),
    "no axis": (lambda m: f.mutate(m, G, X_ERRORS, each=True), "an axis for the genomes, [2, N, ...]: got [6, 3]"),
    "wrong axis": (lambda m: f.outputs(m, G, np.stack([X_ERRORS] * 3), each=True), "[2, N, ...]: got [3, 6, 3]"),
    "ragged each": (lambda m: f.mutate(m, G, [[1.0], [1.0, 2.0]], each=True), "the experience is not an array"),
    "one of two": (lambda m: f.outputs(two_inputs(), normal(12), normal(4, 2)), "the model takes 2 inputs"),
    "name": (lambda m: f.mutate(m, G, X_ERRORS, "sm-gsum"), "no mutation named 'sm-gsum', did you mean 'sm-g-sum'?"),
    "option": (lambda m: f.mutate(m, G, X_ERRORS, flor=1), "flor: no such option, did you mean 'floor'?"),
    "value": (lambda m: f.mutate(m, G, X_ERRORS, floor=-1.0), "floor=-1.0: expected a number > 0"),
    "no operator": (
        lambda m: f.mutate(m, G, X_ERRORS, 3),
        "mutation: expected the name of an operator or an operator, got 3",
    ),  # type: ignore[arg-type]
    "a class": (
        lambda m: f.mutate(m, G, X_ERRORS, Unhashable),
        "expected the name of an operator or an operator, got <class",
    ),  # type: ignore[arg-type]
    "unhashable": (lambda m: f.mutate(m, G, X_ERRORS, Unhashable()), "the operator Unhashable is not hashable"),
    "twofold": (lambda m: f.mutate(m, G, X_ERRORS, len, floor=1.0), "floor: options are for an operator given by name"),  # type: ignore[arg-type]
    "intensity": (lambda m: f.mutate(m, G, X_ERRORS, intensity=-1.0), "intensity: expected a number >= 0, got -1.0"),
    "intensity in words": (lambda m: f.mutate(m, G, X_ERRORS, intensity="much"), "intensity: expected a number >= 0"),  # type: ignore[arg-type]
    "intensity nan": (
        lambda m: f.mutate(m, G, X_ERRORS, intensity=np.nan),
        "intensity: expected a number >= 0, got nan",
    ),
    "intensities": (
        lambda m: f.mutate(m, G, X_ERRORS, intensity=np.ones(2)),
        "one number for all genomes, got an array",
    ),  # type: ignore[arg-type]
    "seed": (lambda m: f.mutate(m, G, X_ERRORS, seed=-1), "seed: expected a whole number from 0 to 2**63 - 1, got -1"),
    "broken seed": (lambda m: f.mutate(m, G, X_ERRORS, seed=0.5), "seed: expected a whole number from 0"),
    "seed of bool": (lambda m: f.mutate(m, G, X_ERRORS, seed=True), "seed: expected a whole number from 0"),
    "seeds of one": (lambda m: f.mutate(m, G[0], X_ERRORS, seed=[1]), "seed: expected a whole number from 0"),
    "seeds": (lambda m: f.mutate(m, G, X_ERRORS, seed=[1, 2, 3]), "an array of 2 of them, got an array of shape (3,)"),
    "broken seeds": (
        lambda m: f.mutate(m, G, X_ERRORS, seed=[1.0, 2.0]),
        "an array of 2 of them, got an array of float64",
    ),
    "negative seeds": (
        lambda m: f.mutate(m, G, X_ERRORS, seed=[1, -2]),
        "seed: expected whole numbers from 0 to 2**63 - 1",
    ),
    "large seeds": (
        lambda m: f.mutate(m, G, X_ERRORS, seed=np.array([1, 2**63], np.uint64)),
        "from 0 to 2**63 - 1 only",
    ),
    "ragged seeds": (
        lambda m: f.mutate(m, G, X_ERRORS, seed=[[1], [1, 2]]),
        "an array of 2 of them, one for each genome",
    ),
    "insensitive": (lambda m: f.sensitivity(m, G, X_ERRORS, "sm-r"), "'sm-r' measures no sensitivity: use sm-g-sum"),
    "direction": (lambda m: f.sensitivity(m, G, X_ERRORS, direction=np.ones(3)), "direction: expected [B, 6] or [6]"),
    "directions": (
        lambda m: f.sensitivity(m, G, X_ERRORS, direction=np.ones([3, 6])),
        "one for each of 2 genomes, or one",
    ),
    "pairs": (lambda m: f.divergence(m, G, np.stack([G[0]] * 3), X_ERRORS), "got 2 genomes and 3 others"),
    "others": (
        lambda m: f.divergence(m, G, G[:, :2], X_ERRORS),
        "others: expected [B, 6] or [6], got an array of [2, 2]",
    ),
    "scheme": (lambda m: f.initial(m, 2, scheme="xavier"), "no scheme named 'xavier'"),  # type: ignore[arg-type]
    "scale": (lambda m: f.initial(m, 2, scale=-1.0), "scale: expected a number >= 0, got -1.0"),
    "scale in words": (lambda m: f.initial(m, 2, scale="wide"), "scale: expected a number >= 0, got 'wide'"),  # type: ignore[arg-type]
    "count": (lambda m: f.initial(m, -2), "count: expected a whole number >= 0, got -2"),
    "broken count": (lambda m: f.streams(0, 2.0), "count: expected a whole number >= 0, got 2.0"),  # type: ignore[arg-type]
    "stairs": (lambda m: f.mutate(stairs(), normal(2, 8), normal(99, 3)), "the model 'stairs' is not differentiable"),
}


@pytest.fixture(scope="module")
def model_errors() -> keras.Model:
    return linear(2)


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_reported(name: str, model_errors: keras.Model) -> None:
    call, message = WRONG[name]
    with pytest.raises(tfsm.TfsmError) as caught:
        call(model_errors)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_sm_r_works_without_a_gradient() -> None:
    model_errors, x = stairs(), normal(999, 3)  # many, so that the divergence moves by small steps
    genomes = f.initial(model_errors, 2)
    with pytest.raises(tfsm.TfsmError, match="use the mutation 'sm-r'"):
        f.sensitivity(model_errors, genomes, x)
    children = f.mutate(model_errors, genomes, x, "sm-r", 0.5)
    assert (f.divergence(model_errors, genomes, children, x) > 0).all()


def call_all(model_purity: keras.Model, genomes: np.ndarray, x: np.ndarray, seed: int = 0) -> list[Any]:
    children = functional.mutate(model_purity, genomes, x, seed=seed)
    return [
        children,
        functional.sensitivity(model_purity, genomes, x),
        functional.divergence(model_purity, genomes, children, x),
        functional.outputs(model_purity, genomes, x),
        functional.initial(model_purity, 2, seed),
        functional.streams(seed, 2),
    ]


@pytest.fixture(scope="module")
def model_purity() -> keras.Model:
    return linear(2)


def test_arguments_and_model_are_not_changed(model_purity: keras.Model) -> None:
    genomes, x = normal(2, 6), X.copy()
    own, before = genomes.copy(), [v.numpy().copy() for v in model_purity.variables]
    found = call_all(model_purity, genomes, x)
    np.testing.assert_array_equal(genomes, own)
    np.testing.assert_array_equal(x, X)
    for variable, value in zip(model_purity.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    for array in found:
        assert not np.shares_memory(array, genomes)
        array += 1  # the caller may change the result
    np.testing.assert_array_equal(genomes, own)
    empty = np.empty([0, 6], np.float32)
    assert functional.mutate(model_purity, empty, X) is not empty


def test_calls_are_reproducible_and_use_no_global_generator(model_purity: keras.Model) -> None:
    genomes = normal(2, 6)

    def states() -> tuple[Any, ...]:
        return random.getstate(), np.random.get_state()[1].tolist(), tf.random.get_global_generator().state.numpy()  # type: ignore[index]  # noqa: NPY002

    before = states()
    first = call_all(model_purity, genomes, X)
    keras.utils.set_random_seed(99)
    between = states()
    again = call_all(model_purity, genomes, X)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_equal(states(), between)
    assert before[0] != between[0]
    drawn = []
    for calls in (False, True):  # also random numbers of TensorFlow that depend on the operation counter
        tf.random.set_seed(5)
        if calls:
            call_all(model_purity, genomes, X)
        drawn.append(float(tf.random.uniform([])))
    assert drawn[0] == drawn[1]


def test_only_frozen_weights_of_the_model_are_used(model_purity: keras.Model) -> None:
    kl = keras.layers
    other = keras.Sequential([keras.Input((3,)), kl.BatchNormalization(scale=False, center=False), kl.Dense(1)])
    genomes = normal(2, 4)
    before = functional.outputs(other, genomes, X)
    other.layers[-1].kernel.assign(np.ones([3, 1]))
    np.testing.assert_array_equal(functional.outputs(other, genomes, X), before)
    assert functional.initial(other, 1, scheme="model").tolist() == [[1.0, 1.0, 1.0, 0.0]]
    # Statistics are no part of a genome, and may have changed since the function was compiled.
    other.layers[0].moving_mean.assign([1.0, 2.0, 3.0])
    shifted = tfsm.unflatten(other, genomes[1])(X)
    np.testing.assert_allclose(functional.outputs(other, genomes, X)[1], shifted, rtol=1e-5, atol=1e-6)


def test_compiled_functions_are_freed_with_the_model() -> None:
    gone = []
    for _ in range(2):
        model_purity = linear(1)
        functional.mutate(model_purity, normal(2, 3), X, "control")
        gone.append(weakref.ref(model_purity))
        del model_purity
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_a_model_can_still_be_saved_copied_and_pickled(model_purity: keras.Model, tmp_path: Path) -> None:
    functional.mutate(model_purity, normal(2, 6), X)
    model_purity.save(tmp_path / "model.keras")
    for twin in (
        keras.models.load_model(tmp_path / "model.keras"),
        copy.deepcopy(model_purity),
        pickle.loads(pickle.dumps(model_purity)),
        keras.models.clone_model(model_purity),
    ):
        assert "_tfsm_runner" not in vars(twin)
        assert [w.shape for w in twin.variables] == [w.shape for w in model_purity.variables]


@pytest.mark.slow
def test_threads_may_share_a_model() -> None:
    """Threads get their own results, and nothing is compiled twice."""
    model_purity, genomes = dense(), normal(4, 26)
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda i: functional.mutate(model_purity, genomes + i, X, "sm-g-abs", seed=i), range(8))  # type: ignore[operator]
        )
    for i, children in enumerate(found):
        np.testing.assert_array_equal(children, functional.mutate(model_purity, genomes + i, X, "sm-g-abs", seed=i))
    assert vars(model_purity)["_tfsm_runner"].runner.functions.misses == 1
