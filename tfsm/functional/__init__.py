"""The operators as pure functions on arrays of genomes, for evolutionary loops of your own.

A genome is a vector `[P]`: the trainable weights of a Keras model, in the order of `tfsm.flatten`. `B` genomes of one
model are an array `[B, P]`. The model provides the architecture only; its own weights are neither used nor changed.
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
from tfsm.evolution.divergence import DivergenceTarget
from tfsm.functional._batching import ExperienceBatch, Strength, require_sensitivity, resolve_operator, runner_for
from tfsm.interfaces import Child, Init, Mutation, Tensor
from tfsm.kernels.random import fold_in, gaussian, root_seed
from tfsm.models.genome import flatten
from tfsm.models.inputs import prepare_inputs
from tfsm.models.network import Network
from tfsm.plugins.options import parse_divergence

__all__ = ["divergence", "initial", "mutate", "outputs", "sensitivity", "streams"]

DEFAULT_MUTATION = "sm-g-sum"
DEFAULT_DIVERGENCE = "1%"
BLOCK = 256
"""Streams derived per call, so that one compiled function serves any number of them."""


def mutate(
    model: keras.Model,
    genomes: Any,
    experience: Any,
    mutation: str | Mutation = DEFAULT_MUTATION,
    intensity: float | None = None,
    seed: Any = 0,
    *,
    divergence: float | str | None = None,
    each: bool = False,
    **options: Any,
) -> np.ndarray:
    """Return a child of each genome: a new array `[B, P]`, or `[P]` for a single genome `[P]`.

    A child depends on its parent, the experience and its stream only, not on the rest of the batch; to the last bit if
    the network is compiled by XLA.

    Args:
        model: a built Keras model; it provides the architecture, and its trainable weights are not used.
        genomes: `[B, P]` or `[P]`.
        experience: inputs `[N, ...]` that the networks saw; a list or dict of them for a model with several inputs.
        mutation: the operator's name, or an operator.
        intensity: the standard deviation of the noise; for `sm-r` the target divergence. One number for all genomes.
        divergence: how far the outputs of each child move on the experience, instead of an intensity: a number, or a
            percentage of the variance of the parent's outputs. 1% if neither is given.
        seed: an integer, which stands for `streams(seed, B)`, or an array of B streams. For a single genome `[P]`
            the seed itself is the stream, as in `tfsm.mutate`.
        each: whether each genome has its own experience, `[B, N, ...]`.
        **options: the operator's options, as listed by `tfsm mutations`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, activation="tanh")])
    >>> parents = tfsm.functional.initial(model, 5)
    >>> children = tfsm.functional.mutate(model, parents, np.ones((4, 2)), "sm-g-abs", divergence=0.1)
    >>> children.shape == parents.shape == (5, 9)
    True
    >>> tfsm.functional.divergence(model, parents, children, np.ones((4, 2))).round(1)
    array([0.1, 0.1, 0.1, 0.1, 0.1], dtype=float32)
    """
    strength = choose_strength(intensity, divergence)
    runner = runner_for(model)
    operator = resolve_operator(runner.operators, mutation, options, strength.target)
    parents, single = prepare_genomes(runner.network, genomes)
    seeds = pack_seeds(seed, len(parents), single=single)
    if not len(parents):
        return parents.copy()
    seen = prepare_experience(model, experience, len(parents), each=each)
    child = runner.mutate(operator, parents, seen, strength, seeds)
    name = mutation if isinstance(mutation, str) else type(mutation).__name__
    # Without numbers of this particular call, so that Python shows a warning once and not a thousand times.
    for problem in describe_problems(child, strength):
        warnings.warn(f"{name}: {problem}", stacklevel=2)
    return child.genome[0] if single else child.genome


def sensitivity(
    model: keras.Model,
    genomes: Any,
    experience: Any,
    mutation: str | Mutation = DEFAULT_MUTATION,
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
        direction: for `sm-g-so`, the directions `[B, P]`, or one `[P]` for all, along which the curvature is measured,
            used as given; a random unit vector, the same for all, if None.
        each: whether each genome has its own experience, `[B, N, ...]`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> genomes = np.array([[0.5, 1.0, 0.0], [2.0, 0.0, 1.0]])
    >>> tfsm.functional.sensitivity(model, genomes, np.array([[3.0, -1.0], [1.0, 1.0]]), "sm-g-abs")
    array([[2., 1., 1.],
           [2., 1., 1.]], dtype=float32)
    """
    runner = runner_for(model)
    operator = require_sensitivity(resolve_operator(runner.operators, mutation, {}, None), mutation)
    batch, single = prepare_genomes(runner.network, genomes)
    if direction is None:
        direction = default_direction(runner.network)
    along, _ = prepare_genomes(runner.network, direction, "direction")
    if len(along) not in (1, len(batch)):
        raise TfsmError(
            f"direction: expected one for each of {len(batch):,} genomes, or one for all, got {len(along):,}"
        )
    if not len(batch):
        return batch.copy()
    along = np.broadcast_to(along, batch.shape)
    result = runner.sensitivity(operator, batch, prepare_experience(model, experience, len(batch), each=each), along)
    return result[0] if single else result


def divergence(model: keras.Model, genomes: Any, others: Any, experience: Any, *, each: bool = False) -> Any:
    """Return how far the outputs of two genomes are apart, for each pair: `[B]`, or a number for a single pair.

    Args:
        model: a built Keras model.
        genomes: `[B, P]`, or `[P]` to compare one with many.
        others: `[B, P]`, or `[P]` to compare one with many.
        experience: inputs `[N, ...]`.
        each: whether each pair has its own experience, `[B, N, ...]`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    >>> tfsm.functional.divergence(model, np.array([[1.0], [2.0], [4.0]]), np.array([2.0]), np.ones((5, 1)))
    array([1., 0., 4.], dtype=float32)
    """
    runner = runner_for(model)
    pair = [prepare_genomes(runner.network, given, what) for given, what in ((genomes, "genomes"), (others, "others"))]
    counts = [len(batch) for batch, single in pair if not single]
    if len(set(counts)) > 1:
        raise TfsmError(f"expected as many others as genomes, got {counts[0]:,} genomes and {counts[1]:,} others")
    count = counts[0] if counts else 1
    seen = prepare_experience(model, experience, count, each=each)
    # If each pair has its own experience, a single genome sees all of them.
    first, second = (np.broadcast_to(batch, (count, batch.shape[1])) if each else batch for batch, _ in pair)
    result = runner.divergence(first, second, seen)
    return result if counts else float(result[0])


def outputs(model: keras.Model, genomes: Any, inputs: Any, *, each: bool = False) -> np.ndarray:
    """Return the networks' outputs as rows `[B, I, K]`, or `[I, K]` for a single genome `[P]`.

    Each output vector is a row: a model that returns a sequence has one row per time step, and several outputs of one
    model are concatenated.

    Args:
        model: a built Keras model.
        genomes: `[B, P]` or `[P]`.
        inputs: `[N, ...]`; a list or dict of them for a model with several inputs.
        each: whether each genome has its own inputs, `[B, N, ...]`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> tfsm.functional.outputs(model, np.array([[2.0, 0.0], [1.0, 5.0]]), np.array([[1.0], [3.0]]))[..., 0]
    array([[2., 6.],
           [6., 8.]], dtype=float32)
    """
    runner = runner_for(model)
    batch, single = prepare_genomes(runner.network, genomes)
    rows = runner.rows(batch, prepare_experience(model, inputs, len(batch), each=each))
    return rows[0] if single else rows


def initial(
    model: keras.Model, count: int, seed: int = 0, scheme: Init = "xavier-normal", scale: float | None = None
) -> np.ndarray:
    """Return initial genomes `[B, P]`; genome b depends on the seed and on b only.

    Args:
        model: a built Keras model; weights that a scheme does not draw keep their current values.
        count: B.
        seed: an integer.
        scheme: `xavier-normal`, `xavier-uniform` or `xavier-biased` for kernels by their fans, `normal` or `uniform`
            for all weights alike, or `model` for the model's own weights.
        scale: a factor on the spread of the Xavier schemes; the standard deviation of `normal`; the half width of
            `uniform`.

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
    width = 1 << max(0, len(numbers) - 1).bit_length()  # few widths, because noise is compiled for each
    seeds = np.zeros([width, 2], np.int32)
    seeds[: len(numbers)] = pack_seeds(numbers, len(numbers), single=False)
    from tfsm.evolution.initialization import Initializer  # the other functions do not need it

    genomes: np.ndarray = Initializer(scheme, scale).genomes(network, tf.constant(seeds)).numpy()
    return genomes[: len(numbers)]


def streams(seed: int, count: int) -> np.ndarray:
    """Return the streams `[B]` that a seed stands for: one integer per genome, a seed in its own right.

    Stream b depends on the seed and on b only.

    >>> import tfsm
    >>> tfsm.functional.streams(0, 3)
    array([...])
    >>> (tfsm.functional.streams(0, 1000)[:3] == tfsm.functional.streams(0, 3)).all()
    np.True_
    """
    check_seed(seed)
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise TfsmError(f"count: expected a whole number >= 0, got {count!r}")
    root = root_seed(int(seed))
    blocks = [_derive_block(root, tf.constant(start)).numpy() for start in range(0, int(count), BLOCK)]
    words = np.concatenate([*blocks, np.empty([0, 2], np.int32)])[:count]
    # The top bit is dropped, because a seed has 63 bits.
    low, high = words[:, 0].astype(np.int64) & 0xFFFFFFFF, words[:, 1].astype(np.int64) & 0x7FFFFFFF
    return low | high << 32


# Compiled: the overhead of a hundred tiny operations would cost more than their work.
@tf.function(jit_compile=True, autograph=False)
def _derive_block(root: Tensor, start: Tensor) -> Tensor:
    return fold_in(root, start + tf.range(BLOCK))


def prepare_genomes(network: Network, genomes: Any, what: str = "genomes") -> tuple[np.ndarray, bool]:
    """Return genomes `[B, P]` in the network's type, and whether a single one `[P]` was given.

    Args:
        network: the network that they belong to.
        genomes: `[B, P]` or `[P]`.
        what: the argument's name, for messages.
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
    with np.errstate(over="ignore"):  # reported below
        batch = np.atleast_2d(given).astype(network.dtype.as_numpy_dtype, copy=False)
    finite = np.isfinite(batch).all(axis=1)
    if not finite.all():
        which = f"number {int(np.argmin(finite))}" if given.ndim == 2 else "the one given"
        raise TfsmError(f"{what}: {which} has NaN or infinite values, or values too large for {batch.dtype}")
    return batch, given.ndim == 1


def prepare_experience(model: keras.Model, experience: Any, count: int = 1, *, each: bool = False) -> ExperienceBatch:
    """Check that an experience fits the model, and return it as tensors.

    Args:
        model: the model.
        experience: an array, or for a model with several inputs a list, tuple or dict of them.
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
    inputs = prepare_inputs(model, folded)
    return ExperienceBatch([_unfold_genome_axis(tensor, max(1, count)) for tensor in inputs], each)


def _fold_genome_axis(part: Any, count: int) -> np.ndarray:
    try:
        array = np.asarray(part)
    except ValueError as error:
        raise TfsmError(f"the experience is not an array: {error}") from None
    if array.ndim < 2 or array.shape[0] != count:
        raise TfsmError(
            f"with each=True the experience has an axis for the genomes, [{count}, N, ...]: got {list(array.shape)}"
        )
    if not count:  # one genome is run nevertheless, to find out the shape of the outputs
        array = np.zeros([1, *array.shape[1:]], array.dtype)
    return array.reshape([array.shape[0] * array.shape[1], *array.shape[2:]])


def _unfold_genome_axis(tensor: Tensor, count: int) -> Tensor:
    return tf.reshape(tensor, [count, tensor.shape[0] // count, *tensor.shape[1:]])


def pack_seeds(seed: Any, count: int, *, single: bool) -> np.ndarray:
    """Return the seeds `[B, 2]` (int32) that operators take.

    Args:
        seed: an integer, or an array of `count` of them.
        count: B.
        single: whether there is a single genome `[P]`, for which the seed itself is the stream.
    """
    if isinstance(seed, int | float | np.number) or single:
        check_seed(seed)
        numbers = np.array([seed], np.int64) if single else streams(int(seed), count)
    else:
        numbers = _check_streams(seed, count)
    return np.ascontiguousarray(numbers, "<i8").view("<i4").astype(np.int32).reshape(-1, 2)


def check_seed(seed: Any) -> None:
    """Raise an error unless the seed is an integer from 0 to 2**63 - 1."""
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


def choose_strength(intensity: float | None, divergence: float | str | None) -> Strength:
    """Return how strongly to mutate, by the one argument that is given; by the default divergence if none is."""
    if intensity is not None and divergence is not None:
        raise TfsmError(f"intensity={intensity!r} and divergence={divergence!r} exclude each other, give one of them")
    if intensity is not None:
        check_intensity(intensity)
        return Strength(float(intensity), None)
    parsed = parse_divergence(DEFAULT_DIVERGENCE if divergence is None else divergence)
    return Strength(parsed.value, DivergenceTarget(relative=parsed.relative))


def describe_problems(child: Child, strength: Strength) -> list[str]:
    """Describe what is wrong with children, given as arrays with the diagnostics of `BatchRunner.mutate`."""
    problems = []
    if "unreached" in child.diagnostics and child.diagnostics["unreached"].any():
        problems.append(
            f"along some directions no magnitude gives a divergence of {strength}; these children are the nearest ones "
            "found"
        )
    if not child.diagnostics["finite"].all():
        problems.append("the outputs of some children are not finite; try a divergence or a smaller intensity")
    return problems


def check_intensity(intensity: Any) -> None:
    """Raise an error unless the intensity is one finite number, and not negative."""
    if np.ndim(intensity) > 0:
        raise TfsmError(
            "intensity: operators take one number for all genomes, got an array of "
            f"{list(np.shape(intensity))}: call once for each intensity"
        )
    if not is_nonnegative(intensity):
        raise TfsmError(f"intensity: expected a number >= 0, got {intensity!r}")


def is_nonnegative(value: Any) -> bool:
    """Return whether this is a finite number, and not negative."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < np.inf


def default_direction(network: Network) -> np.ndarray:
    """Return a random unit vector `[1, P]`, the same on each call."""
    noise = gaussian(root_seed(0)[None], network.size, network.dtype)
    direction: np.ndarray = (noise / tf.norm(noise)).numpy()
    return direction
