"""Threefry-2x32 with 20 rounds, on Python integers (Salmon et al. 2011, section 3.3 and table 2)."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

MASK = 2**32 - 1
ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24]


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    keys = [key[0], key[1], 0x1BD11BDA ^ key[0] ^ key[1]]
    a, b = (counter[0] + keys[0]) & MASK, (counter[1] + keys[1]) & MASK
    for number in range(1, 21):
        a = (a + b) & MASK
        turn = ROTATIONS[(number - 1) % 8]
        b = ((b << turn) & MASK | b >> (32 - turn)) ^ a
        if number % 4 == 0:
            injection = number // 4
            a = (a + keys[injection % 3]) & MASK
            b = (b + keys[(injection + 1) % 3] + injection) & MASK
    return a, b


def words(seed: np.ndarray) -> tuple[int, int]:
    """Return a seed `[2]` of signed words as unsigned ones."""
    return int(seed[0]) & MASK, int(seed[1]) & MASK


def bits(seed: np.ndarray, size: int) -> list[int]:
    """Return the words drawn with a seed: all first words of the counters 0, 1, ..., then all second words."""
    half = -(-size // 2)
    pairs = [threefry(words(seed), (i, 0)) for i in range(half)]
    return ([a for a, _ in pairs] + [b for _, b in pairs])[:size]


def uniform(seed: np.ndarray, size: int) -> np.ndarray:
    """The upper 23 bits, at the middle of their intervals."""
    return np.array([((word >> 9) + 0.5) / 2**23 for word in bits(seed, size)])


def gaussian(seed: np.ndarray, size: int) -> np.ndarray:
    """The inverse of the normal distribution function, in float64."""
    return np.asarray(ndtri(uniform(seed, size)))


def split(seed: np.ndarray, count: int) -> list[np.ndarray]:
    """The seeds derived by encrypting (0, -1), (1, -1), ... with the first word of each inverted."""
    pairs = [threefry(words(seed), (i, MASK)) for i in range(count)]
    return [np.array([a ^ MASK, b], np.uint32).view(np.int32) for a, b in pairs]
