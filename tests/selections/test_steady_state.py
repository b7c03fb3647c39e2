from __future__ import annotations

import numpy as np

from tests.selections.views import scheme, seeds


def test_everybody_is_equally_likely_to_breed_and_to_leave() -> None:
    lanes = 4_000
    fitness = np.tile(np.arange(5, dtype=np.float32), (lanes, 1))
    choice = scheme("random").choose(fitness, seeds(lanes))
    for index in choice:
        shares = np.bincount(index.numpy(), minlength=5) / lanes
        np.testing.assert_allclose(shares, 0.2, atol=5 * np.sqrt(0.25 / lanes))
    both = np.corrcoef(*(index.numpy() for index in choice))[0, 1]
    assert abs(both) < 5 / np.sqrt(lanes)
