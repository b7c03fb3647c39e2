"""One child on its way at a time is the lock step; more are what a plain loop of the same rules gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.domains import HostTarget, Target
from tests.helpers.engines import Recorder, evolve, make_engine
from tests.helpers.steady import drive, nursery_of
from tfsm.evolution.variation import Adaptation
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm_plugins.mutations.crossover import SafeCrossover
from tfsm_plugins.mutations.gradient import SafeMutationSum
from tfsm_plugins.mutations.rescale import SafeMutationRescale
from tfsm_plugins.selections.map_elites import MapElites
from tfsm_plugins.selections.novelty import Novelty
from tfsm_plugins.selections.steady_state import HillClimber

OWN = ("staleness", "staleness_most", "failed")


SELF, DIVERGENCE = Adaptation("self", 0.3), Adaptation("divergence", 0.3, 0.01)
NOVELTY, ELITES = Novelty(size=3, archive=5, archived=0.5), MapElites(bounds="-4:4,-4:4,-4:4", beginners=5)


def parity() -> Any:
    return build_part(load_plugins().domains["parity"], {"bits": 2, "units": 3})


SLOW = pytest.mark.slow
CASES: list[Any] = [
    pytest.param({"mutation": SafeMutationSum()}, id="tournament"),
    pytest.param({"domain": Target(near=1.0), "intensity": 0.5, "adaptation": SELF}, id="solved, self"),
    pytest.param(
        {"domain": HostTarget(near=0.5), "selection": NOVELTY, "stop_when_solved": False}, id="novelty", marks=SLOW
    ),
    pytest.param({"selection": ELITES, "population": 27, "adaptation": DIVERGENCE}, id="map-elites, divergence"),
    pytest.param({"mutation": SafeMutationSum(), "compile": "graph", "one_by_one": True}, id="one by one", marks=SLOW),
    pytest.param({"domain": parity(), "mutation": SafeCrossover(), "adaptation": DIVERGENCE}, id="parity", marks=SLOW),
    pytest.param({"mutation": SafeCrossover()}, id="recombines", marks=SLOW),
    pytest.param({"selection": HillClimber(), "population": 1}, id="hill-climber", marks=SLOW),
    pytest.param({"domain": Target(near=0.0, broken_below=0.0), "intensity": 0.5}, id="broken", marks=SLOW),
    pytest.param({"domain": HostTarget()}, id="python", marks=SLOW),
    pytest.param({"mutation": SafeMutationRescale()}, id="rescale", marks=SLOW),
    pytest.param({"mutation": SafeMutationSum(), "compile": "graph"}, id="graph", marks=SLOW),
    pytest.param({"domain": parity(), "selection": NOVELTY, "adaptation": SELF}, id="parity, novelty", marks=SLOW),
    pytest.param({"domain": parity()}, id="parity, control", marks=SLOW),
]
"""The quick ones have several parts each, to be seen one by one where that is slow."""


def shown(recorder: Recorder, run: int) -> list[dict[str, Any]]:
    """What is told of a run, but for what only an asynchronous one tells."""
    return [{k: v for k, v in line.items() if k not in OWN} for line in recorder.metrics if line["run"] == run]


@pytest.mark.parametrize("case", CASES)
def test_one_at_a_time_is_the_lock_step(case: dict[str, Any]) -> None:
    engine = make_engine(**{"domain": Target(near=0.0), "reuse": False, "seed": 5, **case})
    expected, heard = evolve(engine, seed=5)
    tables = {name: table.numpy() for name, table in engine.state.tables().items()}
    steady, told, _ = drive(engine, nursery_of(engine).make, seed=5)
    for name, table in engine.state.tables().items():
        assert table.numpy().tobytes() == tables[name].tobytes(), name
    for before, after in zip(expected, sorted(steady.results, key=lambda result: result.run), strict=True):
        assert before.summary() == after.summary()
        assert before.champion.tobytes() == after.champion.tobytes()
    for run in (0, 1):
        assert shown(told, run) == shown(heard, run)
        assert [e for e in told.champions if e[0] == run][-1][1:3] == [e for e in heard.champions if e[0] == run][-1][
            1:3
        ]
    assert {line["staleness_most"] for line in told.metrics} <= {0, None}


@pytest.mark.parametrize("runs", [range(3, 4), pytest.param(range(5), marks=SLOW)])
def test_the_number_of_runs_makes_no_difference(runs: range) -> None:
    engine = make_engine(Target(near=0.0), SafeMutationSum(), selection=NOVELTY, runs=5, reuse=False)
    expected, heard = evolve(engine, runs=5)
    genomes = engine.state.genomes.numpy()
    if len(runs) < 5:
        engine = make_engine(Target(near=0.0), SafeMutationSum(), selection=NOVELTY, runs=len(runs), reuse=False)
    steady, told, _ = drive(engine, nursery_of(engine).make, runs=runs)
    np.testing.assert_array_equal(engine.state.genomes.numpy(), genomes[runs.start : runs.stop])
    for result in steady.results:
        assert result.champion.tobytes() == expected[result.run].champion.tobytes()
        assert shown(told, result.run) == shown(heard, result.run)
