"""The public functions: genomes and experiences in, genomes out."""

from __future__ import annotations

import copy
import warnings
from typing import Any, get_args

import keras
import numpy as np
import tensorflow as tf

from tfsm.contracts import Mutation
from tfsm.errors import TfsmError, suggestion
from tfsm.evolution.initial import Initial, Scheme
from tfsm.functional.arguments import any_direction, as_genomes, as_seen, check_intensity, is_amount
from tfsm.functional.kept import lanes_of
from tfsm.functional.operators import as_operator, measuring
from tfsm.functional.streams import as_words, streams
from tfsm.models.genome import flatten


def mutate(
    model: keras.Model,
    genomes: Any,
    experience: Any,
    mutation: str | Mutation = "sm-g-sum",
    intensity: float = 0.01,
    seed: Any = 0,
    *,
    each: bool = False,
    **options: Any,
) -> np.ndarray:
    """Return a child of each genome: a new array `[B, P]`, or `[P]` for a single genome `[P]`.

    A child depends on its parent, the experience and its stream alone, not on who else is in the batch; to the last bit
    where the network is compiled by XLA.

    Args:
        model: a built Keras model; it says the architecture, and its trainable weights are not used.
        genomes: `[B, P]` or `[P]`.
        experience: inputs `[N, ...]` that the networks saw; a list or dict of them for a model of several inputs.
        mutation: the operator's name, or an operator.
        intensity: standard deviation of the noise; for `sm-r` the wanted divergence. One number for all.
        seed: a whole number, which stands for `streams(seed, B)`, or an array of B streams. A single genome `[P]` has
            the seed itself for its stream, as in `tfsm.mutate`.
        each: whether every genome has an experience of its own, `[B, N, ...]`.
        **options: the operator's options, as `tfsm mutations` lists them.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, activation="tanh")])
    >>> parents = tfsm.functional.initial(model, 5)
    >>> children = tfsm.functional.mutate(model, parents, np.ones((4, 2)), "sm-r", intensity=0.1)
    >>> children.shape == parents.shape == (5, 9)
    True
    >>> tfsm.functional.divergence(model, parents, children, np.ones((4, 2))).round(2)
    array([0.1, 0.1, 0.1, 0.1, 0.1], dtype=float32)
    """
    check_intensity(intensity)
    lanes = lanes_of(model)
    operator = as_operator(lanes.operators, mutation, options)
    own, alone = as_genomes(lanes.network, genomes)
    words = as_words(seed, len(own), alone=alone)
    if not len(own):
        return own.copy()
    child = lanes.mutated(operator, own, as_seen(model, experience, len(own), each=each), intensity, words)
    if "unreached" in child.diagnostics and child.diagnostics["unreached"].any():
        named = mutation if isinstance(mutation, str) else type(mutation).__name__
        # Without numbers of this very call, so that Python shows it once and not a thousand times.
        warnings.warn(
            f"{named}: along some directions no magnitude gives a divergence of {intensity:g}; "
            "these children are the nearest that there are",
            stacklevel=2,
        )
    return child.genome[0] if alone else child.genome


def sensitivity(
    model: keras.Model,
    genomes: Any,
    experience: Any,
    mutation: str | Mutation = "sm-g-sum",
    direction: Any = None,
    *,
    each: bool = False,
) -> np.ndarray:
    """Return how sensitive the outputs are to each weight: the raw vectors `[B, P]`, or `[P]`, before any guard.

    Args:
        model: a built Keras model.
        genomes: `[B, P]` or `[P]`.
        experience: inputs `[N, ...]`, all of which are used.
        mutation: an operator that measures a sensitivity, or its name.
        direction: for `sm-g-so`, the directions `[B, P]`, or one `[P]` for all, along which curvature is measured, used
            as they are given; a random unit vector, the same for all, if None.
        each: whether every genome has an experience of its own, `[B, N, ...]`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> genomes = np.array([[0.5, 1.0, 0.0], [2.0, 0.0, 1.0]])
    >>> tfsm.functional.sensitivity(model, genomes, np.array([[3.0, -1.0], [1.0, 1.0]]), "sm-g-abs")
    array([[2., 1., 1.],
           [2., 1., 1.]], dtype=float32)
    """
    lanes = lanes_of(model)
    operator = measuring(as_operator(lanes.operators, mutation, {}), mutation)
    own, alone = as_genomes(lanes.network, genomes)
    if direction is None:
        direction = any_direction(lanes.network)
    along, _ = as_genomes(lanes.network, direction, "direction")
    if len(along) not in (1, len(own)):
        raise TfsmError(f"direction: expected one for each of {len(own):,} genomes, or one for all, got {len(along):,}")
    if not len(own):
        return own.copy()
    along = np.broadcast_to(along, own.shape)
    found = lanes.sensitivity(operator, own, as_seen(model, experience, len(own), each=each), along)
    return found[0] if alone else found


def divergence(model: keras.Model, genomes: Any, others: Any, experience: Any, *, each: bool = False) -> Any:
    """Return how far the outputs of two genomes are apart, for each pair: `[B]`, or a number for a single pair.

    Args:
        model: a built Keras model.
        genomes: `[B, P]`, or `[P]` to compare one with many.
        others: `[B, P]`, or `[P]` to compare one with many.
        experience: inputs `[N, ...]`.
        each: whether every pair has an experience of its own, `[B, N, ...]`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    >>> tfsm.functional.divergence(model, np.array([[1.0], [2.0], [4.0]]), np.array([2.0]), np.ones((5, 1)))
    array([1., 0., 4.], dtype=float32)
    """
    lanes = lanes_of(model)
    pair = [as_genomes(lanes.network, given, what) for given, what in ((genomes, "genomes"), (others, "others"))]
    counts = [len(own) for own, alone in pair if not alone]
    if len(set(counts)) > 1:
        raise TfsmError(f"expected as many others as genomes, got {counts[0]:,} genomes and {counts[1]:,} others")
    count = counts[0] if counts else 1
    seen = as_seen(model, experience, count, each=each)
    # Where each has its own experience, a single genome sees all of them.
    first, second = (np.broadcast_to(own, (count, own.shape[1])) if each else own for own, _ in pair)
    found = lanes.divergence(first, second, seen)
    return found if counts else float(found[0])


def outputs(model: keras.Model, genomes: Any, inputs: Any, *, each: bool = False) -> np.ndarray:
    """Return what the networks answer: output rows `[B, I, K]`, or `[I, K]` for a single genome `[P]`.

    Every output vector is a row: a model that answers a sequence has a row for each time, and several outputs of one
    model are side by side.

    Args:
        model: a built Keras model.
        genomes: `[B, P]` or `[P]`.
        inputs: `[N, ...]`; a list or dict of them for a model of several inputs.
        each: whether every genome has inputs of its own, `[B, N, ...]`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> tfsm.functional.outputs(model, np.array([[2.0, 0.0], [1.0, 5.0]]), np.array([[1.0], [3.0]]))[..., 0]
    array([[2., 6.],
           [6., 8.]], dtype=float32)
    """
    lanes = lanes_of(model)
    own, alone = as_genomes(lanes.network, genomes)
    rows = lanes.rows(own, as_seen(model, inputs, len(own), each=each))
    return rows[0] if alone else rows


def initial(
    model: keras.Model, count: int, seed: int = 0, scheme: Scheme = "xavier-normal", scale: float | None = None
) -> np.ndarray:
    """Return genomes `[B, P]` to start from; the one with number b depends on the seed and on b alone.

    Args:
        model: a built Keras model; what a scheme does not draw is as the model has it now.
        count: B.
        seed: a whole number.
        scheme: `xavier-normal`, `xavier-uniform` or `xavier-biased` for kernels by their fans, `normal` or `uniform`
            for all weights alike, or `model` for the model's own weights.
        scale: a factor on the Xavier schemes' spread; the standard deviation of `normal`, the half width of `uniform`.

    >>> import keras, tfsm
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    >>> tfsm.functional.initial(model, 4, scheme="uniform", scale=0.5).shape
    (4, 9)
    """
    network = copy.copy(lanes_of(model).network)
    if scheme not in get_args(Scheme):
        raise TfsmError(f"no scheme named {scheme!r}{suggestion(str(scheme), get_args(Scheme))}")
    if scale is not None and not is_amount(scale):
        raise TfsmError(f"scale: expected a number >= 0, got {scale!r}")
    numbers = streams(seed, count)
    network.genome = flatten(model)
    width = 1 << max(0, len(numbers) - 1).bit_length()  # few of them, because noise is compiled for each
    words = np.zeros([width, 2], np.int32)
    words[: len(numbers)] = as_words(numbers, len(numbers), alone=False)
    drawn: np.ndarray = Initial(scheme, scale).genomes(network, tf.constant(words)).numpy()
    return drawn[: len(numbers)]
