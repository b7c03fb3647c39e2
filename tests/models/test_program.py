"""`TimeDistributed` layers, and sequences of frames with few distinct entries."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.plain import drawn, genomes_of, run
from tfsm.interfaces import Tensor
from tfsm.kernels.experience import IndexedFrames, sample_experiences, to_dense
from tfsm.kernels.sensitivity import abs_sensitivity, second_order_sensitivity, sum_sensitivity
from tfsm.models.network import Network

B, V, T = 3, 4, 18
"""More times than are unrolled."""

Measure = Callable[[Network, Tensor, Tensor, Tensor], Tensor]
MEASURES: dict[str, Measure] = {
    "sum": lambda network, genomes, seen, _: sum_sensitivity(network, genomes, seen),
    "abs": lambda network, genomes, seen, _: abs_sensitivity(network, genomes, seen),
    "so": second_order_sensitivity,
}


def pixels(times: int = T) -> keras.Model:
    """Return a small network of the pixel mazes' kind, in float64, so that rounding hides no error."""
    wide = kl.Conv2D(2, 3, 2, activation="selu", dtype="float64")
    deep = kl.Conv2D(2, 2, dtype="float64")
    eye = keras.Sequential(
        [keras.Input((6, 6, 1), dtype="float64"), wide, deep, kl.GlobalAveragePooling2D(dtype="float64")]
    )
    return keras.Sequential(
        [
            keras.Input((times, 6, 6, 1), dtype="float64"),
            kl.TimeDistributed(eye, dtype="float64"),
            kl.LSTM(3, return_sequences=True, dtype="float64"),
            kl.Dense(2, "tanh", dtype="float64"),
        ]
    )


def frames(examples: int = 1, lanes: int = B) -> IndexedFrames:
    index = np.random.default_rng(5).integers(0, V, (lanes, examples, T)).astype(np.int32)
    return IndexedFrames(tf.constant(drawn(V, 6, 6, 1, dtype="float64")), tf.constant(index))


@pytest.mark.sample(9)
@pytest.mark.parametrize(("examples", "lanes"), [(2, B), (1, 1), (1, B), (2, 1)])
def test_frames_give_the_outputs_of_sequences_in_plain_keras(examples: int, lanes: int) -> None:
    model, seen = pixels(), frames(examples, lanes)
    genomes = genomes_of(model, B)
    assert seen.shape == (lanes, examples, T, 6, 6, 1)
    rows = tf.function(Network(model).rows)(tf.constant(genomes), seen)
    for b, genome in enumerate(genomes):
        expected = run(model, genome, [seen.to_dense().numpy()[min(b, lanes - 1)]])[0]
        np.testing.assert_allclose(rows[b], expected.reshape(-1, 2), rtol=1e-12)


def test_time_distributed_layers_run_once_per_distinct_frame() -> None:
    network = Network(pixels())
    traced = tf.function(network.rows).get_concrete_function(
        tf.TensorSpec([1, network.size], tf.float64), tf.type_spec_from_value(frames(1, 1))
    )
    convolved = [op.inputs[0].shape[0] for op in traced.graph.get_operations() if op.type == "Conv2D"]
    assert convolved == [V, V]


@pytest.mark.sample(17)
@pytest.mark.parametrize(("name", "examples"), list(product(MEASURES, [2, 1])))
def test_sensitivities_by_frames_are_those_by_the_sequences(name: str, examples: int) -> None:
    network, seen = Network(pixels()), frames(examples)
    genomes = tf.constant(genomes_of(network.model, B))
    direction = tf.constant(drawn(*genomes.shape, seed=2, dtype="float64"))
    measure = tf.function(lambda seen: MEASURES[name](network, genomes, seen, direction), autograph=False)
    np.testing.assert_allclose(measure(seen), measure(seen.to_dense()), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_gradients_through_convolutions_and_a_compiled_loop_are_those_of_finite_differences() -> None:
    network, seen = Network(pixels()), frames(1, 1)
    genomes = tf.constant(genomes_of(network.model, 1))
    found = tf.function(lambda: sum_sensitivity(network, genomes, seen), autograph=False)().numpy()[0]
    for place in range(0, network.size, 5):
        step = np.zeros([1, network.size])
        step[0, place] = 1e-6
        moved = [tf.reduce_sum(network.rows(genomes + sign * step, seen), axis=[0, 1]).numpy() for sign in (1, -1)]
        slope = (moved[0] - moved[1]) / 2e-6
        assert found[place] == pytest.approx(np.sqrt((slope**2).sum()), rel=1e-5, abs=1e-8)


def test_a_batch_of_genomes_has_the_sensitivities_of_each_alone() -> None:
    network, seen = Network(pixels()), frames()
    genomes = tf.constant(genomes_of(network.model, B))
    together = tf.function(lambda: sum_sensitivity(network, genomes, seen), autograph=False)().numpy()
    alone = tf.function(
        lambda genome, index: sum_sensitivity(network, genome, IndexedFrames(seen.table, index)), autograph=False
    )
    for b in range(B):
        np.testing.assert_allclose(alone(genomes[b], seen.index[b]), together[b], rtol=1e-10)


def test_more_genomes_than_are_unrolled_run_too() -> None:
    model = keras.Sequential([keras.Input((5, 5, 2)), kl.Conv2D(3, 3, activation="tanh"), kl.Flatten(), kl.Dense(2)])
    network, genomes, x = Network(model), genomes_of(model, 40), drawn(1, 3, 5, 5, 2)
    rows = tf.function(network.rows)(tf.constant(genomes), tf.constant(x))
    for b in (0, 17, 39):
        np.testing.assert_allclose(rows[b], run(model, genomes[b], [x[0]])[0], rtol=1e-5, atol=1e-6)


def test_sampling_takes_whole_sequences() -> None:
    seen = frames(5)
    seed = tf.constant([[1, 2], [3, 4], [5, 6]])
    taken = sample_experiences(seen, 2, seed)
    np.testing.assert_array_equal(taken.to_dense(), sample_experiences(seen.to_dense(), 2, seed))
    assert taken.shape[1] == 2


def test_other_inputs_are_passed_unchanged() -> None:
    x = tf.zeros([2, 3])
    assert to_dense({"x": x})["x"] is x
