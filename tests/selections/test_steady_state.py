"""Random selection."""

from __future__ import annotations

import numpy as np

from tests.selections.populations import build_scheme, seeds


def test_all_individuals_are_equally_likely_to_be_parents_and_to_be_replaced() -> None:
    lanes = 4_000
    fitness = np.tile(np.arange(5, dtype=np.float32), (lanes, 1))
    choice = build_scheme("random").choose(fitness, seeds(lanes))
    for index in choice:
        shares = np.bincount(index.numpy(), minlength=5) / lanes
        np.testing.assert_allclose(shares, 0.2, atol=5 * np.sqrt(0.25 / lanes))
    both = np.corrcoef(*(index.numpy() for index in choice))[0, 1]
    assert abs(both) < 5 / np.sqrt(lanes)
