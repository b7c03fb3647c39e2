"""Counter-based random numbers: Threefry-2x32 with 20 rounds (Salmon et al. 2011), in plain tensor operations.

A seed is two 32-bit words. The numbers depend only on the seed and their position: not on the number of seeds in a
batch, nor on whether the surrounding code is compiled. Under XLA the noise of a genome is one fused loop
(`python -m benchmarks.microbenchmarks noise` compares it with `tf.random.stateless_normal`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import tensorflow as tf

from tfsm.interfaces import Tensor

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ROUNDS = 20
_no_autograph = tf.autograph.experimental.do_not_convert


@_no_autograph
def threefry(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Encrypt a counter of two uint32 words with a key of two; the words broadcast against each other."""
    words = (*key, *counter)
    return _trace_rounds(*(tuple(word.shape) for word in words))(*words)


@cache
def _trace_rounds(*shapes: tuple[int | None, ...]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Trace the cipher once per process and shapes: it is 150 operations, and every seed is derived with it."""
    traced = tf.function(_run_rounds, autograph=False)
    return traced.get_concrete_function(*(tf.TensorSpec(shape, tf.uint32) for shape in shapes))


def _run_rounds(k0: Tensor, k1: Tensor, c0: Tensor, c1: Tensor) -> tuple[Tensor, Tensor]:
    schedule = (k0, k1, tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(k0, k1), _word(_PARITY)))
    x0, x1 = c0 + k0, c1 + k1
    for i in range(_ROUNDS):
        distance = _ROTATIONS[(i // 4) % 2][i % 4]
        x0 = x0 + x1
        x1 = tf.bitwise.bitwise_xor(_rotate(x1, distance), x0)
        if i % 4 == 3:
            group = i // 4 + 1
            x0 = x0 + schedule[group % 3]
            x1 = x1 + schedule[(group + 1) % 3] + _word(group)
    return x0, x1


def root_seed(seed: int) -> Tensor:
    """Return the seed `[2]` (int32) for an integer below 2**63."""
    words = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32)
    return tf.constant(words.view(np.int32))


@_no_autograph
def fold_in(seed: Tensor, *data: Tensor | int) -> Tensor:
    """Derive a new seed `[..., 2]` from a seed and one or two integers, each a scalar or `[...]`."""
    words = [tf.cast(tf.convert_to_tensor(d), tf.int32) for d in data] + [tf.constant(0)]
    k0, k1 = _words(seed)
    x0, x1 = threefry((k0, k1), (_bits(words[0]), _bits(words[1])))
    # XOR with the complement keeps the new seed apart from numbers drawn with the same seed and counter.
    return tf.stack([tf.cast(tf.bitwise.invert(x0), tf.int32), tf.cast(x1, tf.int32)], axis=-1)


@_no_autograph
def split(seed: Tensor, count: int) -> tuple[Tensor, ...]:
    """Derive `count` independent seeds from one."""
    return tuple(tf.unstack(fold_in(seed[..., None, :], tf.range(count), -1), axis=-2))


@_no_autograph
def random_bits(seed: Tensor, size: int) -> Tensor:
    """Draw `[..., size]` uint32 words from seeds `[..., 2]`."""
    half = (size + 1) // 2
    counter = tf.cast(tf.range(half, dtype=tf.int32), tf.uint32)
    k0, k1 = (word[..., None] for word in _words(seed))
    x0, x1 = threefry((k0, k1), (counter, tf.zeros_like(counter)))
    return tf.concat([x0, x1], axis=-1)[..., :size]


@_no_autograph
def uniform(seed: Tensor, size: int, dtype: tf.DType = tf.float32) -> Tensor:
    """Draw `[..., size]` numbers, uniform in the open interval (0, 1), from seeds `[..., 2]`."""
    # 23 bits plus one half: exact in float32, and never 0 or 1.
    bits = tf.cast(tf.bitwise.right_shift(random_bits(seed, size), _word(9)), tf.int32)
    return (tf.cast(bits, dtype) + 0.5) * (2.0**-23)


@_no_autograph
def gaussian(seed: Tensor, size: int, dtype: tf.DType = tf.float32) -> Tensor:
    """Draw `[..., size]` standard normal numbers from seeds `[..., 2]`."""
    # Drawn in float32 for all types, so that a run in float64 gets the same noise.
    return tf.cast(_gaussian(seed, size), dtype)


# Compiled even if the surrounding code is not: TensorFlow's elementwise kernels round differently at the end of an
# array than within it, so that the noise of a genome would depend on its position in the batch.
@tf.function(jit_compile=True, autograph=False)
def _gaussian(seed: Tensor, size: int) -> Tensor:
    return tf.math.erfinv(2.0 * uniform(seed, size) - 1.0) * math.sqrt(2.0)


@_no_autograph
def distinct_integers(seed: Tensor, count: int, below: int) -> Tensor:
    """Draw `[..., count]` distinct integers below `below`; all such sets are equally likely."""
    if count > 16:
        return tf.math.top_k(uniform(seed, below), count, sorted=False).indices
    ranks = tf.cast(uniform(seed, count) * tf.range(below, below - count, -1, dtype=tf.float32), tf.int32)
    chosen: list[Tensor] = []  # sorted; the j-th rank counts only numbers that are not chosen yet
    drawn: list[Tensor] = []
    for j in range(count):
        value = tf.minimum(ranks[..., j], below - 1 - j)
        for smaller in chosen:
            value = value + tf.cast(value >= smaller, tf.int32)
        drawn.append(value)
        chosen = _insert(chosen, value)
    return tf.stack(drawn, axis=-1)


def _insert(ordered: list[Tensor], value: Tensor) -> list[Tensor]:
    result = []
    for item in ordered:
        result.append(tf.minimum(item, value))
        value = tf.maximum(item, value)
    return [*result, value]


def _word(value: int) -> Tensor:
    return tf.constant(value, tf.uint32)


def _bits(value: Tensor) -> Tensor:
    # A cast wraps around, so it keeps the bits; unlike a bitcast, it works in vectorized_map.
    return tf.cast(value, tf.uint32)


def _words(seed: Tensor) -> tuple[Tensor, Tensor]:
    words = _bits(seed)
    return words[..., 0], words[..., 1]


def _rotate(word: Tensor, distance: int) -> Tensor:
    left = tf.bitwise.left_shift(word, _word(distance))
    return tf.bitwise.bitwise_or(left, tf.bitwise.right_shift(word, _word(32 - distance)))
