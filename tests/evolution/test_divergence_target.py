"""Children at a target divergence: every operator reaches it, in the direction that its formula gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import tfsm
from tests.mutations.cases import case, noise_of, operator
from tests.reference import measures
from tfsm.errors import TfsmError
from tfsm.evolution.divergence import DivergenceTarget, perturb, to_unit_length
from tfsm.evolution.variation import mutate_batch
from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.random import root_seed
from tfsm.kernels.sensitivity import guard_relative, variance_of
from tfsm.models.network import Network

OPERATORS = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so", "sm-g-rms")
TOLERANCE = 0.05


def child_of(name: str, mutation: str, value: float, target: DivergenceTarget, **options: object) -> tuple[float, dict]:
    """Return the divergence of a child of one of the cases, and its diagnostics."""
    of = case(name)
    parent, seen = tf.constant(of.genome[None]), tf.constant(of.inputs[None])
    part = operator(mutation, **({"guard": "relative"} | options if mutation.startswith("sm-g") else options))
    child = mutate_batch(
        part, of.network, parent, seen, tf.constant(value, tf.float64), root_seed(3)[None], target=target
    )
    return measures.divergence(
        of.rows(of.genome, of.inputs), of.rows(child.genome.numpy()[0], of.inputs)
    ), child.diagnostics


@pytest.mark.sample(11)
@pytest.mark.parametrize("value", [1e-4, 0.02])
@pytest.mark.parametrize("name", ["dense", "simple-rnn", "conv2d", "lstm, every time a row"])
@pytest.mark.parametrize("mutation", OPERATORS)
def test_every_operator_reaches_a_divergence(mutation: str, name: str, value: float) -> None:
    found, diagnostics = child_of(name, mutation, value, DivergenceTarget())
    assert found == pytest.approx(value, rel=TOLERANCE)
    assert diagnostics["unreached"].numpy() == 0


def test_a_relative_divergence_is_a_share_of_the_variance_of_the_outputs() -> None:
    of = case("dense")
    variance = of.rows(of.genome, of.inputs).var(axis=0).sum()
    found, _ = child_of("dense", "sm-g-sum", 0.01, DivergenceTarget(relative=True))
    assert found == pytest.approx(0.01 * variance, rel=TOLERANCE)


@pytest.mark.parametrize("mutation", ["sm-g-sum", "sm-g-abs", "sm-g-so", "sm-g-rms"])
def test_the_direction_is_the_noise_divided_by_the_guarded_sensitivity(mutation: str) -> None:
    of = case("dense")
    noise = noise_of(3, len(of.genome))
    s = {
        "sm-g-sum": measures.sum_sensitivity(of.jacobian),
        "sm-g-abs": measures.abs_sensitivity(of.jacobian),
        "sm-g-rms": measures.rms_sensitivity(of.jacobian),
        "sm-g-so": measures.so_sensitivity(of.jacobian, noise / np.linalg.norm(noise)),
    }[mutation]
    along = noise / np.maximum(s, 0.3 * np.sqrt(np.mean(s**2)))
    child = mutate_batch(
        operator(mutation, guard="relative", guard_share=0.3),
        of.network,
        tf.constant(of.genome[None]),
        tf.constant(of.inputs[None]),
        tf.constant(0.01, tf.float64),
        root_seed(3)[None],
        target=DivergenceTarget(),
    )
    change = child.genome.numpy()[0] - of.genome
    np.testing.assert_allclose(change / np.linalg.norm(change), along / np.linalg.norm(along), rtol=1e-4, atol=1e-6)


def test_an_unreachable_divergence_is_reported_and_the_child_is_finite() -> None:
    found, diagnostics = child_of("dense", "sm-g-abs", 1e9, DivergenceTarget())
    assert diagnostics["unreached"].numpy() == 1
    assert np.isfinite(found)


def test_a_divergence_of_zero_gives_the_parent() -> None:
    found, diagnostics = child_of("dense", "control", 0.0, DivergenceTarget(relative=True))
    assert (found, diagnostics["unreached"].numpy()) == (0.0, 0)


class Doubling:
    """An operator of another package: not batched, without `perturb`, and with a change of its own."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        return parent + intensity * tf.abs(network.noise(seed))


def test_an_operator_without_a_perturbation_reaches_a_divergence() -> None:
    of = case("dense")
    parents = tf.constant(np.stack([of.genome, 0.5 * of.genome]))
    seeds = tf.constant([[1, 2], [3, 4]])
    seen = tf.constant(of.inputs[None])
    child = mutate_batch(Doubling(), of.network, parents, seen, 0.01, seeds, target=DivergenceTarget())
    for before, after in zip(parents.numpy(), child.genome.numpy(), strict=True):
        found = measures.divergence(of.rows(before, of.inputs), of.rows(after, of.inputs))
        assert found == pytest.approx(0.01, rel=TOLERANCE)
        assert (after >= before).all()


def test_the_relative_guard_has_no_scale() -> None:
    s = tf.constant([[1.0, 2.0, 0.001, 0.0]])
    r = float(np.sqrt(np.mean(np.square([1.0, 2.0, 0.001, 0.0]))))
    np.testing.assert_allclose(guard_relative(s, 0.1), [[1.0, 2.0, 0.1 * r, r]], rtol=1e-6)
    for factor in (1e-25, 1e25):
        np.testing.assert_allclose(guard_relative(factor * s, 0.1), factor * guard_relative(s, 0.1), rtol=1e-5)
    np.testing.assert_array_equal(guard_relative(tf.zeros([1, 3]), 0.1), np.ones([1, 3]))


def test_a_sensitivity_that_is_a_rounding_error_counts_as_none() -> None:
    guarded = guard_relative(tf.constant([[1.0, 1.0, 1e-8, 0.0, 1e-4]]), 0.01).numpy()[0]
    r = np.sqrt(2 / 5)
    np.testing.assert_allclose(guarded, [1.0, 1.0, r, r, 0.01 * r], rtol=1e-6)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def noise_with(scale: float) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(0.0, scale)


def build_dead() -> tuple[keras.Model, np.ndarray]:
    """Return a network in which four of eight units never fire."""
    hidden = kl.Dense(8, "relu")
    model = keras.Sequential([keras.Input((4,)), hidden, kl.Dense(3)])
    hidden.bias.assign([-50.0] * 4 + [0.0] * 4)
    return model, normal(40, 4)


def build_saturated() -> tuple[keras.Model, np.ndarray]:
    layers = [kl.Dense(8, "tanh", kernel_initializer=noise_with(5.0)), kl.Dense(3, "softmax", False, noise_with(15.0))]
    return keras.Sequential([keras.Input((4,)), *layers]), normal(40, 4)


def build_batch_normalized() -> tuple[keras.Model, np.ndarray]:
    normalization = kl.BatchNormalization()
    layers = [kl.Conv2D(4, 3), normalization, kl.ReLU(), kl.Flatten(), kl.Dense(3)]
    model = keras.Sequential([keras.Input((6, 6, 1)), *layers])
    normalization.moving_variance.assign([1e-6, 1.0, 1.0, 1e4])
    return model, normal(40, 6, 6, 1)


def build_layer_normalized() -> tuple[keras.Model, np.ndarray]:
    layers = [kl.Dense(8, kernel_initializer=noise_with(300.0)), kl.LayerNormalization(), kl.Dense(3)]
    return keras.Sequential([keras.Input((4,)), *layers]), normal(40, 4)


def build_residual() -> tuple[keras.Model, np.ndarray]:
    """Return three blocks, which hardly add anything yet."""
    x = start = keras.Input((6,))
    for _ in range(3):
        x = kl.Add()([x, kl.Dense(6, kernel_initializer=noise_with(1e-3))(kl.Dense(6, "relu")(x))])
    return keras.Model(start, kl.Dense(3)(x)), normal(40, 6)


def build_embedding() -> tuple[keras.Model, np.ndarray]:
    """Return a network with 20 words, half of which are not in the experience."""
    layers = [kl.Embedding(20, 4), kl.GlobalAveragePooling1D(), kl.Dense(3)]
    model = keras.Sequential([keras.Input((5,), dtype="int32"), *layers])
    return model, np.random.default_rng(0).integers(0, 10, (40, 5))


def build_attention() -> tuple[keras.Model, np.ndarray]:
    start = keras.Input((5, 4))
    x = kl.Add()([start, kl.MultiHeadAttention(2, 4)(start, start)])
    x = kl.GlobalAveragePooling1D()(kl.LayerNormalization()(x))
    return keras.Model(start, kl.Dense(3)(x)), normal(40, 5, 4)


DELICATE = {
    "dead units": build_dead,
    "saturated outputs": build_saturated,
    "batch normalization": build_batch_normalized,
    "layer normalization": build_layer_normalized,
    "residual": build_residual,
    "embedding": build_embedding,
    "attention": build_attention,
}


@pytest.mark.sample(9)
@pytest.mark.parametrize("mutation", ["sm-g-sum", "sm-g-abs", "sm-g-rms", "sm-g-so"])
@pytest.mark.parametrize("name", DELICATE)
def test_no_weight_receives_an_outsized_change(name: str, mutation: str) -> None:
    """Weights without any influence change like average ones, and no weight a hundred times as much as these."""
    keras.utils.set_random_seed(1)
    model, x = DELICATE[name]()
    genome = tfsm.flatten(model)
    noise = noise_of(1, genome.size)
    child = tfsm.mutate(model, x, mutation, divergence="1%", seed=1)
    outputs = model.predict(x, verbose=0)
    reached = tfsm.divergence(model, child, x) / outputs.var(axis=0).sum()
    assert reached == pytest.approx(0.01, rel=TOLERANCE + 2e-3)
    s = tfsm.sensitivity(model, x, mutation, noise / np.linalg.norm(noise)).astype(np.float64)
    s /= np.sqrt(np.mean(s**2))
    change = np.abs((tfsm.flatten(child) - genome) / noise)
    change /= np.median((change * s)[s > 0.1])  # in units of that of an average weight
    assert change.max() < 101
    without = s < (1e-3 if mutation == "sm-g-so" else 1e-6)
    np.testing.assert_allclose(change[without], 1.0, rtol=0.02)
    if name in ("dead units", "embedding", "attention"):
        assert without.sum() >= 8


def test_constant_outputs_are_compared_with_their_mean_square() -> None:
    rows = tf.constant([[[1.0, 2.0], [3.0, 2.0]], [[3.0, 4.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
    np.testing.assert_allclose(variance_of(rows), [1.0, 25.0, 1.0])


def build_wide(activation: str, gain: float = 1.0) -> tuple[keras.Model, np.ndarray]:
    """Return a network with 40 experiences, of which a search begins with five; `gain` makes it more confident."""
    keras.utils.set_random_seed(1)
    hidden = kl.Dense(16, "tanh", kernel_initializer=keras.initializers.RandomNormal(0.0, 0.5))
    last = kl.Dense(4, activation, kernel_initializer=keras.initializers.RandomNormal(0.0, gain))
    model = keras.Sequential([keras.Input((6,)), hidden, last])
    return model, np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)


def search_of(model: keras.Model, x: np.ndarray, value: float, *, relative: bool = False) -> tuple[np.ndarray, ...]:
    """Return the divergence of four children by plain noise on all of the experience, and their forward passes."""
    network = Network(model)
    parents = tf.repeat(tf.constant(network.genome[None]), 4, axis=0)
    seeds = tf.constant([[1, 2], [3, 4], [5, 6], [7, 8]])
    seen = tf.constant(x[None])
    target = DivergenceTarget(relative=relative)
    child = mutate_batch(operator("control"), network, parents, seen, value, seeds, target=target)
    before, after = (network.rows(genomes, seen).numpy() for genomes in (parents, child.genome))
    moved = np.array([measures.divergence(b, a) for b, a in zip(before, after, strict=True)])
    return moved, child.diagnostics["search_steps"].numpy()


@pytest.mark.parametrize("activation", ["linear", "tanh", "softmax", "sigmoid"])
def test_the_divergence_holds_on_all_experiences_though_the_search_begins_with_few(activation: str) -> None:
    model, x = build_wide(activation)
    x[::8] *= 0.1  # those that it begins with are not like the others
    moved, _ = search_of(model, x, 0.003)
    np.testing.assert_allclose(moved, 0.003, rtol=TOLERANCE + 1e-3)


@pytest.mark.parametrize("activation", ["linear", "softmax"])
def test_a_divergence_costs_at_most_three_forward_passes_on_average(activation: str) -> None:
    model, x = build_wide(activation, gain=4.0)
    moved, passes = search_of(model, x, 0.01, relative=True)
    assert moved.std() < 0.05 * moved.mean()
    assert passes.mean() <= 3
    assert (passes * 8 == np.round(passes * 8)).all()  # trials on an eighth count an eighth


def test_a_change_whose_square_overflows_still_has_a_direction() -> None:
    change = tf.constant([[3e30, 4e30], [0.0, 0.0]])
    np.testing.assert_allclose(to_unit_length(change), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)


MODELS = {
    "dense": ((3,), lambda: [kl.Dense(4, "tanh")]),
    "recurrent": ((5, 2), lambda: [kl.GRU(3)]),
    "convolution": ((6, 6, 1), lambda: [kl.Conv2D(3, 3, activation="relu"), kl.BatchNormalization(), kl.Flatten()]),
    "depthwise": ((6, 6, 2), lambda: [kl.DepthwiseConv2D(3), kl.Flatten()]),
    "convlstm": ((3, 5, 5, 1), lambda: [kl.ConvLSTM2D(2, 3), kl.Flatten()]),
    "embedding": ((6,), lambda: [kl.Embedding(5, 3), kl.Flatten()]),
}


@pytest.mark.sample(59)
@pytest.mark.parametrize("genomes", [1, 4])
@pytest.mark.parametrize("outputs", [1, 8, 9, 40])
@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("mutation", OPERATORS)
def test_any_number_of_outputs_and_genomes_is_compiled(mutation: str, family: str, outputs: int, genomes: int) -> None:
    shape, layers = MODELS[family]
    model = keras.Sequential([keras.Input(shape), *layers(), kl.Dense(outputs)])
    x = np.random.default_rng(0).integers(0, 5, (4, *shape)).astype(np.float32)
    parents = tfsm.functional.initial(model, genomes, seed=1)
    children = tfsm.functional.mutate(model, parents, x, mutation, divergence=0.01, seed=2)
    found = tfsm.functional.divergence(model, parents, children, x)
    np.testing.assert_allclose(found, np.full(genomes, 0.01), rtol=TOLERANCE + 1e-3)


def test_convolutions_with_many_outputs_and_an_intensity_are_compiled() -> None:
    model = keras.Sequential([keras.Input((6, 6, 1)), kl.Conv2D(2, 3), kl.Flatten(), kl.Dense(10)])
    parents = tfsm.functional.initial(model, 3)
    x = np.ones((2, 6, 6, 1), np.float32)
    children = tfsm.functional.mutate(model, parents, x, "sm-g-sum", intensity=0.01)
    assert children.shape == parents.shape
    assert (children != parents).any()


def test_intensity_and_divergence_exclude_each_other() -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(2)])
    for mutate, parent in (
        (tfsm.mutate, model),
        (lambda *a, **k: tfsm.functional.mutate(model, *a, **k), np.ones((1, 6))),
    ):
        with pytest.raises(TfsmError, match="exclude each other"):
            mutate(parent, np.ones((3, 2)), intensity=0.1, divergence="1%")


def test_children_with_outputs_that_are_not_finite_are_reported() -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(2, "exponential")])
    with pytest.warns(UserWarning, match="not finite"):
        tfsm.mutate(model, np.ones((3, 2)), "control", intensity=1e6)


@pytest.mark.parametrize("mutation", ["sm-g-sum", "sm-g-so"])
def test_a_divergence_shares_the_pass_of_the_parent_with_the_sensitivity(mutation: str) -> None:
    """XLA computes equal layers once: the outputs of the parent add only the product of the last layer."""
    layers = [kl.Dense(6, "tanh"), kl.Dense(7, "tanh"), kl.Dense(2)]
    network = Network(keras.Sequential([keras.Input((5,)), *layers]))
    parents, seen = tf.constant(network.genome[None]), tf.constant(normal(1, 10, 5))
    change = partial(perturb, operator(mutation, guard="relative"), network, parents, seen)

    def count_products(function: Callable[[Tensor], object]) -> int:
        compiled = tf.function(function, jit_compile=True, autograph=False)
        text = compiled.experimental_get_compiler_ir(root_seed(1)[None])(stage="optimized_hlo")
        return len(re.findall(r"= .* dot\(", text))

    alone = count_products(change)
    assert alone >= 3
    assert count_products(lambda seed: (change(seed), network.rows(parents, seen))) <= alone + 1
