"""A run of a network with convolutions, which is a plain graph, is the same alone or among others."""

from __future__ import annotations

import pytest

from tests.helpers.engines import Recorder
from tfsm.evolution.lockstep_loop import Loop
from tfsm.plugins import load_plugins
from tfsm.runs.build import build_engine
from tfsm.settings import resolve


def evolved(runs: range) -> tuple[bytes, list[dict[str, object]]]:
    """Evolve runs, and return the champion of the last one and what was told of it."""
    plugins, told = load_plugins(), Recorder()
    overrides = {"runs": len(runs), "population": 6, "evaluations": 24}
    sets = ["maze=short", "log_every=12"]
    resolved = resolve(plugins, domain="topdown-maze", mutation="sm-g-sum", overrides=overrides, sets=sets)
    engine = build_engine(plugins, resolved.settings)
    assert engine.plan.one_by_one
    assert engine.reuses
    loop = Loop(engine, seed=0, runs=runs, evaluations=24, log_every=12, observers=[told])
    champions = {result.run: result.champion.tobytes() for result in loop.run()}
    return champions[runs[-1]], [line for line in told.metrics if line["run"] == runs[-1]]


@pytest.mark.slow
def test_a_run_from_pixels_is_the_same_alone_or_among_others() -> None:
    """In a plain graph numbers at the end of an array may be rounded otherwise than those within it."""
    assert evolved(range(1, 2)) == evolved(range(2))
