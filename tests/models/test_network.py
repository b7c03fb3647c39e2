from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models.architectures import CASES, N
from tests.models.plain import drawn, genomes_of, run
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm.models.rules.convolution import UNROLLED_LANES

WAYS = {"native": "n", "folded": "f", "mapped": "m"}
B = 3


@pytest.fixture(scope="module", autouse=True)
def _seeded() -> None:
    keras.utils.set_random_seed(1)


@pytest.mark.parametrize("name", CASES)
def test_many_genomes_at_once_are_as_one_after_another_in_plain_keras(name: str) -> None:
    case = CASES[name]
    model = case.build()
    network, genomes = Network(model), genomes_of(model, B)
    own_inputs = [np.stack([x, x[::-1], x]) for x in case.inputs]  # [B, N, ...]: the second genome sees another order
    shared = [x[None] for x in case.inputs]
    for inputs in (own_inputs,) if case.heavy else (own_inputs, shared):
        found = network.call(tf.constant(genomes), [tf.constant(x) for x in inputs])
        for b, genome in enumerate(genomes):
            expected = run(model, genome, [x[min(b, len(x) - 1)] for x in inputs])
            assert len(found) == len(expected)
            for mine, theirs in zip(found, expected, strict=True):
                assert mine[b].shape == theirs.shape
                np.testing.assert_allclose(mine[b], theirs, rtol=case.tolerance, atol=case.tolerance / 5)


@pytest.mark.parametrize("name", CASES)
def test_every_layer_takes_its_way(name: str) -> None:
    program = Network(CASES[name].build()).program
    assert "".join(WAYS[path.way] for path in program.paths) == CASES[name].ways
    assert all(bool(path.why) == (path.way == "mapped") for path in program.paths)
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
        ("subclassed", "a subclassed model says what it does only when called"),
    ],
)
def test_a_mapped_layer_says_why(name: str, why: str) -> None:
    program = Network(CASES[name].build()).program
    assert any(path.why.endswith(why) for path in program.paths)


def test_a_model_of_float64_runs_in_float64() -> None:
    layers = [keras.layers.LSTM(4, dtype="float64"), keras.layers.Dense(2, dtype="float64")]
    model = keras.Sequential([keras.Input((5, 3), dtype="float64"), *layers])
    network, genomes, x = Network(model), genomes_of(model, B), drawn(N, 5, 3, dtype="float64")
    assert network.dtype == tf.float64
    rows = network.rows(tf.constant(genomes), tf.constant(x[None]))
    for b, genome in enumerate(genomes):
        np.testing.assert_allclose(rows[b], run(model, genome, [x])[0], rtol=1e-12)


def test_running_leaves_the_model_as_it_was() -> None:
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


def test_an_output_without_an_axis_of_its_own_is_one_number_a_row() -> None:
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
        each = network.rows_each(copies, given)  # [B * N, R, K]
        together = network.rows(genomes, given)
        np.testing.assert_allclose(tf.reshape(each, together.shape), together, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["conv1d, causal", "conv1d, same", "conv2d, grouped", "conv2d, channels first"])
def test_more_genomes_than_get_an_operation_each_have_the_rows_of_few(name: str) -> None:
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
    assert Network(CASES[name].build()).program.long_sequences() is long


def test_a_frozen_wrapper_does_not_hide_what_its_layers_do() -> None:
    model = keras.Sequential(
        [keras.Input((5, 3)), keras.layers.Bidirectional(keras.layers.LSTM(2)), keras.layers.Dense(2)]
    )
    model.layers[0].trainable = False
    program = Network(model).program
    assert program.native
    assert program.long_sequences()
    assert program.uses("Bidirectional")
    assert not program.uses("Conv2D")
