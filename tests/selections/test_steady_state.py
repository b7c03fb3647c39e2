"""Random selection, and how the tournament treats equals."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize("removal", ["same", "same-later"])
def test_a_tournament_among_equals(removal: str) -> None:
    """With `same-later` the later of equals is both best and worst, so that a parent among equals is replaced."""
    lanes = 200
    choice = build_scheme("tournament", removal=removal).choose(np.zeros((lanes, 20), np.float32), seeds(lanes))
    parent_is_replaced = choice.parent.numpy() == choice.replaced.numpy()
    assert parent_is_replaced.all() if removal == "same-later" else not parent_is_replaced.any()


def test_without_equals_the_tie_rule_changes_nothing() -> None:
    fitness = np.random.default_rng(0).permuted(np.tile(np.arange(20, dtype=np.float32), (200, 1)), axis=1)
    same, later = (
        build_scheme("tournament", removal=removal).choose(fitness, seeds(200)) for removal in ("same", "same-later")
    )
    np.testing.assert_array_equal(same.parent, later.parent)
    np.testing.assert_array_equal(same.replaced, later.replaced)


def test_of_the_best_the_later_one_is_the_parent() -> None:
    fitness = np.tile(np.array([1, 1, 0, 0, 0], np.float32), (400, 1))
    same, later = (
        build_scheme("tournament", removal=removal).choose(fitness, seeds(400)) for removal in ("same", "same-later")
    )
    # All five are drawn, in random order: the first of the two best is one of them, the later one is the other.
    np.testing.assert_array_equal(same.parent + later.parent, np.ones(400))
    np.testing.assert_array_equal(same.replaced, later.replaced)
