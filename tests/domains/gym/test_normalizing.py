"""Numbers of one size: by bounds to [-1, 1], by samples to mean 0 and deviation 1; all others as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import Made, made
from tests.domains.gym.playing import drawn, gym, seeds
from tfsm.models.network import Network

HUGE = float(np.finfo(np.float32).max)
MIXED = spaces.Dict(
    {
        "bounded": spaces.Box(np.float32([-2.0, 10.0]), np.float32([2.0, 30.0])),
        "gear": spaces.Discrete(2),
        "open": spaces.Box(np.float32([-np.inf, -HUGE]), np.float32([np.inf, HUGE])),
        "still": spaces.Box(-np.inf, np.inf, (1,)),
    }
)


def shows(env: Made) -> dict[str, Any]:
    far = env.np_random.normal(size=2) * [3.0, 0.5] + [100.0, -7.0]
    return {
        "bounded": np.float32([-2.0, 25.0]),
        "gear": int(env.np_random.integers(2)),
        "open": far.astype(np.float32),
        "still": np.float32([8.0]),
    }


def kept(normalize: str, count: int = 6) -> np.ndarray:
    """Return the numbers that a network met: bounded 2, gear 2, open 2, still 1."""
    with made(seen=MIXED, shows=shows, ends=count):
        domain = gym(normalize=normalize, remembered=count)
        network = Network(domain.network())
        return np.asarray(domain.evaluate(network, drawn(network, 1), seeds(5)).experience)[0]


def test_bounds_become_one_and_minus_one_and_what_has_none_stays() -> None:
    plain, bounded = kept("none"), kept("bounds")
    np.testing.assert_allclose(bounded[:, :2], np.tile([-1.0, 0.5], (6, 1)), rtol=1e-6)
    np.testing.assert_array_equal(bounded[:, 2:], plain[:, 2:])


def test_samples_give_mean_zero_and_deviation_one_and_what_never_changes_stays() -> None:
    sampled = kept("sampled", 1500)
    np.testing.assert_allclose(sampled[:, 4:6].mean(axis=0), 0.0, atol=0.15)  # of 2,000 and 1,500 others
    np.testing.assert_allclose(sampled[:, 4:6].std(axis=0), 1.0, atol=0.1)
    np.testing.assert_array_equal(np.unique(sampled[:, 2:4]), [0.0, 1.0])
    np.testing.assert_array_equal(sampled[:, 6], 8.0)
    np.testing.assert_array_equal(sampled[:, 0], -2.0)


@pytest.mark.parametrize("normalize", ["bounds", "sampled"])
def test_it_is_the_same_each_time(normalize: str) -> None:
    np.testing.assert_array_equal(kept(normalize), kept(normalize))
