"""Public pure functions on arrays of genomes.

A genome is a vector `[P]`: the trainable weights of a Keras model, as `tfsm.flatten` orders them. `B` genomes of one
model are an array `[B, P]`. The model says the architecture only: its own weights are neither used nor changed.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any, get_args

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError, suggestion
from tfsm.evolution.initialization import Initializer
from tfsm.functional._batching import ExperienceBatch, require_sensitivity, resolve_operator, runner_for
from tfsm.interfaces import Init, Mutation, Tensor
from tfsm.kernels.random import fold_in, gaussian, root_seed
from tfsm.models.genome import flatten
from tfsm.models.inputs import prepare_inputs
from tfsm.models.network import Network

__all__ = ["divergence", "initial", "mutate", "outputs", "sensitivity", "streams"]


def prepare_genomes(network: Network, genomes: Any, what: str = "genomes") -> tuple[np.ndarray, bool]:
    """Return genomes `[B, P]` in the network's type, and whether there was a single one `[P]`.

    Args:
        network: the network that they belong to.
        genomes: `[B, P]` or `[P]`.
        what: what to call them in messages.
    """
    try:
        given = np.asarray(genomes)
    except ValueError as error:
        raise TfsmError(f"{what}: not an array: {error}") from None
    if given.ndim not in (1, 2) or given.shape[-1] != network.size:
        raise TfsmError(
            f"{what}: expected [B, {network.size}] or [{network.size}], got an array of {list(given.shape)}"
        )
    if given.dtype.kind != "f":
        raise TfsmError(f"{what}: expected floating-point numbers, got an array of {given.dtype}")
    with np.errstate(over="ignore"):  # said below, in our words
        rows = np.atleast_2d(given).astype(network.dtype.as_numpy_dtype, copy=False)
    sound = np.isfinite(rows).all(axis=1)
    if not sound.all():
        which = f"number {int(np.argmin(sound))}" if given.ndim == 2 else "the one given"
        raise TfsmError(f"{what}: {which} has NaN or infinite values, or too large ones for {rows.dtype}")
    return rows, given.ndim == 1


def prepare_experience(model: keras.Model, experience: Any, count: int = 1, *, each: bool = False) -> ExperienceBatch:
    """Return an experience that fits the model.

    Args:
        model: the model.
        experience: an array, or for a model of several inputs a list, tuple or dict of them.
        count: B.
        each: whether the arrays are `[B, N, ...]` instead of `[N, ...]`.
    """
    if not each:
        return ExperienceBatch([tensor[None] for tensor in prepare_inputs(model, experience)], each)
    several = len(getattr(model, "inputs", None) or ()) > 1
    if isinstance(experience, Mapping):
        folded: Any = {name: _fold_genome_axis(part, count) for name, part in experience.items()}
    elif isinstance(experience, tuple) or (several and isinstance(experience, list)):
        folded = tuple(_fold_genome_axis(part, count) for part in experience)
    else:
        folded = _fold_genome_axis(experience, count)
    return ExperienceBatch(
        [_unfold_genome_axis(tensor, max(1, count)) for tensor in prepare_inputs(model, folded)], each
    )


def _fold_genome_axis(part: Any, count: int) -> np.ndarray:
    try:
        array = np.asarray(part)
    except ValueError as error:
        raise TfsmError(f"the experience is not an array: {error}") from None
    if array.ndim < 2 or array.shape[0] != count:
        raise TfsmError(
            f"with each=True the experience has an axis for the genomes, [{count}, N, ...]: got {list(array.shape)}"
        )
    if not count:  # somebody has to see something of that shape, to find out the shape of the outputs
        array = np.zeros([1, *array.shape[1:]], array.dtype)
    return array.reshape([array.shape[0] * array.shape[1], *array.shape[2:]])


def _unfold_genome_axis(tensor: Tensor, count: int) -> Tensor:
    return tf.reshape(tensor, [count, tensor.shape[0] // count, *tensor.shape[1:]])


def check_intensity(intensity: Any) -> None:
    """Refuse an intensity that is not one number, or negative, or not finite."""
    if np.ndim(intensity) > 0:
        raise TfsmError(
            "intensity: operators take one number for all genomes, got an array of "
            f"{list(np.shape(intensity))}: call once for each intensity"
        )
    if not is_nonnegative(intensity):
        raise TfsmError(f"intensity: expected a number >= 0, got {intensity!r}")


def is_nonnegative(value: Any) -> bool:
    """Say whether this is one number, finite and not negative."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < np.inf


def default_direction(network: Network) -> np.ndarray:
    """Return a random unit vector `[1, P]`, always the same."""
    noise = gaussian(root_seed(0)[None], network.size, network.dtype)
    along: np.ndarray = (noise / tf.norm(noise)).numpy()
    return along


BLOCK = 256
"""Streams derived in one call, so that one compiled function serves for any number of them."""


def streams(seed: int, count: int) -> np.ndarray:
    """Return the streams `[B]` that a seed stands for where there are many genomes: whole numbers, as seeds are.

    The stream with number b depends on the seed and on b alone.

    >>> import tfsm
    >>> tfsm.functional(0, 3)
    array([...])
    >>> (tfsm.functional(0, 1000)[:3] == tfsm.functional(0, 3)).all()
    np.True_
    """
    check_seed(seed)
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise TfsmError(f"count: expected a whole number >= 0, got {count!r}")
    root = root_seed(int(seed))
    blocks = [_derive_block(root, tf.constant(start)).numpy() for start in range(0, int(count), BLOCK)]
    words = np.concatenate([*blocks, np.empty([0, 2], np.int32)])[:count]
    # The topmost bit is left out, because a seed has 63.
    low, high = words[:, 0].astype(np.int64) & 0xFFFFFFFF, words[:, 1].astype(np.int64) & 0x7FFFFFFF
    return low | high << 32


def pack_seeds(seed: Any, count: int, *, alone: bool) -> np.ndarray:
    """Return the seeds `[B, 2]` (int32) that operators take.

    Args:
        seed: a whole number, or an array of `count` of them.
        count: B.
        alone: whether there is a genome `[P]`, which has the seed itself for its stream.
    """
    if isinstance(seed, int | float | np.number) or alone:
        check_seed(seed)
        numbers = np.array([seed], np.int64) if alone else streams(int(seed), count)
    else:
        numbers = _check_streams(seed, count)
    return np.ascontiguousarray(numbers, "<i8").view("<i4").astype(np.int32).reshape(-1, 2)


def check_seed(seed: Any) -> None:
    """Refuse a seed that is not a whole number below 2**63."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise TfsmError(f"seed: expected a whole number from 0 to 2**63 - 1, got {seed!r}")


def _check_streams(seed: Any, count: int) -> np.ndarray:
    expected = f"seed: expected a whole number, or an array of {count:,} of them"
    try:
        numbers = np.asarray(seed)
    except ValueError:
        raise TfsmError(f"{expected}, one for each genome") from None
    if numbers.size and numbers.dtype.kind not in "iu":
        raise TfsmError(f"{expected}, got an array of {numbers.dtype}")
    if numbers.shape != (count,):
        raise TfsmError(f"{expected}, got an array of shape {numbers.shape}")
    if (numbers < 0).any() or (numbers > 2**63 - 1).any():
        raise TfsmError("seed: expected whole numbers from 0 to 2**63 - 1 only")
    return numbers.astype(np.int64)


# Compiled: a hundred tiny operations would each cost more than they do.
@tf.function(jit_compile=True, autograph=False)
def _derive_block(root: Tensor, start: Tensor) -> Tensor:
    return fold_in(root, start + tf.range(BLOCK))


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
    lanes = runner_for(model)
    operator = resolve_operator(lanes.operators, mutation, options)
    own, alone = prepare_genomes(lanes.network, genomes)
    words = pack_seeds(seed, len(own), alone=alone)
    if not len(own):
        return own.copy()
    child = lanes.mutate(operator, own, prepare_experience(model, experience, len(own), each=each), intensity, words)
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
    lanes = runner_for(model)
    operator = require_sensitivity(resolve_operator(lanes.operators, mutation, {}), mutation)
    own, alone = prepare_genomes(lanes.network, genomes)
    if direction is None:
        direction = default_direction(lanes.network)
    along, _ = prepare_genomes(lanes.network, direction, "direction")
    if len(along) not in (1, len(own)):
        raise TfsmError(f"direction: expected one for each of {len(own):,} genomes, or one for all, got {len(along):,}")
    if not len(own):
        return own.copy()
    along = np.broadcast_to(along, own.shape)
    found = lanes.sensitivity(operator, own, prepare_experience(model, experience, len(own), each=each), along)
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
    lanes = runner_for(model)
    pair = [prepare_genomes(lanes.network, given, what) for given, what in ((genomes, "genomes"), (others, "others"))]
    counts = [len(own) for own, alone in pair if not alone]
    if len(set(counts)) > 1:
        raise TfsmError(f"expected as many others as genomes, got {counts[0]:,} genomes and {counts[1]:,} others")
    count = counts[0] if counts else 1
    seen = prepare_experience(model, experience, count, each=each)
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
    lanes = runner_for(model)
    own, alone = prepare_genomes(lanes.network, genomes)
    rows = lanes.rows(own, prepare_experience(model, inputs, len(own), each=each))
    return rows[0] if alone else rows


def initial(
    model: keras.Model, count: int, seed: int = 0, scheme: Init = "xavier-normal", scale: float | None = None
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
    network = copy.copy(runner_for(model).network)
    if scheme not in get_args(Init):
        raise TfsmError(f"no scheme named {scheme!r}{suggestion(str(scheme), get_args(Init))}")
    if scale is not None and not is_nonnegative(scale):
        raise TfsmError(f"scale: expected a number >= 0, got {scale!r}")
    numbers = streams(seed, count)
    network.genome = flatten(model)
    width = 1 << max(0, len(numbers) - 1).bit_length()  # few of them, because noise is compiled for each
    words = np.zeros([width, 2], np.int32)
    words[: len(numbers)] = pack_seeds(numbers, len(numbers), alone=False)
    drawn: np.ndarray = Initializer(scheme, scale).genomes(network, tf.constant(words)).numpy()
    return drawn[: len(numbers)]
