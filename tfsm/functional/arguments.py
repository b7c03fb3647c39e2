"""What callers hand over, checked and brought into one form."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.errors import TfsmError
from tfsm.functional.lanes import Seen
from tfsm.kernels.noise import gaussian, root_seed
from tfsm.models.experience import as_inputs
from tfsm.models.network import Network


def as_genomes(network: Network, genomes: Any, what: str = "genomes") -> tuple[np.ndarray, bool]:
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


def as_seen(model: keras.Model, experience: Any, count: int = 1, *, each: bool = False) -> Seen:
    """Return an experience that fits the model.

    Args:
        model: the model.
        experience: an array, or for a model of several inputs a list, tuple or dict of them.
        count: B.
        each: whether the arrays are `[B, N, ...]` instead of `[N, ...]`.
    """
    if not each:
        return Seen([tensor[None] for tensor in as_inputs(model, experience)], each)
    several = len(getattr(model, "inputs", None) or ()) > 1
    if isinstance(experience, Mapping):
        folded: Any = {name: _folded(part, count) for name, part in experience.items()}
    elif isinstance(experience, tuple) or (several and isinstance(experience, list)):
        folded = tuple(_folded(part, count) for part in experience)
    else:
        folded = _folded(experience, count)
    return Seen([_unfolded(tensor, max(1, count)) for tensor in as_inputs(model, folded)], each)


def _folded(part: Any, count: int) -> np.ndarray:
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


def _unfolded(tensor: Tensor, count: int) -> Tensor:
    return tf.reshape(tensor, [count, tensor.shape[0] // count, *tensor.shape[1:]])


def check_intensity(intensity: Any) -> None:
    """Refuse an intensity that is not one number, or negative, or not finite."""
    if np.ndim(intensity) > 0:
        raise TfsmError(
            "intensity: operators take one number for all genomes, got an array of "
            f"{list(np.shape(intensity))}: call once for each intensity"
        )
    if not is_amount(intensity):
        raise TfsmError(f"intensity: expected a number >= 0, got {intensity!r}")


def is_amount(value: Any) -> bool:
    """Say whether this is one number, finite and not negative."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < np.inf


def any_direction(network: Network) -> np.ndarray:
    """Return a random unit vector `[1, P]`, always the same."""
    noise = gaussian(root_seed(0)[None], network.size, network.dtype)
    along: np.ndarray = (noise / tf.norm(noise)).numpy()
    return along
