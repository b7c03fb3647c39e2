from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.dataset.recording import InputRecorder, NetworkBatch, RecordingModel, compile_call

X = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def network() -> Network:
    layers = [keras.Input((3,)), kl.Dense(4, "tanh"), kl.BatchNormalization(), kl.Dense(2)]
    return Network(keras.Sequential(layers, name="mine"))


def train(model: keras.Model) -> None:
    model.compile(optimizer="sgd", loss="mse", jit_compile=True)
    model.fit(X, X[:, :2], epochs=1, verbose=0)


WAYS: dict[str, Callable[[keras.Model], Any]] = {
    "call": lambda model: model(X),
    "keyword": lambda model: model(inputs=tf.constant(X), training=False),
    "predict": lambda model: model.predict(X, verbose=0),
    "graph": lambda model: tf.function(lambda x: model(x))(tf.constant(X)),
    "fit": train,
}


@pytest.mark.parametrize("way", WAYS)
def test_inputs_are_recorded_however_the_model_is_run(network: Network, way: str) -> None:
    recording = RecordingModel(network, 16)
    recorder = recording.load(network.genome)
    WAYS[way](recording.model)
    (sample,) = recorder.sample() or ()
    assert sample.shape == (16, 3)
    assert {tuple(row) for row in sample} == {tuple(row) for row in X}


def test_the_recording_model_is_the_genomes_model(network: Network) -> None:
    recording = RecordingModel(network, 4)
    genome = network.genome + 0.1
    recorder = recording.load(genome)
    np.testing.assert_allclose(recording.model(X), network.child(genome)(X), rtol=1e-5)
    assert isinstance(recording.model, keras.Sequential)
    assert recorder.sample() is not None
    assert recording.load(genome).sample() is None


def test_training_does_not_leak_into_the_next_individual(network: Network) -> None:
    recording = RecordingModel(network, 4)
    recording.load(network.genome)
    before = [variable.numpy().copy() for variable in recording.model.variables]
    train(recording.model)
    assert any((variable.numpy() != old).any() for variable, old in zip(recording.model.variables, before, strict=True))
    recording.load(network.genome)
    for variable, old in zip(recording.model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)


def test_a_recording_model_may_be_part_of_another_model(network: Network) -> None:
    recording = RecordingModel(network, 4)
    recorder = recording.load(network.genome)
    x = keras.Input((3,))
    larger = keras.Model(x, recording.model(x))
    assert larger(X).shape == (10, 2)
    assert recorder.sample() is None or len(recorder.sample()[0]) == 4  # type: ignore[index]


def test_a_long_stream_is_sampled_evenly(network: Network) -> None:
    recorder = InputRecorder(network.model, 8)
    for i in range(100):
        recorder.record(np.full((10, 3), i, np.float32))
    (sample,) = recorder.sample() or ()
    assert len(sample) == 8
    assert (np.diff(sample[:, 0]) > 5).all()
    assert sample[-1, 0] > 80


def test_what_is_not_finite_or_of_another_length_is_left_out() -> None:
    model = keras.Sequential([keras.Input((None, 1)), kl.GRU(2)])
    recorder = InputRecorder(model, 3)
    recorder.record(np.full((1, 5, 1), np.nan))
    assert recorder.sample() is None
    for length in (4, 6, 4):
        recorder.record(np.full((1, length, 1), length))
    (sample,) = recorder.sample() or ()
    np.testing.assert_array_equal(sample, np.full((3, 4, 1), 4.0))


@pytest.mark.parametrize("count", [1, 3])
def test_a_batch_runs_all_networks_at_once(network: Network, count: int) -> None:
    genomes = network.genome + np.linspace(0, 0.1, count, dtype=np.float32)[:, None]
    recorders = [InputRecorder(network.model, 4) for _ in range(count)]
    batch = NetworkBatch(network, genomes, recorders, compile_call(network))
    assert len(batch) == count
    shared = batch(X)
    own = batch(np.stack([X + i for i in range(count)]))
    for i in range(count):
        np.testing.assert_allclose(shared[i], batch.model(i)(X), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(own[i], batch.model(i)(X + i), rtol=1e-4, atol=1e-6)
        assert recorders[i].sample() is not None
    with pytest.raises(TfsmError, match=f"for {count} networks"):
        batch(np.zeros((count + 1, 2, 3)))
    with pytest.raises(TfsmError, match=r"takes \[N, 3\], the batch has"):
        batch(np.zeros((5, 2)))
