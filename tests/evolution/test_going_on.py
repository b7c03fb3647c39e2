"""Runs that go on after their first solution, and archives that fill."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.domains import Target
from tests.helpers.engines import evolve, make_engine
from tfsm_plugins.selections.map_elites import MapElites


def test_a_run_that_goes_on_says_when_it_was_first_solved() -> None:
    domain = Target(near=4.0)
    ended, _ = evolve(make_engine(domain, seed=3), evaluations=200)
    going, told = evolve(make_engine(domain, seed=3, stop_when_solved=False), evaluations=200)
    assert all(result.solved for result in ended)
    for first, on in zip(ended, going, strict=True):
        assert on.solved
        assert on.evaluations == first.evaluations < 200
        assert on.best_fitness > first.best_fitness
        # The champion is the best of those that solve.
        assert on.champion_fitness == on.best_fitness
    assert {line["evaluations"] for line in told.metrics} >= {180, 200}


def test_an_archive_fills_and_says_how_far() -> None:
    scheme = MapElites(bounds="-4:4,-4:4,-4:4", beginners=5)
    engine = make_engine(selection=scheme, population=27, intensity=1.0, stop_when_solved=False)
    assert engine.selector.beginners == 5
    _, told = evolve(engine, evaluations=120, log_every=40)
    coverage = [line["coverage"] for line in told.metrics if line["run"] == 0]
    assert len(coverage) == 3
    assert coverage == sorted(coverage)
    fitness, behavior = engine.state.fitness.numpy()[0], engine.state.behavior.numpy()[0]
    there = np.isfinite(fitness)
    assert coverage[-1] == pytest.approx(there.mean())
    assert there.sum() > 5
    # Everybody lies in the cell whose place it has.
    middles = engine.state.memory["middles"].numpy()[0]
    nearest = (((np.clip(behavior[there], -4, 4)[:, None] - middles) ** 2).sum(axis=-1)).argmin(axis=-1)
    np.testing.assert_array_equal(nearest, np.flatnonzero(there))
    # And is as good as its genome says.
    expected = -((engine.state.genomes.numpy()[0][there] - [1.0, 2.0, 3.0]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(fitness[there], expected, rtol=1e-4)
