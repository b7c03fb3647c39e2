"""The gradient operators: closed forms, NumPy twins, guards, probes and reuse of sensitivities."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from keras import layers as kl

import tfsm
from tests.mutations.cases import GRADIENT, SPECS, case, children, noise_of, operator, sensitivity
from tests.reference import measures
from tests.reference.threefry import gaussian
from tfsm.evolution.variation import mutate_batch
from tfsm.kernels import sensitivity as sensitivity_kernels
from tfsm.kernels.random import root_seed
from tfsm.kernels.sensitivity import divergence, hessian_vector_product
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm_domains.pixel_maze.topdown import TopdownMaze

INPUTS = arrays(np.float64, (4, 3), elements=st.floats(-10, 10).map(lambda x: round(x, 3)))


def linear(outputs: int = 2, **options: Any) -> keras.Model:
    dense = kl.Dense(outputs, dtype="float64", **options)
    return keras.Sequential([keras.Input((3,), dtype="float64"), dense])


LINEAR = linear()
X = np.random.default_rng(1).standard_normal((6, 3))


def simple(task: str = "simple-medium") -> keras.Model:
    return load_plugins().domains[task].load()().network()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(INPUTS)
def test_abs_sensitivity_of_a_linear_model_is_the_mean_absolute_input(x: np.ndarray) -> None:
    found = tfsm.sensitivity(LINEAR, x, "sm-g-abs")
    np.testing.assert_allclose(found, [*np.repeat(np.abs(x).mean(axis=0), 2), 1, 1], rtol=1e-12, atol=1e-300)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(INPUTS)
def test_sum_sensitivity_of_a_linear_model_is_the_absolute_summed_input(x: np.ndarray) -> None:
    found = tfsm.sensitivity(LINEAR, x, "sm-g-sum")
    np.testing.assert_allclose(found, [*np.repeat(np.abs(x.sum(axis=0)), 2), 4, 4], rtol=1e-9, atol=1e-12)


def test_second_order_sensitivity_of_a_linear_model_follows_from_second_moments() -> None:
    direction = np.random.default_rng(3).standard_normal(8)
    wide = np.hstack([X, np.ones((6, 1))])
    product = 2 * (wide.T @ wide / 6) @ direction.reshape(4, 2)
    found = tfsm.sensitivity(LINEAR, X, "sm-g-so", direction)
    np.testing.assert_allclose(found, np.sqrt(np.abs(product)).ravel(), rtol=1e-10)


def test_sensitivities_of_a_linear_model_do_not_depend_on_its_weights() -> None:
    other = tfsm.unflatten(LINEAR, np.arange(8.0))
    for name in GRADIENT:
        direction = np.ones(8)
        found, expected = (tfsm.sensitivity(model, X, name, direction) for model in (LINEAR, other))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["sm-g-sum", "sm-g-abs"])
def test_the_simple_model_is_a_thousand_times_as_sensitive_to_one_weight(name: str) -> None:
    np.testing.assert_allclose(tfsm.sensitivity(simple(), [[1.0, 1.0]], name), [100.0, 0.1], rtol=1e-6)


def test_the_simple_models_curvature() -> None:
    found = tfsm.sensitivity(simple(), [[1.0, 1.0]], "sm-g-so", np.array([1.0, 1.0]))
    np.testing.assert_allclose(found, np.sqrt([2 * 100.0**2, 2 * 0.1**2]), rtol=1e-6)


def test_opposite_experiences_cancel_only_in_the_sum() -> None:
    washout = np.array([[1.0, 1.0], [-1.0, -1.0]])
    np.testing.assert_array_equal(tfsm.sensitivity(simple(), washout, "sm-g-sum"), [0.0, 0.0])
    np.testing.assert_allclose(tfsm.sensitivity(simple(), washout, "sm-g-abs"), [100.0, 0.1], rtol=1e-6)
    along = tfsm.sensitivity(simple(), washout, "sm-g-so", np.array([1.0, 1.0]))
    np.testing.assert_allclose(along, np.sqrt([2 * 100.0**2, 2 * 0.1**2]), rtol=1e-6)


def test_duplicated_experiences_double_the_sum_and_leave_the_others() -> None:
    twice, direction = np.vstack([X, X]), np.ones(8)
    for name, factor in (("sm-g-sum", 2.0), ("sm-g-abs", 1.0), ("sm-g-so", 1.0)):
        once = tfsm.sensitivity(LINEAR, X, name, direction)
        np.testing.assert_allclose(tfsm.sensitivity(LINEAR, twice, name, direction), factor * once, rtol=1e-12)


def test_an_output_is_a_vector_whose_length_counts() -> None:
    # y_k = w x for K copies of one weight's output: s grows with the root of K.
    x = keras.Input((1,))
    one = kl.Dense(1, use_bias=False)(x)
    for count in (1, 4, 9):
        model = keras.Model(x, keras.ops.concatenate([one] * count, axis=-1) if count > 1 else one)
        for name in ("sm-g-sum", "sm-g-abs"):
            found = tfsm.sensitivity(model, [[3.0]], name)
            np.testing.assert_allclose(found, [3.0 * np.sqrt(count)], rtol=1e-6)


def test_several_outputs_are_measured_as_one_concatenated() -> None:
    x = keras.Input((3,))
    a, b = kl.Dense(2, "tanh")(x), kl.Dense(3)(x)
    apart, together = keras.Model(x, [a, b]), keras.Model(x, keras.ops.concatenate([a, b], axis=-1))
    direction = np.ones(len(tfsm.flatten(apart)))
    for name in GRADIENT:
        found, expected = (tfsm.sensitivity(model, X, name, direction) for model in (apart, together))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_every_time_of_an_output_is_an_experience() -> None:
    # A Dense layer over time is a linear model with every time as a separate input.
    x = np.random.default_rng(4).standard_normal((5, 7, 3)).astype(np.float32)
    over_time = keras.Sequential([keras.Input((7, 3)), kl.Dense(2)])
    flat = keras.Sequential([keras.Input((3,)), kl.Dense(2)])
    direction = np.ones(8)
    for name in (
        "sm-g-sum",
        "sm-g-abs",
        "sm-g-so",
    ):  # sm-g-rms estimates the sensitivity for many outputs, but not for few
        found = tfsm.sensitivity(over_time, x, name, direction)
        np.testing.assert_allclose(found, tfsm.sensitivity(flat, x.reshape(35, 3), name, direction), rtol=1e-4)


def test_a_weight_that_the_experience_never_touches_has_no_sensitivity() -> None:
    x = X * [1.0, 0.0, 1.0]
    for name in GRADIENT:
        found = tfsm.sensitivity(LINEAR, x, name)
        np.testing.assert_array_equal(found[2:4], [0.0, 0.0])
        assert (found[[0, 1, 4, 5, 6, 7]] > 0).all()


def test_many_outputs_are_measured_as_few_are() -> None:
    wide, x = linear(13), np.random.default_rng(6).standard_normal((4, 3))
    s = np.abs(x).mean(axis=0)
    np.testing.assert_allclose(tfsm.sensitivity(wide, x, "sm-g-abs"), [*np.repeat(s, 13), *np.ones(13)], rtol=1e-12)
    s = np.abs(x.sum(axis=0))
    np.testing.assert_allclose(tfsm.sensitivity(wide, x, "sm-g-sum"), [*np.repeat(s, 13), *np.full(13, 4)], rtol=1e-12)


@pytest.mark.parametrize("name", GRADIENT)
def test_a_safe_child_moves_sensitive_weights_less(name: str) -> None:
    network = Network(simple())
    found = children(network, np.zeros((20, 2)), tf.constant([[[1.0, 1.0]]]), name, 0.1, list(range(20))).genome
    change = np.median(np.abs(found), axis=0)
    assert change[0] < change[1] / 100


@pytest.mark.parametrize("name", SPECS)
def test_the_twin_agrees_with_keras(name: str) -> None:
    of = case(name)
    rows = of.network.rows(tf.constant(of.genome[None]), tf.constant(of.inputs[None]))[0]
    np.testing.assert_allclose(rows, of.rows(of.genome, of.inputs), rtol=1e-10, atol=1e-12)


@pytest.mark.sample(13)
@pytest.mark.parametrize("name", SPECS)
def test_sensitivities_are_those_of_the_formulas_with_finite_differences(name: str) -> None:
    of = case(name)
    direction = np.random.default_rng(2).standard_normal(of.genome.shape)
    for mutation, expected in (
        ("sm-g-sum", measures.sum_sensitivity(of.jacobian)),
        ("sm-g-abs", measures.abs_sensitivity(of.jacobian)),
        ("sm-g-rms", measures.rms_sensitivity(of.jacobian)),
        ("sm-g-so", measures.so_sensitivity(of.jacobian, direction)),
    ):
        np.testing.assert_allclose(
            sensitivity(mutation, of, direction), expected, rtol=1e-5, atol=1e-6, err_msg=mutation
        )


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", SPECS)
def test_the_second_order_product_is_twice_the_mean_of_outer_products_times_the_direction(name: str) -> None:
    of = case(name)
    direction = np.random.default_rng(2).standard_normal(of.genome.shape)
    found = hessian_vector_product(of.network, tf.constant(of.genome), tf.constant(of.inputs), tf.constant(direction))
    flat = of.jacobian.reshape(-1, len(of.genome))
    np.testing.assert_allclose(found, 2 / len(of.jacobian) * flat.T @ (flat @ direction), rtol=1e-6, atol=1e-8)


@pytest.mark.sample(11)
@pytest.mark.parametrize("name", SPECS)
def test_the_second_order_product_is_that_of_nested_tapes_over_equation_1(name: str) -> None:
    of = case(name)
    genome, inputs = tf.constant(of.genome), tf.constant(of.inputs)
    direction = tf.constant(np.random.default_rng(2).standard_normal(of.genome.shape))
    still = of.network.rows(genome, inputs)
    change = tf.zeros_like(genome)
    with tf.GradientTape() as outer:
        outer.watch(change)
        with tf.GradientTape() as inner:
            inner.watch(change)
            moved = of.network.rows(genome + change, inputs)
            divergence = tf.reduce_sum(tf.square(still - moved)) / still.shape[0]
        slope = inner.gradient(divergence, change)
        along = tf.reduce_sum(slope * direction)
    literal = outer.gradient(along, change)
    np.testing.assert_allclose(slope, np.zeros(len(of.genome)), atol=1e-15)
    found = hessian_vector_product(of.network, genome, inputs, direction)
    np.testing.assert_allclose(found, literal, rtol=1e-9, atol=1e-12)


def compute_twin_change(mutation: str, jacobian: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return the change of a genome with this Jacobian by the twin."""
    s = {
        "sm-g-sum": measures.sum_sensitivity(jacobian),
        "sm-g-abs": measures.abs_sensitivity(jacobian),
        "sm-g-rms": measures.rms_sensitivity(jacobian),
        "sm-g-so": measures.so_sensitivity(jacobian, noise / np.linalg.norm(noise)),
    }[mutation]
    return measures.child(np.zeros_like(noise), noise, s)


@pytest.mark.sample(27)
@pytest.mark.parametrize("mutation", GRADIENT)
@pytest.mark.parametrize("name", SPECS)
def test_a_child_is_that_of_the_twin(name: str, mutation: str) -> None:
    of = case(name)
    found = children(of.network, of.genome[None], of.inputs[None], mutation, 0.05, [3]).genome[0].numpy()
    expected = compute_twin_change(mutation, of.jacobian, 0.05 * noise_of(3, len(of.genome)))
    np.testing.assert_allclose(found - of.genome, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.sample(5)
@pytest.mark.parametrize("mutation", GRADIENT)
def test_genomes_in_a_batch_with_experience_of_their_own_get_the_twins_children(mutation: str) -> None:
    of = case("gru")
    rng = np.random.default_rng(8)
    genomes, inputs = rng.standard_normal((3, len(of.genome))), rng.standard_normal((3, *of.inputs.shape))
    found = children(of.network, genomes, tf.constant(inputs), mutation, 0.01, [1, 2, 3]).genome.numpy()
    for b in range(3):
        jacobian = measures.jacobian(of.rows, genomes[b], inputs[b])
        expected = compute_twin_change(mutation, jacobian, 0.01 * noise_of(b + 1, len(of.genome)))
        np.testing.assert_allclose(found[b] - genomes[b], expected, rtol=1e-4, atol=1e-8)


def test_the_control_adds_the_twins_noise() -> None:
    of = case("dense")
    found = children(of.network, of.genome[None], of.inputs[None], "control", 0.3, [9]).genome[0]
    noise = gaussian(root_seed(9).numpy(), len(of.genome))
    np.testing.assert_allclose(found, of.genome + 0.3 * noise, rtol=1e-5, atol=1e-6)


def test_float32_agrees_with_float64() -> None:
    of = case("lstm")
    narrow = keras.Sequential([keras.Input((4, 2)), keras.layers.LSTM(2), keras.layers.Dense(2)])
    genome, inputs = of.genome[None].astype(np.float32), tf.constant(of.inputs[None], tf.float32)
    for mutation in GRADIENT:
        found = children(Network(narrow), genome, inputs, mutation, 0.05, [3]).genome[0].numpy()
        expected = children(of.network, of.genome[None], of.inputs[None], mutation, 0.05, [3]).genome[0].numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


ONE = tf.constant([[[1.0, 1.0]]])
NETWORK = Network(simple())


def change(name: str, experience: tf.Tensor, intensity: float, seed: int = 1, **options: object) -> np.ndarray:
    """Return how the simple model's two weights change from zero."""
    return children(NETWORK, np.zeros((1, 2)), experience, name, intensity, [seed], **options).genome[0].numpy()


@pytest.mark.parametrize(("zero", "expected"), [(1.0, 1.0), (4.0, 4.0), (0.001, 0.01)])
def test_a_sensitivity_of_zero_is_replaced_before_the_floor(zero: float, expected: float) -> None:
    nothing = tf.zeros([1, 3, 2])
    for name in GRADIENT:
        found = change(name, nothing, 0.5, zero=zero)
        np.testing.assert_allclose(found, 0.5 * noise_of(1, 2) / expected, rtol=1e-5)


def test_a_sum_that_cancels_leaves_plain_noise() -> None:
    washout = tf.constant([[[1.0, 1.0], [-1.0, -1.0]]])
    np.testing.assert_allclose(change("sm-g-sum", washout, 0.5), 0.5 * noise_of(1, 2), rtol=1e-5)
    np.testing.assert_allclose(change("sm-g-abs", washout, 0.5), 0.5 * noise_of(1, 2) / [100, 0.1], rtol=1e-5)


@pytest.mark.parametrize(("floor", "divisors"), [(0.01, [100.0, 0.1]), (0.5, [100.0, 0.5]), (500.0, [500.0, 500.0])])
def test_no_sensitivity_is_below_the_floor(floor: float, divisors: list[float]) -> None:
    for name in ("sm-g-sum", "sm-g-abs", "sm-g-rms"):
        found = change(name, ONE, 0.5, floor=floor)
        np.testing.assert_allclose(found, 0.5 * noise_of(1, 2) / divisors, rtol=1e-5)


def test_no_weight_changes_by_more_than_max_change() -> None:
    free = np.stack([change("sm-g-abs", ONE, 0.5, seed) for seed in range(10)])
    held = np.stack([change("sm-g-abs", ONE, 0.5, seed, max_change=0.2) for seed in range(10)])
    assert np.abs(free).max() > 1
    assert np.abs(held).max() == pytest.approx(0.2)
    np.testing.assert_array_equal(held, np.clip(free, -0.2, 0.2).astype(np.float32))


def test_a_unit_direction_makes_the_second_order_child_proportional_to_its_intensity() -> None:
    small, large = (change("sm-g-so", ONE, intensity, floor=1e-9) for intensity in (0.01, 0.04))
    np.testing.assert_allclose(large, 4 * small, rtol=1e-5)


def test_a_direction_as_it_is_makes_the_second_order_child_grow_with_the_root_of_its_intensity() -> None:
    options = {"unit_direction": False, "floor": 1e-9}
    small, large = (change("sm-g-so", ONE, intensity, **options) for intensity in (0.01, 0.04))
    np.testing.assert_allclose(large, 2 * small, rtol=1e-5)


@pytest.mark.parametrize("unit", [True, False])
def test_the_second_order_child_is_the_twins_whatever_the_direction(unit: bool) -> None:
    of, intensity = case("dense"), 0.3
    noise = intensity * noise_of(5, len(of.genome))
    direction = noise / np.linalg.norm(noise) if unit else noise
    expected = measures.child(of.genome, noise, measures.so_sensitivity(of.jacobian, direction))
    given_options = {"unit_direction": unit}
    found = children(of.network, of.genome[None], of.inputs[None], "sm-g-so", intensity, [5], **given_options)
    np.testing.assert_allclose(found.genome[0], expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**62), st.floats(1e-4, 10), st.sampled_from(GRADIENT))
def test_the_change_is_noise_over_a_guarded_sensitivity_for_any_seed(seed: int, intensity: float, name: str) -> None:
    noise = intensity * noise_of(seed, 2)
    jacobian = np.array([[[100.0, 0.0], [0.0, 0.1]]])
    s = {
        "sm-g-sum": measures.sum_sensitivity(jacobian),
        "sm-g-abs": measures.abs_sensitivity(jacobian),
        "sm-g-so": measures.so_sensitivity(jacobian, noise / np.linalg.norm(noise)),
        "sm-g-rms": measures.rms_sensitivity(jacobian),
    }[name]
    found = change(name, ONE, intensity, seed)
    np.testing.assert_allclose(found, measures.child(np.zeros(2), noise, s), rtol=1e-4)


def test_experiences_are_sampled_with_or_without_replacement() -> None:
    # Each experience makes the first weight as sensitive as its own power of two, so that sums tell which were drawn.
    powers = 2.0 ** np.arange(10)
    experience = tf.constant(np.stack([powers / 100, np.zeros(10)], axis=-1)[None], tf.float32)

    def drawn(seed: int, **options: object) -> float:
        return float(0.5 * noise_of(seed, 2)[0] / change("sm-g-sum", experience, 0.5, seed, **options)[0])

    for seed in range(5):
        assert drawn(seed) == pytest.approx(1023, rel=1e-4)
        three = round(drawn(seed, experiences=3))
        assert bin(three).count("1") == 3
    sums = {round(drawn(seed, experiences=3)) for seed in range(5)}
    assert len(sums) > 1
    repeats = [round(drawn(seed, experiences=10, replacement=True)) for seed in range(5)]
    assert all(total != 1023 for total in repeats)


def test_options_configure_an_operator() -> None:
    assert operator("sm-g-abs", floor=0.5) == operator("sm-g-abs", floor=0.5)
    assert operator("sm-g-abs", floor=0.5) != operator("sm-g-abs")


@pytest.mark.parametrize("name", ["sm-g-sum", "sm-g-abs", "sm-g-rms"])
def test_a_child_of_a_known_sensitivity_is_the_child_of_a_call(name: str) -> None:
    of, part = case("dense"), operator(name, max_change=0.5)
    parent, seen, seed = tf.constant(of.genome[None]), tf.constant(of.inputs[None]), root_seed(4)[None]
    strength = tf.constant(0.1, tf.float64)
    known = part.sensitivity(of.network, parent, seen, parent)
    called = part(of.network, parent, seen, strength, seed)
    np.testing.assert_array_equal(part.child(of.network, parent, known, strength, seed), called)


def test_a_sensitivity_is_reused_only_where_it_is_the_same_for_every_child() -> None:
    network = case("dense").network
    for name in ("sm-g-sum", "sm-g-abs", "sm-g-rms"):
        assert operator(name, experiences=16).reusable(network, 16)
        assert operator(name, experiences=16).reusable(network, 5)
        assert not operator(name, experiences=16).reusable(network, 17)
        assert not operator(name, experiences=16, replacement=True).reusable(network, 16)
    assert not operator("sm-g-so", experiences=16).reusable(network, 16)
    for name in ("sm-g-sum", "sm-g-rms"):
        assert not operator(name, probes=1).reusable(network, 16)  # other signs for every child


EXPERIENCES = 3
ALL = ("control", "sm-r", *GRADIENT)
MODELS: dict[str, tuple[tuple[int, ...], Callable[[], list[Any]]]] = {
    "dense": ((3,), lambda: [kl.Dense(6, "tanh"), kl.Dense(2, "softmax")]),
    "simple-rnn": ((4, 1), lambda: [kl.SimpleRNN(5, return_sequences=True), kl.SimpleRNN(5), kl.Dense(2)]),
    "many outputs": ((3,), lambda: [kl.Dense(4, "tanh"), kl.Dense(11, "sigmoid")]),
    "long": ((17, 2), lambda: [kl.SimpleRNN(2)]),
    "conv2d": ((6, 6, 1), lambda: [kl.Conv2D(2, 3, activation="tanh"), kl.Flatten(), kl.Dense(2)]),
    "conv-lstm2d": ((3, 9, 9, 1), lambda: [kl.ConvLSTM2D(3, 3), kl.Flatten(), kl.Dense(2)]),
    "normalized": ((3,), lambda: [kl.Dense(4), kl.LayerNormalization(), kl.Dense(2, "tanh")]),
    "mapped": ((6, 2), lambda: [kl.DepthwiseConv1D(3), kl.Flatten(), kl.Dense(2, "tanh")]),
}
COMPILED = [*(("dense", mutation) for mutation in ALL), ("many outputs", "sm-g-sum"), ("many outputs", "sm-g-abs")]

SAME_TO_THE_BIT = [("simple-rnn", "sm-g-abs"), ("conv-lstm2d", "sm-g-sum"), ("conv-lstm2d", "sm-g-abs")]


def make_network(name: str) -> tuple[Network, np.ndarray]:
    shape, layers = MODELS[name]
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input(shape), *layers()])
    return Network(model), np.random.default_rng(1).standard_normal((20, 6, *shape)).astype(np.float32)


def drawn(network: Network, lanes: int) -> tuple[tf.Tensor, tf.Tensor]:
    genomes = network.genome + 0.3 * np.random.default_rng(2).standard_normal((lanes, network.size))
    return tf.constant(genomes, tf.float32), tf.stack([root_seed(100 + i) for i in range(lanes)])


def mutate(name: str, network: Network, **how: Any) -> Callable[..., tf.Tensor]:
    part, intensity = (
        operator(name, experiences=EXPERIENCES) if name != "control" else operator(name),
        tf.constant(0.02),
    )
    return tf.function(lambda g, x, s: mutate_batch(part, network, g, x, intensity, s).genome, autograph=False, **how)


@pytest.mark.sample(61)
@pytest.mark.parametrize(("name", "mutation"), list(product(MODELS, ALL[1:])))
def test_a_child_is_the_same_eager_and_traced_alone_and_among_others(name: str, mutation: str) -> None:
    network, inputs = make_network(name)
    genomes, seeds = drawn(network, 3)
    traced = mutate(mutation, network)(genomes, tf.constant(inputs[:3]), seeds).numpy()
    eager = mutate(mutation, network).python_function
    alone = eager(genomes[1:2], tf.constant(inputs[1:2]), seeds[1:2]).numpy()
    assert np.isfinite(traced).all()
    assert (traced != genomes.numpy()).mean() > 0.9
    # The line search stops where it is near enough, so that the last bit may decide on a step more.
    rtol, atol = (2e-2, 2e-3) if mutation == "sm-r" else (1e-3, 1e-5)
    np.testing.assert_allclose(alone[0], traced[1], rtol=rtol, atol=atol)


@pytest.mark.sample(19)
@pytest.mark.parametrize(("name", "mutation"), COMPILED)
def test_a_compiled_child_is_the_traced_one(name: str, mutation: str) -> None:
    network, inputs = make_network(name)
    genomes, seeds = drawn(network, 3)
    traced = mutate(mutation, network)(genomes, tf.constant(inputs[:3]), seeds)
    compiled = mutate(mutation, network, jit_compile=True)(genomes, tf.constant(inputs[:3]), seeds)
    rtol, atol = (2e-2, 2e-3) if mutation == "sm-r" else (1e-3, 1e-5)
    np.testing.assert_allclose(compiled, traced, rtol=rtol, atol=atol)


@pytest.mark.sample(25)
@pytest.mark.parametrize(("name", "mutation"), [*SAME_TO_THE_BIT, *COMPILED[: len(ALL)]])
def test_compiled_children_are_bitwise_independent_of_the_batch(name: str, mutation: str) -> None:
    network, inputs = make_network(name)
    genomes, seeds = drawn(network, 20)
    compiled = mutate(mutation, network, jit_compile=True)
    together = compiled(genomes, tf.constant(inputs), seeds).numpy()
    two = compiled(genomes[4:6], tf.constant(inputs[4:6]), seeds[4:6]).numpy()
    np.testing.assert_array_equal(two, together[4:6])
    shuffled = compiled(genomes[::-1], tf.constant(inputs[::-1]), seeds[::-1]).numpy()
    np.testing.assert_array_equal(shuffled[::-1], together)


@pytest.mark.sample(7)
@pytest.mark.parametrize("mutation", ALL)
def test_a_shared_experience_gives_the_child_that_a_repeated_one_gives(mutation: str) -> None:
    network, inputs = make_network("dense")
    genomes, seeds = drawn(network, 3)
    call = mutate(mutation, network).python_function
    shared = call(genomes, tf.constant(inputs[:1]), seeds)
    repeated = call(genomes, tf.constant(np.repeat(inputs[:1], 3, axis=0)), seeds)
    rtol, atol = (2e-2, 2e-3) if mutation == "sm-r" else (1e-3, 1e-5)
    np.testing.assert_allclose(shared, repeated, rtol=rtol, atol=atol)


def measure_divergence(of: object, child: tf.Tensor) -> float:
    before, after = (
        of.network.rows(tf.constant(genome), tf.constant(of.inputs[None]))  # type: ignore[attr-defined]
        for genome in (of.genome[None], child)  # type: ignore[attr-defined]
    )
    return float(divergence(before, after)[0])


@pytest.mark.parametrize("outputs", [3, 24])
def test_an_estimated_abs_sensitivity_is_near_the_exact_one(outputs: int) -> None:
    """Between the exact value and 1.26 times the mean over experiences of the gradients' length, on average."""
    model = keras.Sequential([keras.Input((3,), dtype="float64"), kl.Dense(outputs, "tanh", dtype="float64")])
    network = Network(model)
    x = tf.constant(np.random.default_rng(2).standard_normal((1, 7, 3)))
    genome = tf.constant(network.genome[None])
    exact = operator("sm-g-abs", probes=0).sensitivity(network, genome, x, genome)[0].numpy()
    # With one layer each weight has one output, so that the sum over outputs has one term, and |sign| = 1.
    found = operator("sm-g-abs", probes=3).sensitivity(network, genome, x, genome)[0].numpy()
    np.testing.assert_allclose(found, exact * np.sqrt(np.pi / 2), rtol=1e-9)


def test_copies_in_parts_give_the_sensitivity_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential(
        [keras.Input((4, 4, 1)), kl.DepthwiseConv2D(2), kl.Flatten(), kl.Dense(9, activation="tanh")]
    )
    network = Network(model)
    assert not network.has_per_example_gradients
    x = tf.constant(np.random.default_rng(2).standard_normal((1, 6, 4, 4, 1)), tf.float32)
    genomes = tf.constant(np.random.default_rng(3).standard_normal((2, network.size)), tf.float32)
    part = operator("sm-g-abs", probes=0)
    whole = tf.function(part.sensitivity)(network, genomes, x, genomes)
    monkeypatch.setattr(sensitivity_kernels, "COPY_BYTES", 2 * 2 * network.size * 4)
    np.testing.assert_allclose(tf.function(part.sensitivity)(network, genomes, x, genomes), whole, rtol=2e-5)


def test_a_change_by_the_inverse_sensitivity_has_equal_divergence_for_all_weights() -> None:
    """The meaning of SM-G-RMS: `(s d)^2` is the divergence of a small change `d` of one weight."""
    of = case("dense")
    s = operator("sm-g-rms").sensitivity(
        of.network, tf.constant(of.genome[None]), tf.constant(of.inputs[None]), tf.constant(of.genome[None])
    )[0]
    for p in (0, 5, len(of.genome) - 1):
        change = np.zeros_like(of.genome)
        change[p] = 1e-4 / s[p].numpy()
        assert measure_divergence(of, (of.genome + change)[None]) == pytest.approx(1e-8, rel=1e-2)


@pytest.mark.parametrize("mutation", ["sm-g-rms", "sm-g-sum", "sm-g-abs"])
def test_probes_are_drawn_by_the_childs_own_seed(mutation: str) -> None:
    of = case("dense")
    parents = np.repeat(of.genome[None], 3, axis=0)
    seen = tf.constant(of.inputs[None])
    together = children(of.network, parents, seen, mutation, 0.01, [1, 2, 1], probes=2).genome.numpy()
    np.testing.assert_array_equal(together[0], together[2])
    assert not np.allclose(together[0], together[1])
    alone = children(of.network, parents[:1], seen, mutation, 0.01, [2], probes=2).genome.numpy()
    np.testing.assert_allclose(together[1], alone[0], rtol=1e-9)


def test_many_outputs_are_estimated_and_few_are_exact() -> None:
    few, many = case("lstm, every time a row"), case("conv-lstm2d")
    assert few.network.output_size == 8
    assert many.network.output_size == 2
    part = operator("sm-g-rms")
    assert part.probe_count(few.network) == 0
    # SM-G-SUM sums over rows first, so that only the outputs in a row count.
    assert few.network.row_size is not None
    assert few.network.row_size < few.network.output_size
    pixels = Network(TopdownMaze().network())
    assert (pixels.row_size, pixels.output_size) == (5, 200)
    assert operator("sm-g-sum").probe_count(pixels) == 0
    assert part.probe_count(pixels) == 16
    assert operator("sm-g-rms", probes=3).probe_count(few.network) == 3

    class Chatty:
        output_size = 17

    class Silent:
        output_size = None

    assert part.probe_count(Chatty()) == part.probe_count(Silent()) == 16
    seed = tf.broadcast_to(root_seed(0), [1, 2])
    genome, seen = tf.constant(few.genome[None]), tf.constant(few.inputs[None])
    fixed = operator("sm-g-rms", probes=4)
    np.testing.assert_array_equal(
        fixed.sensitivity(few.network, genome, seen, genome),
        fixed.sensitivity(few.network, genome, seen, genome, seed),
    )
