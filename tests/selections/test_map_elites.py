"""MAP-Elites: cells, bounds, elites."""

from __future__ import annotations

import numpy as np
import pytest

from tests.selections.populations import (
    apply_admission,
    build_scheme,
    make_candidate,
    make_context,
    make_population,
    seeds,
)
from tfsm.errors import TfsmError
from tfsm_plugins.selections.map_elites import cells_per_side, cvt_centers

UNIT = ((0.0, 1.0), (0.0, 1.0))


@pytest.mark.parametrize(
    ("population", "dimensions", "side"), [(9, 2, 3), (250, 2, 15), (8, 3, 2), (7, 3, 1), (125, 3, 5)]
)
def test_a_grid_has_as_many_cells_as_fit(population: int, dimensions: int, side: int) -> None:
    assert cells_per_side(population, dimensions) == side


def test_a_behavior_belongs_to_the_cell_it_lies_in() -> None:
    part = build_scheme("map-elites")
    population = make_population(part, np.full((1, 9), -np.inf), bounds=((0.0, 3.0), (10.0, 40.0)))
    for x, y, cell in (
        (0.1, 11.0, 0),
        (0.1, 39.0, 2),
        (1.5, 25.0, 4),
        (2.9, 39.9, 8),
        (-7.0, 99.0, 2),
        (np.nan, 15.0, 0),
    ):
        assert int(part.cell(population, np.array([[x, y]], np.float32))[0]) == cell


def test_slots_beyond_the_grid_are_never_used() -> None:
    part = build_scheme("map-elites")
    population = make_population(part, np.full((1, 11), -np.inf), bounds=UNIT)
    random = np.random.default_rng(0)
    found = {int(part.cell(population, random.random((1, 2), np.float32))[0]) for _ in range(60)}
    assert found <= set(range(9))


def test_only_a_better_candidate_takes_a_cell() -> None:
    part = build_scheme("map-elites")
    population = make_population(part, np.full((1, 9), -np.inf), bounds=UNIT)
    for fitness, place, enters in (
        (1.0, 0.1, True),
        (0.5, 0.1, False),
        (0.5, 0.9, True),
        (1.0, 0.1, False),
        (2.0, 0.1, True),
    ):
        candidate = make_candidate([fitness], [[place, place]])
        admission = part.admit(population, candidate, seeds(1))
        assert bool(admission.accepted[0]) == enters
        population = apply_admission(population, candidate, admission)
    np.testing.assert_array_equal(population.fitness[0], [2.0, *[-np.inf] * 7, 0.5])


def test_parents_are_drawn_uniformly_from_the_elites() -> None:
    part, lanes = build_scheme("map-elites"), 3_000
    fitness = np.full((lanes, 9), -np.inf)
    fitness[:, [1, 4, 7]] = [5.0, -3.0, 0.0]
    parents = part.select(make_population(part, fitness, bounds=UNIT), seeds(lanes)).parent.numpy()
    shares = np.bincount(parents, minlength=9) / lanes
    np.testing.assert_allclose(shares[[1, 4, 7]], 1 / 3, atol=5 * np.sqrt(0.25 / lanes))
    assert shares[[0, 2, 3, 5, 6, 8]].sum() == 0


def test_cvt_centers_are_evenly_spread_and_reproducible() -> None:
    where = make_context(20, 2, bounds=UNIT)
    found = cvt_centers(where, np.float32([0, 0]), np.float32([2, 1]))
    np.testing.assert_array_equal(found, cvt_centers(where, np.float32([0, 0]), np.float32([2, 1])))
    away = np.linalg.norm((found[:, None] - found) / [2, 1], axis=-1) + 9 * np.eye(20)
    nearest = away.min(axis=1)  # an even spread of 20 in a unit square is about a fifth apart
    assert nearest.min() > 0.1
    assert (found >= 0).all()
    assert (found <= [2, 1]).all()


def test_many_dimensions_need_cvt() -> None:
    part = build_scheme("map-elites")
    with pytest.raises(TfsmError, match=r"a grid of 16 dimensions with 250 cells .* archive=cvt"):
        part.init(make_context(250, 16, bounds=((0.0, 1.0),) * 16))
    assert build_scheme("map-elites", archive="cvt").init(make_context(30, 16, bounds=((0.0, 1.0),) * 16))[
        "middles"
    ].shape == (
        30,
        16,
    )


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (None, r"needs the bounds of behavior, which domain Somewhere does not define: .* --set bounds=0:1,0:1"),
        ("0:1", "1 pairs, but the behavior of Somewhere has 2 numbers"),
        ("0:1,1", "expected LOW:HIGH separated by commas"),
        ("0:1,b:c", "expected LOW:HIGH separated by commas"),
        ("0:1,2:2", "with LOW < HIGH"),
        ("0:1,0:inf", "expected finite numbers"),
    ],
)
def test_invalid_bounds_are_rejected(bounds: str | None, message: str) -> None:
    with pytest.raises(TfsmError, match=message):
        build_scheme("map-elites", bounds=bounds).init(make_context(9))


def test_the_users_bounds_override_the_domains() -> None:
    state = build_scheme("map-elites", bounds="0:10,0:10").init(make_context(4, bounds=UNIT))
    np.testing.assert_array_equal(state["middles"], [[2.5, 2.5], [2.5, 7.5], [7.5, 2.5], [7.5, 7.5]])
