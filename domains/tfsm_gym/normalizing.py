"""Bringing the numbers of observations to one size; pictures, and numbers that are one or zero, stay as they are."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tfsm_gym.loading import gymnasium
from tfsm_gym.observing import Reader

HUGE: Final = 1e15
"""A bound as large as this is none: some environments write the largest number there is for infinity."""
SAMPLES: Final = 2_000
"""Observations that the mean and the deviation are taken of."""


def by_bounds(reader: Reader) -> None:
    """Scale numbers between two finite bounds to [-1, 1]."""
    low, high = (np.full(reader.length, end) for end in (-np.inf, np.inf))
    for part in reader.numbers:
        if isinstance(part.space, gymnasium().spaces.Box):
            low[part.place], high[part.place] = np.ravel(part.space.low), np.ravel(part.space.high)
    middle, half = scaling(low, high)
    reader.normalize(middle, 1.0 / half)


def scaling(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle between bounds and half their distance; 0 and 1 where they are not finite.

    >>> scaling(np.array([-2.0, 0.0]), np.array([6.0, np.inf]))
    (array([2., 0.]), array([4., 1.]))
    """
    bounded = is_bounded(low, high)
    low, high = (np.where(bounded, end, 0.0) for end in (low, high))
    return (low + high) / 2, np.where(bounded, (high - low) / 2, 1.0)


def is_bounded(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Say which numbers have two finite bounds, one above the other."""
    return (np.abs(low) < HUGE) & (np.abs(high) < HUGE) & (low < high)


def by_samples(reader: Reader, env: Any) -> None:
    """Subtract the mean and divide by the deviation of what random actions meet: always the same actions and episodes.

    Args:
        reader: whose numbers.
        env: an environment, which is left somewhere in an episode.
    """
    met: list[Any] = []
    env.action_space.seed(0)
    for episode in range(SAMPLES):
        observation, _ = env.reset(seed=episode)
        met.append(observation)
        over = False
        while not over and len(met) < SAMPLES:
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            met.append(observation)
            over = terminated or truncated
        if len(met) == SAMPLES:
            break
    seen = reader.rows(met).astype(np.float64)
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    kept = np.ones(reader.length, bool)
    for part in reader.numbers:
        kept[part.place] = not isinstance(part.space, gymnasium().spaces.Box)
    # A number that never changes says nothing of its size.
    kept |= deviation < 1e-6
    reader.normalize(np.where(kept, 0.0, mean), np.where(kept, 1.0, 1.0 / np.maximum(deviation, 1e-6)))
