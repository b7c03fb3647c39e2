from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl
from scipy import stats

from tfsm.evolution.initialization import Initializer, fans
from tfsm.kernels.random import root_seed
from tfsm.models.genome import Layout
from tfsm.models.network import Network


@pytest.fixture(scope="module")
def network() -> Network:
    """Return a network with kernels of many shapes, and biases that show whether they were changed."""
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            kl.Conv2D(8, 3),
            kl.BatchNormalization(),
            kl.Reshape((16, 8)),
            kl.LSTM(10, return_sequences=True),
            kl.GRU(12),
            kl.Dense(20),
        ]
    )
    for variable in model.trainable_variables:
        if variable.name in ("bias", "gamma", "beta"):
            variable.assign(np.full(variable.shape, 7.0))
    return Network(model)


SEEDS = tf.stack([tf.range(60), tf.zeros(60, tf.int32)], axis=-1)
KERNELS = {  # by index of the trainable variable: fan in plus fan out
    0: 3 * 3 * 2 + 3 * 3 * 8,
    4: 8 + 40,
    5: 10 + 40,
    7: 10 + 36,
    8: 12 + 36,
    10: 12 + 20,
}


@pytest.mark.parametrize(
    ("scheme", "gain"), [("xavier-normal", 1.0), ("xavier-uniform", 1.0), ("xavier-normal", 0.5), ("xavier-uniform", 3)]
)
def test_xavier_draws_kernels_with_their_variance_and_keeps_the_rest(
    network: Network, scheme: str, gain: float
) -> None:
    drawn = Initializer(scheme, None if gain == 1 else gain).genomes(network, SEEDS)
    for index, values in enumerate(network.layout.split(drawn)):
        if index not in KERNELS:
            np.testing.assert_array_equal(values, np.full(values.shape, 7.0))
            continue
        sample = np.ravel(values).astype(np.float64)
        deviation = gain * np.sqrt(2 / KERNELS[index])
        tolerance = 5 * deviation / np.sqrt(len(sample))
        assert abs(sample.mean()) < tolerance
        assert abs(sample.std() - deviation) < tolerance
        shape = "norm" if scheme == "xavier-normal" else "uniform"
        parameters = (0, deviation) if shape == "norm" else (-np.sqrt(3) * deviation, 2 * np.sqrt(3) * deviation)
        assert stats.kstest(sample, shape, parameters).pvalue > 1e-4


@pytest.mark.parametrize(
    ("scheme", "scale", "spread"),
    [("normal", None, 0.01), ("normal", 2.0, 2.0), ("uniform", None, 0.1), ("uniform", 0.22, 0.22)],
)
def test_normal_and_uniform_draw_all_weights_including_biases(
    network: Network, scheme: str, scale: float | None, spread: float
) -> None:
    for values in network.layout.split(Initializer(scheme, scale).genomes(network, SEEDS)):
        sample = np.ravel(values).astype(np.float64)
        parameters = ("norm", (0, spread)) if scheme == "normal" else ("uniform", (-spread, 2 * spread))
        assert stats.kstest(sample, *parameters).pvalue > 1e-4


def test_model_starts_all_individuals_from_the_models_weights(network: Network) -> None:
    drawn = Initializer("model").genomes(network, SEEDS)
    np.testing.assert_array_equal(drawn, np.tile(network.genome, (60, 1)))


@pytest.mark.parametrize("scheme", ["xavier-normal", "xavier-uniform", "xavier-pytorch", "normal", "uniform"])
def test_a_genome_depends_on_its_own_seed_alone(network: Network, scheme: str) -> None:
    drawn = Initializer(scheme).genomes(network, SEEDS[:5]).numpy()
    alone = [Initializer(scheme).genomes(network, seed[None])[0].numpy() for seed in SEEDS[:5]]
    np.testing.assert_array_equal(drawn, alone)
    assert len({row.tobytes() for row in drawn}) == 5


@pytest.mark.parametrize("shape", [(3, 5), (3, 3, 2, 8), (4, 2, 7), (2, 3, 4, 5, 6), (5, 1)])
def test_fans_agree_with_keras(shape: tuple[int, ...]) -> None:
    limit = np.abs(keras.initializers.GlorotUniform(seed=1)(shape).numpy()).max()
    assert limit <= np.sqrt(6 / sum(fans(shape))) < limit * 1.6
    assert fans((3, 3, 2, 8)) == (18, 72)
    assert fans((4, 2, 7)) == (8, 28)


def test_genomes_of_a_float64_model_are_float64() -> None:
    model = keras.Sequential([keras.Input((2,), dtype="float64"), kl.Dense(2, dtype="float64")])
    for scheme in ("xavier-normal", "uniform", "model"):
        assert Initializer(scheme).genomes(Network(model), root_seed(1)[None]).dtype == tf.float64


def test_xavier_biased_also_draws_biases(network: Network) -> None:
    plain = network.layout.split(Initializer("xavier-normal").genomes(network, SEEDS))
    biased = network.layout.split(Initializer("xavier-biased").genomes(network, SEEDS))
    fan_in = {1: 3 * 3 * 2, 6: 8, 9: 10, 11: 12}  # of each layer's kernel, by the index of the bias
    for index, (before, after) in enumerate(zip(plain, biased, strict=True)):
        moved = np.ravel(after - before)
        if index not in fan_in:
            np.testing.assert_array_equal(moved, 0.0)
            continue
        width = 1 / np.sqrt(fan_in[index])
        assert stats.kstest(moved, stats.uniform(-width, 2 * width).cdf).pvalue > 1e-4


def test_xavier_pytorch_draws_weights_as_the_papers_code_does(network: Network) -> None:
    normal = {0: 3 * 3 * 2 + 8, 10: 12 + 20}  # fan in plus the number of maps or units, by the index of the kernel
    uniform = {1: 3 * 3 * 2, 11: 12} | dict.fromkeys((4, 5, 6), 10) | dict.fromkeys((7, 8, 9), 12)  # 1 / width^2
    for index, values in enumerate(network.layout.split(Initializer("xavier-pytorch").genomes(network, SEEDS))):
        sample = np.ravel(values).astype(np.float64)
        if index in normal:
            assert stats.kstest(sample, "norm", (0, np.sqrt(2 / normal[index]))).pvalue > 1e-4
        elif index in uniform:
            width = 1 / np.sqrt(uniform[index])
            assert stats.kstest(sample, stats.uniform(-width, 2 * width).cdf).pvalue > 1e-4
        else:
            np.testing.assert_array_equal(sample, 7.0)


def test_xavier_pytorch_has_the_deviations_of_the_papers_convolutions() -> None:
    model = keras.Sequential([keras.Input((64, 64, 1)), kl.Conv2D(12, 5), kl.Conv2D(12, 3)])
    first, _, second, _ = Layout.of(model).split(Initializer("xavier-pytorch").genomes(Network(model), SEEDS))
    assert np.std(first) == pytest.approx(0.232, abs=0.003)
    assert np.std(second) == pytest.approx(0.129, abs=0.001)


def test_of_dense_layers_xavier_pytorch_and_xavier_biased_are_the_same() -> None:
    network = Network(keras.Sequential([keras.Input((3,)), kl.Dense(4), kl.Dense(2)]))
    drawn = [Initializer(scheme).genomes(network, SEEDS).numpy() for scheme in ("xavier-pytorch", "xavier-biased")]
    np.testing.assert_array_equal(*drawn)
