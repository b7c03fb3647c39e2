"""A network of many genomes computes the same as Keras with one genome at a time."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import tfsm
from tests.models.architectures import CASES, N
from tests.models.plain import drawn, genomes_of, run
from tfsm.errors import TfsmError
from tfsm.kernels.random import gaussian, root_seed
from tfsm.models.network import Network, build_network
from tfsm.models.rules.convolution import UNROLLED_LANES

WAYS = {"native": "n", "folded": "f", "mapped": "m"}
B = 3


@pytest.fixture(scope="module", autouse=True)
def _seeded() -> None:
    keras.utils.set_random_seed(1)


@pytest.mark.sample(49)
@pytest.mark.parametrize("name", CASES)
def test_a_batch_of_genomes_agrees_with_plain_keras(name: str) -> None:
    case = CASES[name]
    model = case.build()
    network, genomes = Network(model), genomes_of(model, B)
    own_inputs = [
        np.stack([x, x[::-1], x]) for x in case.inputs
    ]  # [B, N, ...]: the second genome has another order of inputs
    shared = [x[None] for x in case.inputs]
    for inputs in (own_inputs,) if case.heavy else (own_inputs, shared):
        found = network.call(tf.constant(genomes), [tf.constant(x) for x in inputs])
        for b, genome in enumerate(genomes):
            expected = run(model, genome, [x[min(b, len(x) - 1)] for x in inputs])
            assert len(found) == len(expected)
            for mine, theirs in zip(found, expected, strict=True):
                assert mine[b].shape == theirs.shape
                np.testing.assert_allclose(mine[b], theirs, rtol=case.tolerance, atol=case.tolerance / 5)


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", CASES)
def test_every_layer_runs_as_expected(name: str) -> None:
    program = Network(CASES[name].build()).program
    assert "".join(WAYS[plan.mode] for plan in program.layers) == CASES[name].ways
    assert all(bool(plan.reason) == (plan.mode == "mapped") for plan in program.layers)
    assert program.native == ("m" not in CASES[name].ways)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gru, reset before", "reset_after=False"),
        ("bidirectional, two outputs", "it returns two outputs"),
        ("batch normalization of another axis", "it normalizes other axes than the last"),
        ("prelu, shared behind", "it shares weights along other axes than the first"),
        ("conv lstm, returned state", "it returns its state"),
        ("a mask as an argument", "it is called with more than its input"),
        ("depthwise", "no rule for DepthwiseConv2D"),
        ("masking", "makes a mask"),
        ("subclassed", "a subclassed model shows what it does only when called"),
    ],
)
def test_a_mapped_layer_has_a_reason(name: str, why: str) -> None:
    program = Network(CASES[name].build()).program
    assert any(plan.reason.endswith(why) for plan in program.layers)


def test_a_model_of_float64_runs_in_float64() -> None:
    layers = [keras.layers.LSTM(4, dtype="float64"), keras.layers.Dense(2, dtype="float64")]
    model = keras.Sequential([keras.Input((5, 3), dtype="float64"), *layers])
    network, genomes, x = Network(model), genomes_of(model, B), drawn(N, 5, 3, dtype="float64")
    assert network.dtype == tf.float64
    rows = network.rows(tf.constant(genomes), tf.constant(x[None]))
    for b, genome in enumerate(genomes):
        np.testing.assert_allclose(rows[b], run(model, genome, [x])[0], rtol=1e-12)


def test_running_does_not_change_the_model() -> None:
    model = CASES["batch normalization"].build()
    before = [v.numpy().copy() for v in model.variables]
    Network(model).call(tf.constant(genomes_of(model, B)), [tf.constant(x[None]) for x in CASES["dense"].inputs])
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_rows_are_output_vectors_and_outputs_are_concatenated() -> None:
    model, x = CASES["two outputs"].build(), CASES["two outputs"].inputs
    genomes = genomes_of(model, B)
    rows = Network(model).rows(tf.constant(genomes), [tf.constant(x[0][None])])
    assert rows.shape == (B, N, 5)
    np.testing.assert_allclose(rows[1], np.concatenate(run(model, genomes[1], x), axis=-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "experiences"), [("simple rnn, long", N * 19), ("conv2d, dilated", N * 5 * 5)])
def test_every_place_and_time_of_an_output_is_a_row(name: str, experiences: int) -> None:
    model, x = CASES[name].build(), CASES[name].inputs
    genomes = genomes_of(model, B)
    rows = Network(model).rows(tf.constant(genomes), [tf.constant(x[0][None])])
    expected = run(model, genomes[2], x)[0]
    assert rows.shape == (B, experiences, expected.shape[-1])
    np.testing.assert_allclose(rows[2], expected.reshape(experiences, -1), rtol=1e-5, atol=1e-6)


def test_a_scalar_output_is_one_number_per_row() -> None:
    x = keras.Input((3,))
    model = keras.Model(x, keras.ops.sum(keras.layers.Dense(2)(x), axis=-1))
    rows = Network(model).rows(tf.constant(genomes_of(model, B)), tf.constant(drawn(1, N, 3)))
    assert rows.shape == (B, N, 1)


def test_one_genome_has_the_rows_it_has_in_a_batch() -> None:
    model, x = CASES["lstm"].build(), drawn(B, N, 5, 3)
    network, genomes = Network(model), tf.constant(genomes_of(model, B))
    np.testing.assert_allclose(network.rows(genomes[1], x[1]), network.rows(genomes, x)[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["lstm", "conv2d, pooled", "batch normalization", "simple rnn, long"])
def test_a_genome_for_every_input_gives_each_its_rows(name: str) -> None:
    model, x = CASES[name].build(), CASES[name].inputs[0]
    network, genomes = Network(model), tf.constant(genomes_of(model, 2))
    copies = tf.repeat(genomes, N, axis=0)
    for given in (tf.constant(x[None]), tf.constant(np.stack([x, x]))):
        each = network.rows_per_example(copies, given)  # [B * N, R, K]
        together = network.rows(genomes, given)
        np.testing.assert_allclose(tf.reshape(each, together.shape), together, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["conv1d, causal", "conv1d, same", "conv2d, grouped", "conv2d, channels first"])
def test_large_batches_have_the_rows_of_small_ones(name: str) -> None:
    model, x = CASES[name].build(), tf.constant(CASES[name].inputs[0][None])
    network, genomes = Network(model), tf.constant(genomes_of(model, UNROLLED_LANES + 1))
    np.testing.assert_allclose(network.rows(genomes, x)[:2], network.rows(genomes[:2], x), rtol=1e-5, atol=1e-6)


def test_outputs_of_different_numbers_of_rows_are_refused() -> None:
    x = keras.Input((6, 3))
    model = keras.Model(x, [keras.layers.Dense(2)(x), keras.layers.LSTM(2)(x)])
    with pytest.raises(TfsmError, match="different numbers of rows"):
        Network(model)


@pytest.mark.parametrize(
    ("name", "long"), [("lstm", False), ("lstm of 16", False), ("lstm, long", False), ("any length", True)]
)
def test_a_program_knows_whether_sequences_are_too_long_for_xla(name: str, long: bool) -> None:
    assert Network(CASES[name].build()).program.has_long_sequences() is long


def test_layers_of_a_frozen_wrapper_are_considered() -> None:
    model = keras.Sequential(
        [keras.Input((5, 3)), keras.layers.Bidirectional(keras.layers.LSTM(2)), keras.layers.Dense(2)]
    )
    model.layers[0].trainable = False
    program = Network(model).program
    assert program.native
    assert program.has_long_sequences()
    assert program.uses("Bidirectional")
    assert not program.uses("Conv2D")


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
def test_the_patterns_select_the_genome(layers: str, chosen: list[str]) -> None:
    assert build_network(model(), layers).size == sum(SIZES[name] for name in chosen)


def test_a_model_within_the_model_stands_for_all_its_layers() -> None:
    assert build_network(forked(), "block").size == 15 + 8
    assert build_network(forked(), "block/second").size == 8
    assert build_network(forked(), "second").size == 8


def test_the_head_is_every_layer_that_makes_an_output() -> None:
    # `left` behind an activation, and the last layer of the inner model.
    assert build_network(forked(), "@head").size == 10 + 8


def test_noise_is_scaled_by_the_shares() -> None:
    seed = root_seed(7)
    plain = gaussian(seed, 44).numpy()
    shares = np.repeat([0.1, 3.0], [24, 20]).astype(np.float32)
    np.testing.assert_allclose(build_network(model(), "conv_a=0.1,conv_b=3").noise(seed), plain * shares, rtol=1e-6)
    np.testing.assert_array_equal(build_network(model(), "conv*").noise(seed), plain)


@pytest.mark.sample(7)
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


def test_a_share_scales_the_intensity() -> None:
    parent = model()
    half = tfsm.mutate(parent, X, "sm-g-sum", intensity=0.02, layers="conv_b=0.5", max_change=None)
    whole = tfsm.mutate(parent, X, "sm-g-sum", intensity=0.01, layers="conv_b", max_change=None)
    np.testing.assert_allclose(tfsm.flatten(half), tfsm.flatten(whole), rtol=1e-5)


def test_outputs_are_those_of_the_whole_model() -> None:
    parent = model()
    network = build_network(parent, "out")
    rows = network.rows(tf.constant(network.genome[None]), tf.constant(X[None]))
    np.testing.assert_allclose(rows[0], parent(X), atol=1e-6)


def test_the_genome_of_a_champion_is_recovered() -> None:
    parent = model()
    network = build_network(parent, "conv*")
    genome = network.genome + np.float32(1.0)
    np.testing.assert_array_equal(network.genome_of(network.child(genome)), genome)
    other = network.child(genome)
    other.get_layer("out").kernel.assign_add(np.ones((4, 2)))
    with pytest.raises(tfsm.TfsmError, match="out/kernel differs between the models"):
        network.genome_of(other)
    with pytest.raises(tfsm.TfsmError, match="have different architectures"):
        network.genome_of(forked())


@pytest.mark.slow
def test_fixed_layers_are_the_same_in_every_run_of_a_seed() -> None:
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
        ("dense*", "no layer is named 'dense*': the layers with weights are conv_a, conv_b, normal, out"),
        ("*=0", "no layer to mutate"),
        ("out=-1", "got 'out=-1'"),
        ("out=nan", "got 'out=nan'"),
        ("out,,conv_a", "expected names separated by commas"),
        ("@tail", "unknown name '@tail'; @head stands for"),
    ],
)
def test_mistakes_are_reported(layers: str, says: str) -> None:
    with pytest.raises(tfsm.TfsmError) as caught:
        build_network(model(), layers)
    assert says in str(caught.value)
