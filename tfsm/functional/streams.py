"""Streams of random numbers: whole numbers below 2**63, each of which decides one child."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.errors import TfsmError
from tfsm.kernels.noise import fold, root_seed

BLOCK = 256
"""Streams derived in one call, so that one compiled function serves for any number of them."""


def streams(seed: int, count: int) -> np.ndarray:
    """Return the streams `[B]` that a seed stands for where there are many genomes: whole numbers, as seeds are.

    The stream with number b depends on the seed and on b alone.

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
    blocks = [_block(root, tf.constant(start)).numpy() for start in range(0, int(count), BLOCK)]
    words = np.concatenate([*blocks, np.empty([0, 2], np.int32)])[:count]
    # The topmost bit is left out, because a seed has 63.
    low, high = words[:, 0].astype(np.int64) & 0xFFFFFFFF, words[:, 1].astype(np.int64) & 0x7FFFFFFF
    return low | high << 32


def as_words(seed: Any, count: int, *, alone: bool) -> np.ndarray:
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
        numbers = _checked(seed, count)
    return np.ascontiguousarray(numbers, "<i8").view("<i4").astype(np.int32).reshape(-1, 2)


def check_seed(seed: Any) -> None:
    """Refuse a seed that is not a whole number below 2**63."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise TfsmError(f"seed: expected a whole number from 0 to 2**63 - 1, got {seed!r}")


def _checked(seed: Any, count: int) -> np.ndarray:
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
def _block(root: Tensor, start: Tensor) -> Tensor:
    return fold(root, start + tf.range(BLOCK))
