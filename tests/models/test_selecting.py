"""Some layers of a model are mutated, some more than others, and the rest stays as it is."""

from __future__ import annotations

import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import tfsm
from tfsm.kernels.random import gaussian, root_seed
from tfsm.models import names as patterns
from tfsm.models.network import network_of

X = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


def model() -> keras.Model:
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((5,)),
            kl.Dense(4, "tanh", name="conv_a"),
            kl.Dense(4, "tanh", name="conv_b"),
            kl.BatchNormalization(name="normal"),
            kl.Dense(2, name="out"),
        ],
        name="mine",
    )


def forked() -> keras.Model:
    x = keras.Input((5,))
    block = keras.Sequential([keras.Input((4,)), kl.Dense(3, name="first"), kl.Dense(2, name="second")], name="block")
    hidden = kl.Dense(4, "tanh", name="hidden")(x)
    return keras.Model(x, [keras.ops.tanh(kl.Dense(2, name="left")(hidden)), block(hidden)], name="forked")


SIZES = {"conv_a": 24, "conv_b": 20, "normal": 8, "out": 10}


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(patterns) == (0, 2)


@pytest.mark.parametrize(
    ("layers", "chosen"),
    [
        ("conv*", ["conv_a", "conv_b"]),
        ("conv_b,out", ["conv_b", "out"]),
        ("*,conv_a=0", ["conv_b", "normal", "out"]),
        ("conv_?=0.5,conv_a=0", ["conv_b"]),
        ("@head", ["out"]),
        (["normal", "@head=2"], ["normal", "out"]),
    ],
)
def test_the_genome_is_what_the_patterns_say(layers: str, chosen: list[str]) -> None:
    assert network_of(model(), layers).size == sum(SIZES[name] for name in chosen)


def test_a_model_within_the_model_stands_for_all_its_layers() -> None:
    assert network_of(forked(), "block").size == 15 + 8
    assert network_of(forked(), "block/second").size == 8
    assert network_of(forked(), "second").size == 8


def test_the_head_is_every_layer_that_makes_an_output() -> None:
    # `left` behind an activation, and the last layer of the inner model.
    assert network_of(forked(), "@head").size == 10 + 8


def test_noise_is_scaled_by_the_shares() -> None:
    seed = root_seed(7)
    plain = gaussian(seed, 44).numpy()
    shares = np.repeat([0.1, 3.0], [24, 20]).astype(np.float32)
    np.testing.assert_allclose(network_of(model(), "conv_a=0.1,conv_b=3").noise(seed), plain * shares, rtol=1e-6)
    np.testing.assert_array_equal(network_of(model(), "conv*").noise(seed), plain)


@pytest.mark.parametrize("mutation", ["control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so"])
def test_only_the_chosen_layers_change(mutation: str) -> None:
    parent = model()
    child = tfsm.mutate(parent, X, mutation, intensity=0.05, seed=1, layers="conv_b,@head=0.5")
    for before, after in zip(parent.layers, child.layers, strict=True):
        pairs = list(zip(before.variables, after.variables, strict=True))
        changed = any((a.numpy() != b.numpy()).any() for a, b in pairs)
        assert changed == (before.name in ("conv_b", "out")), before.name
        assert [a.trainable for a, _ in pairs] == [b.trainable for _, b in pairs]
    if mutation == "sm-r":
        assert tfsm.divergence(parent, child, X) == pytest.approx(0.05, rel=0.05)


def test_a_share_is_an_intensity_of_its_own() -> None:
    parent = model()
    half = tfsm.mutate(parent, X, "sm-g-sum", intensity=0.02, layers="conv_b=0.5", max_change=None)
    whole = tfsm.mutate(parent, X, "sm-g-sum", intensity=0.01, layers="conv_b", max_change=None)
    np.testing.assert_allclose(tfsm.flatten(half), tfsm.flatten(whole), rtol=1e-5)


def test_outputs_are_those_of_the_whole_model() -> None:
    parent = model()
    network = network_of(parent, "out")
    rows = network.rows(tf.constant(network.genome[None]), tf.constant(X[None]))
    np.testing.assert_allclose(rows[0], parent(X), atol=1e-6)


def test_a_champion_goes_back_to_its_genome() -> None:
    parent = model()
    network = network_of(parent, "conv*")
    genome = network.genome + np.float32(1.0)
    np.testing.assert_array_equal(network.genome_of(network.child(genome)), genome)
    other = network.child(genome)
    other.get_layer("out").kernel.assign_add(np.ones((4, 2)))
    with pytest.raises(tfsm.TfsmError, match="out/kernel differs from one model to the other"):
        network.genome_of(other)
    with pytest.raises(tfsm.TfsmError, match="not of one architecture"):
        network.genome_of(forked())


def test_layers_that_stay_are_the_same_in_every_run_of_a_seed() -> None:
    def frozen(seed: int) -> list[np.ndarray]:
        result = tfsm.evolve(
            "simple-easy", mutation="control", mutated_layers="out*", model=two_layers(), runs=2, seed=seed,
            evaluations=3,
        )  # fmt: skip
        return [result.champion(run).get_layer("inner").kernel.numpy() for run in (0, 1)]

    first, again, other = frozen(1), frozen(1), frozen(2)
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(first, again)
    assert (first[0] != other[0]).any()


def two_layers() -> keras.Model:
    return keras.Sequential([keras.Input((2,)), kl.Dense(2, name="inner"), kl.Dense(2, name="outer")])


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ("dense*", "no layer is called 'dense*': those with weights to mutate are conv_a, conv_b, normal, out"),
        ("*=0", "no layer is left to be mutated"),
        ("out=-1", "got 'out=-1'"),
        ("out=nan", "got 'out=nan'"),
        ("out,,conv_a", "expected names with commas between them"),
        ("@tail", "'@tail' is not known; @head stands for"),
    ],
)
def test_a_mistake_is_told(layers: str, says: str) -> None:
    with pytest.raises(tfsm.TfsmError) as caught:
        network_of(model(), layers)
    assert says in str(caught.value)
