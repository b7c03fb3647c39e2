"""Asynchronous runs: equal to the lock step where one child is in flight at a time, and replayable where many are."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.async_runs import drive, make_worker
from tests.helpers.domains import HostTarget, Target
from tests.helpers.engines import Recorder, evolve, make_engine
from tfsm.errors import TfsmError
from tfsm.evolution.async_loop import AsyncLoop
from tfsm.evolution.async_worker import ChildRequest, ChildResult, ChildWorker
from tfsm.evolution.checkpoint import Checkpoint, pack_checkpoint, unpack_checkpoint
from tfsm.evolution.engine import Engine
from tfsm.evolution.event_log import Event, parse_events
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.evolution.variation import Adaptation
from tfsm.kernels.random import fold_in, root_seed, split
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.runs.observers import DeduplicatingObserver
from tfsm_plugins.mutations.crossover import SafeCrossover
from tfsm_plugins.mutations.gradient import SafeMutationSum
from tfsm_plugins.mutations.gradient_free import Control, SafeMutationRescale
from tfsm_plugins.selections.map_elites import MapElites
from tfsm_plugins.selections.novelty import Novelty
from tfsm_plugins.selections.steady_state import HillClimber, Tournament

ASYNC_ONLY = ("staleness", "staleness_most", "failed")


SELF, DIVERGENCE = Adaptation("self", 0.3), Adaptation("divergence", 0.3, 0.01)
NOVELTY, ELITES = Novelty(size=3, archive=5, archived=0.5), MapElites(bounds="-4:4,-4:4,-4:4", beginners=5)


def parity() -> Any:
    return build_part(load_plugins().domains["parity"], {"bits": 2, "units": 3})


SLOW = pytest.mark.slow
CASES: list[Any] = [
    pytest.param({}, id="control", marks=SLOW),
    pytest.param({"mutation": SafeMutationSum()}, id="tournament", marks=SLOW),
    pytest.param({"domain": Target(near=1.0), "intensity": 0.5, "adaptation": SELF}, id="solved, self"),
    pytest.param(
        {"domain": HostTarget(near=0.5), "selection": NOVELTY, "stop_when_solved": False}, id="novelty", marks=SLOW
    ),
    pytest.param(
        {"selection": ELITES, "population": 27, "adaptation": DIVERGENCE}, id="map-elites, divergence", marks=SLOW
    ),
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
    pytest.param({"mutation": SafeMutationSum(), "offspring": 5}, id="offspring", marks=SLOW),
    pytest.param(
        {"domain": HostTarget(near=1.0), "intensity": 0.5, "adaptation": DIVERGENCE, "offspring": 8},
        id="offspring, solved, divergence",
        marks=SLOW,
    ),
    pytest.param({"selection": NOVELTY, "domain": parity(), "offspring": 3}, id="offspring, novelty", marks=SLOW),
]


def comparable_metrics(recorder: Recorder, run: int) -> list[dict[str, Any]]:
    """Return the metrics of a run without those that only an asynchronous run has."""
    return [{k: v for k, v in line.items() if k not in ASYNC_ONLY} for line in recorder.metrics if line["run"] == run]


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES)
def test_one_child_in_flight_equals_lock_step(case: dict[str, Any]) -> None:
    engine = make_engine(**{"domain": Target(near=0.0), "reuse": False, "seed": 5, **case})
    expected, recorder = evolve(engine, seed=5)
    tables = {name: table.numpy() for name, table in engine.state.tables().items()}
    loop, asynchronous, _ = drive(engine, make_worker(engine).make, seed=5)
    for name, table in engine.state.tables().items():
        assert table.numpy().tobytes() == tables[name].tobytes(), name
    for before, after in zip(expected, sorted(loop.results, key=lambda result: result.run), strict=True):
        assert before.summary() == after.summary()
        assert before.champion.tobytes() == after.champion.tobytes()
    for run in (0, 1):
        assert comparable_metrics(asynchronous, run) == comparable_metrics(recorder, run)
        last, expected_last = ([e[1:3] for e in r.champions if e[0] == run][-1] for r in (asynchronous, recorder))
        assert last == expected_last
    assert {line["staleness_most"] for line in asynchronous.metrics} <= {*range(engine.batches.size), None}


@pytest.mark.slow
@pytest.mark.parametrize("runs", [range(3, 4), pytest.param(range(5), marks=SLOW)])
def test_results_do_not_depend_on_the_number_of_runs(runs: range) -> None:
    engine = make_engine(Target(near=0.0), SafeMutationSum(), selection=NOVELTY, runs=5, reuse=False)
    expected, recorder = evolve(engine, runs=5)
    genomes = engine.state.genomes.numpy()
    if len(runs) < 5:
        engine = make_engine(Target(near=0.0), SafeMutationSum(), selection=NOVELTY, runs=len(runs), reuse=False)
    loop, asynchronous, _ = drive(engine, make_worker(engine).make, runs=runs)
    np.testing.assert_array_equal(engine.state.genomes.numpy(), genomes[runs.start : runs.stop])
    for result in loop.results:
        assert result.champion.tobytes() == expected[result.run].champion.tobytes()
        assert comparable_metrics(asynchronous, result.run) == comparable_metrics(recorder, result.run)


SIZES: dict[str, Any] = {"seed": 0, "runs": 2, "evaluations": 20, "log_every": 8}


@pytest.fixture(scope="module")
def engine() -> Engine:
    adaptation = Adaptation("divergence", 0.3, 0.01)
    return make_engine(Target(near=0.0), population=4, adaptation=adaptation, reuse=False, compile="graph")


@pytest.fixture(scope="module")
def worker(engine: Engine) -> ChildWorker:
    return make_worker(engine)


def start(engine: Engine, worker: ChildWorker, **more: Any) -> tuple[AsyncLoop, Recorder, list[Event]]:
    """Return a loop whose initial populations are evaluated."""
    recorder, events = Recorder(), list[Event]()
    loop = AsyncLoop(engine, observers=[recorder], events=events.append, **SIZES | more)
    requests = loop.ask(99)
    assert [(request.run, request.number) for request in requests] == [(i % 2, i // 2) for i in range(8)]
    assert loop.ask(1) == [], "children only once the initial population is evaluated"
    loop.tell(*map(worker.make, requests))
    return loop, recorder, events


@pytest.mark.slow
def test_requests_are_spread_over_runs_and_respect_the_budget(engine: Engine, worker: ChildWorker) -> None:
    loop, _, _ = start(engine, worker)
    requests = loop.ask(3)
    assert [(request.run, request.number) for request in requests] == [(0, 4), (1, 4), (0, 5)]
    loop.tell(worker.make(requests[2]))
    requests = loop.ask(99)
    assert len(requests) == 32 - 3
    assert {request.run for request in requests[:2]} == {0, 1}
    assert loop.ask(1) == []


def test_initial_individuals_and_children_may_arrive_together(engine: Engine, worker: ChildWorker) -> None:
    loop = AsyncLoop(engine, **SIZES)
    *most, last = map(worker.make, loop.ask(99))
    loop.tell(*most)
    (request,) = loop.ask(1)
    child = worker.make(request)
    assert (child.run, child.number, last.run, last.number) == (0, 4, 1, 3)
    loop.tell(child, last)
    assert engine.state.tallies["children"].numpy().tolist() == [1, 0]
    assert engine.state.evaluations.numpy().tolist() == [5, 4]
    np.testing.assert_array_equal(engine.state.genomes.numpy()[1, 3], last.genomes[0])
    assert child.genomes[0].tolist() in engine.state.genomes.numpy()[0].tolist()


def test_the_first_interval_has_children_as_in_lock_step(engine: Engine, worker: ChildWorker) -> None:
    loop, recorder, _ = start(engine, worker, log_every=2)
    assert recorder.metrics == []
    loop.tell(*map(worker.make, loop.ask(3)))
    assert [(line["run"], line["evaluations"]) for line in recorder.metrics] == [(0, 6)]


def test_a_request_holds_plain_arrays(engine: Engine, worker: ChildWorker) -> None:
    loop, _, _ = start(engine, worker)
    (request,) = loop.ask(1)
    content = pickle.dumps((request, worker.make(request)))
    assert b"tensorflow" not in content
    assert b"keras" not in content
    parents = engine.state.genomes.numpy()[0].tolist()
    assert request.parents[0][0].tolist() in parents
    genome, experience = request.parents
    np.testing.assert_array_equal(experience, genome)


def test_a_duplicate_result_is_ignored(engine: Engine, worker: ChildWorker) -> None:
    loop, _, events = start(engine, worker)
    (request,) = loop.ask(1)
    result = worker.make(request)
    loop.tell(result, result)
    loop.tell(result)
    loop.tell_failure(request, "too late to matter")
    assert [str(event) for event in events[16:]] == ["> 0 4", "< 0 4"]
    assert engine.state.evaluations.numpy().tolist() == [5, 4]


@pytest.mark.slow
def test_children_of_a_run_that_has_ended_are_dropped() -> None:
    engine = make_engine(Target(near=0.0), population=4, reuse=False)
    worker = make_worker(engine)
    loop, recorder, events = start(engine, worker)
    first, *others = (worker.make(request) for request in loop.ask(4) if request.run == 0)
    solved = ChildResult(0, first.number, first.genomes, (first.evaluation[0], np.array([True]), *first.evaluation[2:]))
    loop.tell(solved, *others)
    assert recorder.events[-1] == "end of 0 at 5"
    assert recorder.results[-1].solved
    before = engine.state.genomes.numpy()
    loop.tell(*others)
    np.testing.assert_array_equal(engine.state.genomes.numpy(), before)
    assert [str(event) for event in events[-1:]] == ["< 0 4"]
    assert {request.run for request in loop.ask(9)} == {1}
    assert not loop.ended


def test_an_interruption_ends_everything_and_can_be_replayed(engine: Engine, worker: ChildWorker) -> None:
    loop, recorder, events = start(engine, worker)
    requests = loop.ask(5)
    loop.tell(worker.make(requests[4]), worker.make(requests[1]))
    saved = loop.checkpoint()
    assert {run: state.in_flight for run, state in saved.async_runs.items()} == {0: (4, 5), 1: (5,)}
    loop.finish_early()
    assert loop.ended
    assert loop.interrupted
    assert [result.evaluations for result in loop.results] == [5, 5]
    assert [text for text in recorder.events if text.startswith("end")] == ["end of 0 at 5", "end of 1 at 5"]
    loop.tell(worker.make(requests[0]))
    assert engine.state.evaluations.numpy().tolist() == [5, 5]
    champions = [result.champion.tobytes() for result in loop.results]
    again, repeated = Recorder(), list[Event]()
    replay = AsyncLoop(engine, observers=[again], events=repeated.append, replay=events, **SIZES)
    while not replay.replayed:
        replay.tell(*map(worker.make, replay.ask(2)))
    replay.finish_early()
    assert repeated == events
    assert again.metrics == recorder.metrics
    assert [result.champion.tobytes() for result in replay.results] == champions


def test_after_a_replay_missing_results_are_dispatched_again(engine: Engine, worker: ChildWorker) -> None:
    loop, _, events = start(engine, worker)
    requests = loop.ask(5)
    loop.tell(worker.make(requests[3]))
    repeated: list[Event] = []
    replay = AsyncLoop(engine, events=repeated.append, replay=events, **SIZES)
    while not replay.replayed:
        replay.tell(*map(worker.make, replay.ask(2)))
    assert repeated == events
    left = [(request.run, request.number) for request in replay.ask(4)]
    assert left == [(0, 4), (1, 4), (0, 5), (1, 6)]


def test_an_interruption_before_the_first_result_is_survived(engine: Engine) -> None:
    loop = AsyncLoop(engine, **SIZES)
    loop.ask(3)
    loop.finish_early()
    assert [(result.evaluations, result.best_fitness) for result in loop.results] == [(0, float("-inf"))] * 2


def test_a_failure_stops_everything_by_default(engine: Engine, worker: ChildWorker) -> None:
    loop, _, _ = start(engine, worker)
    (request,) = loop.ask(1)
    with pytest.raises(TfsmError, match="run 0: individual 4 could not be made: its worker died"):
        loop.tell_failure(request, "its worker died")


def test_a_failed_individual_counts_as_broken(engine: Engine, worker: ChildWorker) -> None:
    recorder, events = Recorder(), list[Event]()
    loop = AsyncLoop(engine, observers=[recorder], events=events.append, failures="broken", **SIZES)
    number = 0
    while not loop.ended:
        for request in reversed(loop.ask(3)):
            number += 1
            if number % 3:
                loop.tell(worker.make(request))
            else:
                loop.tell_failure(request, "out of luck")
    failed = [event for event in events if event.kind == "!"]
    assert len(failed) > 5
    assert {event.number < 4 for event in failed} == {True, False}
    assert sum(line["failed"] for line in recorder.metrics) == len(failed)
    assert sum(line["broken"] > 0 for line in recorder.metrics) > 1
    fitness, genomes = engine.state.fitness.numpy(), engine.state.genomes.numpy()
    assert not np.isfinite(fitness[(genomes == 0).all(axis=-1)]).any()
    assert np.isfinite(fitness).any(axis=1).all()
    kept = {name: table.numpy().tobytes() for name, table in engine.state.tables().items()}
    results: list[ChildRequest] = []

    def make(request: ChildRequest) -> ChildResult:
        results.append(request)
        return worker.make(request)

    _, again, _ = drive(engine, make, at_once=4, replay=events, **SIZES)
    assert again.metrics == recorder.metrics
    assert not {(request.run, request.number) for request in results} & {(event.run, event.number) for event in failed}
    assert {name: table.numpy().tobytes() for name, table in engine.state.tables().items()} == kept


def test_a_failure_does_not_adapt_intensities(engine: Engine, worker: ChildWorker) -> None:
    loop, _, _ = start(engine, worker, failures="broken")
    before = engine.state.run_intensity_scale.numpy().tolist()
    requests = loop.ask(2)
    loop.tell_failure(requests[0], "out of luck")
    assert engine.state.run_intensity_scale.numpy().tolist() == before
    loop.tell(worker.make(requests[1]))
    assert engine.state.run_intensity_scale.numpy()[1] != before[1]


def test_a_replay_cannot_fail_where_the_log_did_not(engine: Engine, worker: ChildWorker) -> None:
    _, _, events = start(engine, worker)
    replay = AsyncLoop(engine, replay=events, failures="broken", **SIZES)
    with pytest.raises(TfsmError, match="it was made when the log was written"):
        replay.tell_failure(replay.ask(1)[0], "out of luck")


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("> 0 1", r"event 1 of the log, '> 0 1' does not fit these runs: the next number of this run is 0"),
        ("> 5 0", "there is no such run"),
        ("< 0 0", "no such individual is in flight"),
        ("> 0 0,> 0 1,> 0 2,> 0 3,> 0 4", "only 0 of this run are evaluated"),
    ],
)
def test_a_log_of_other_runs_is_refused(engine: Engine, log: str, reason: str) -> None:
    with pytest.raises(TfsmError, match=reason):
        AsyncLoop(engine, replay=parse_events(log.replace(",", "\n") + "\n"), **SIZES).ask(9)


def test_a_run_without_any_finite_fitness_is_an_error() -> None:
    engine = make_engine(Target(broken_below=float("inf")), reuse=False)
    with pytest.raises(TfsmError, match="run 3: none of the 6 initial networks has a finite fitness"):
        drive(engine, make_worker(engine).make, runs=range(3, 5))


def test_impossible_arguments_are_refused(engine: Engine) -> None:
    with pytest.raises(TfsmError, match="there is room for 2 of the 3 runs"):
        AsyncLoop(engine, **SIZES | {"runs": 3})
    with pytest.raises(TfsmError, match="the checkpoint is of runs 2 to 3, expected runs 0 to 1"):
        AsyncLoop(engine, saved=[Checkpoint(2, 2, 0)], **SIZES)
    with pytest.raises(TfsmError, match="not from a checkpoint"):
        AsyncLoop(engine, saved=[Checkpoint(0, 2, 0)], replay=[Event(">", 0, 0)], **SIZES)
    with pytest.raises(TfsmError, match=r"set engine\.reuse=false"):
        AsyncLoop(make_engine(mutation=SafeMutationSum()), **SIZES)


class SingleCheckpoint:
    """Saves a checkpoint after ten evaluations."""

    content = b""

    def next_check(self, evaluations: int) -> int:
        return 10 if evaluations < 10 else 99

    def is_due(self, evaluations: int) -> bool:
        return evaluations == 10

    def save(self, saved: Checkpoint, *, last: bool = False) -> None:
        self.content = self.content or pack_checkpoint(saved, {})


def test_a_lockstep_checkpoint_continues_child_by_child(engine: Engine, worker: ChildWorker) -> None:
    checkpoints = SingleCheckpoint()
    expected = LockstepLoop(engine, checkpoints=checkpoints, **SIZES).run()
    saved, _ = unpack_checkpoint(checkpoints.content)
    assert saved.evaluations_used == 10
    loop = AsyncLoop(engine, saved=[saved], **SIZES)
    drive(engine, worker.make, loop=loop)
    for before, after in zip(expected, sorted(loop.results, key=lambda result: result.run), strict=True):
        assert before.summary() == after.summary()
        assert before.champion.tobytes() == after.champion.tobytes()


def test_an_asynchronous_checkpoint_does_not_continue_in_lock_step(engine: Engine, worker: ChildWorker) -> None:
    loop, _, _ = start(engine, worker)
    with pytest.raises(TfsmError, match="cannot be resumed in lock step"):
        LockstepLoop(engine, saved=[loop.checkpoint()], **SIZES)


def test_a_run_with_a_used_up_budget_ends_when_resumed(engine: Engine, worker: ChildWorker) -> None:
    loop, _, _ = start(engine, worker)
    loop.tell(*map(worker.make, loop.ask(4)))
    saved, _ = unpack_checkpoint(pack_checkpoint(loop.checkpoint(), {}))
    loop = AsyncLoop(engine, saved=[saved], **SIZES | {"evaluations": 6})
    assert loop.ended
    assert [result.evaluations for result in loop.results] == [6, 6]


def test_batches_in_flight_can_be_replayed_saved_and_extended() -> None:
    engine = make_engine(Target(near=0.0), population=4, reuse=False, offspring=5)
    worker, sizes = make_worker(engine), SIZES | {"evaluations": 31}
    requests: list[ChildRequest] = []

    def make(request: ChildRequest) -> ChildResult:
        requests.append(request)
        return worker.make(request)

    pick = random.Random(3).randrange
    _, recorder, events = drive(engine, make, at_once=3, pick=pick, **sizes)
    assert {request.count for request in requests} == {4, 5, 2}, "initial individuals, batches, and the cut one"
    tables = {name: table.numpy().tobytes() for name, table in engine.state.tables().items()}
    _, again, repeated = drive(engine, make, at_once=2, replay=events, **sizes)
    assert repeated == events
    assert again.metrics == recorder.metrics
    assert {name: table.numpy().tobytes() for name, table in engine.state.tables().items()} == tables
    # One batch in flight at a time: a cut batch is completed by a larger budget, and the log of that can be replayed.
    uninterrupted, expected, _ = drive(engine, make, **sizes)
    shorter, _, events = drive(engine, make, **sizes | {"evaluations": 17})
    saved, _ = unpack_checkpoint(pack_checkpoint(shorter.checkpoint(), {}))
    after = Recorder()
    longer = AsyncLoop(engine, saved=[saved], observers=[after], events=events.append, **sizes)
    drive(engine, make, loop=longer)
    assert summarize(longer) == summarize(uninterrupted)
    _, replayed, _ = drive(engine, make, replay=events, **sizes)
    assert replayed.metrics == expected.metrics


@pytest.mark.sample(2)
@pytest.mark.parametrize("shorter", [3, 4, 13, 16])
def test_a_run_with_a_used_up_budget_can_be_extended_as_if_it_had_not_ended(
    engine: Engine, worker: ChildWorker, shorter: int
) -> None:
    uninterrupted, expected, _ = drive(engine, worker.make, **SIZES)
    loop, asynchronous, _ = drive(engine, worker.make, **SIZES | {"evaluations": shorter})
    assert [result.evaluations for result in loop.results] == [shorter] * 2
    saved, _ = unpack_checkpoint(pack_checkpoint(loop.checkpoint(), {}))
    assert saved.active_runs == [0, 1]
    recorder = Recorder()
    longer = AsyncLoop(engine, saved=[saved], observers=[recorder], **SIZES)
    drive(engine, worker.make, loop=longer)
    assert summarize(longer) == summarize(uninterrupted)
    lines = [line for line in asynchronous.metrics if line["evaluations"] % 8 == 0] + recorder.metrics
    assert {(line["run"], line["evaluations"]): line for line in lines} == {
        (line["run"], line["evaluations"]): line for line in expected.metrics
    }


class FailsAtRunEnd(Recorder):
    """Fails to record the end of a run."""

    def on_run_end(self, result: Any) -> None:
        raise TfsmError("no room")


@pytest.mark.slow
def test_a_run_whose_end_was_not_reported_ends_when_resumed() -> None:
    engine = make_engine(Target(near=0.0), population=4, reuse=False)
    worker = make_worker(engine)
    loop, _, _ = start(engine, worker)
    (request,) = loop.ask(1)
    child = worker.make(request)
    loop._reporter._observers = [FailsAtRunEnd()]
    with pytest.raises(TfsmError, match="no room"):
        loop.tell(
            ChildResult(0, child.number, child.genomes, (child.evaluation[0], np.array([True]), *child.evaluation[2:]))
        )
    saved, _ = unpack_checkpoint(pack_checkpoint(loop.checkpoint(), {}))
    resumed = AsyncLoop(engine, saved=[saved], **SIZES)
    assert [(result.run, result.solved, result.evaluations) for result in resumed.results] == [(0, True, 5)]


def summarize(loop: AsyncLoop) -> list[Any]:
    ended = sorted(loop.results, key=lambda result: result.run)
    return [(result.summary(), result.champion.tobytes()) for result in ended]


def test_runs_without_a_checkpoint_start_among_others_that_continue(engine: Engine, worker: ChildWorker) -> None:
    uninterrupted, _, _ = drive(engine, worker.make, **SIZES)
    loop, _, _ = start(engine, worker)
    loop.tell(*map(worker.make, loop.ask(2)))
    saved, _ = unpack_checkpoint(pack_checkpoint(loop.checkpoint(), {}))
    for part in (range(1), range(1, 2)):
        resumed = AsyncLoop(engine, saved=[saved.select(part)], **SIZES)
        drive(engine, worker.make, loop=resumed)
        assert summarize(resumed) == summarize(uninterrupted)


def test_nothing_is_traced_twice(engine: Engine, worker: ChildWorker) -> None:
    for _ in range(2):
        drive(engine, worker.make, at_once=3, pick=lambda count: count - 1, **SIZES)
    assert engine.ask.traces == 1
    assert engine.tell.traces == 1
    assert engine.tell_initial.traces == 1


MANY_SIZES: dict[str, Any] = {"runs": 2, "evaluations": 30, "log_every": 7}
FEW_EXAMPLES = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass
class Setup:
    """An engine and a worker, shared by many tests."""

    engine: Engine
    worker: ChildWorker

    def drive(self, at_once: int, order: int | Callable[[int], int], **more: Any) -> Outcome:
        pick = random.Random(order).randrange if isinstance(order, int) else order
        loop, recorder, events = drive(self.engine, self.worker.make, at_once=at_once, pick=pick, **MANY_SIZES | more)
        return Outcome.of(loop, recorder, events, self.engine)


@dataclass
class Outcome:
    """Everything that a user can observe."""

    metrics: list[dict[str, Any]]
    reports: list[str]
    champions: dict[int, bytes]
    tables: dict[str, bytes]
    events: list[Event] = field(repr=False)

    @classmethod
    def of(cls, loop: AsyncLoop, recorder: Recorder, events: list[Event], engine: Engine) -> Outcome:
        champions = {result.run: result.champion.tobytes() for result in loop.results}
        tables = {name: table.numpy().tobytes() for name, table in engine.state.tables().items()}
        return cls(recorder.metrics, recorder.events, champions, tables, events)


@pytest.fixture(scope="module")
def setup() -> Setup:
    """Return runs of which one is solved before its end, with a stateful scheme and an adaptive intensity."""
    engine = make_engine(
        Target(near=1.5),
        selection=Novelty(size=3, archive=5, archived=0.5),
        adaptation=Adaptation("divergence", 0.3, 0.01),
        intensity=0.5,
        reuse=False,
        seed=1,
        compile="graph",
    )
    return Setup(engine, make_worker(engine))


@pytest.fixture(scope="module")
def unsolvable() -> Setup:
    engine = make_engine(Target(near=0.0), population=5, reuse=False, compile="graph")
    return Setup(engine, make_worker(engine))


def plain_loop(events: list[Event], run: int, population: int) -> tuple[np.ndarray, np.ndarray]:
    """Run the algorithm event by event: choose a parent when a child is dispatched, and its slot when it arrives."""
    domain, selection, root = Target(near=0.0), Tournament(size=3), root_seed(0)
    network = Network(domain.network())
    genomes, fitness = np.zeros([population, 3], np.float32), np.full(population, -np.inf, np.float32)
    parents: dict[int, np.ndarray] = {}
    for kind, event_run, number in events:
        if event_run != run:
            continue
        if number < population:
            draw_seed, _ = split(fold_in(root, run, number), 2)
            child, setup = Initializer("normal", 1.0).genomes(network, draw_seed[None]), number
        else:
            select_seed, mutate_seed, _ = split(fold_in(root, run, number), 3)
            choice = selection.choose(tf.constant(fitness[None]), select_seed[None])
            if kind == ">":
                parents[number] = genomes[int(choice.parent[0])].copy()
                continue
            parent, setup = tf.constant(parents[number][None]), int(choice.replaced[0])
            child = Control()(network, parent, (), tf.constant(0.1), mutate_seed[None])
        if kind == "<":
            genomes[setup] = child[0].numpy()
            fitness[setup] = float(domain.evaluate(network, child, root).fitness[0])
    return genomes, fitness


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [3, pytest.param(9, marks=SLOW)])
def test_the_loop_agrees_with_a_plain_loop(unsolvable: Setup, at_once: int) -> None:
    found = unsolvable.drive(at_once, 1)
    assert sum(event.kind == "<" for event in found.events) == 60
    for run in (0, 1):
        genomes, fitness = plain_loop(found.events, run, 5)
        np.testing.assert_allclose(unsolvable.engine.state.genomes.numpy()[run], genomes, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(unsolvable.engine.state.fitness.numpy()[run], fitness, rtol=1e-4, atol=1e-5)
    other = unsolvable.drive(at_once, 2)
    assert other.tables != found.tables, "the order of arrival must matter for this test"


def test_staleness_counts_the_results_that_arrived_in_between(unsolvable: Setup) -> None:
    found = unsolvable.drive(6, 3)
    for run in (0, 1):
        run_events = [event for event in found.events if event.run == run]
        stale: list[int] = []
        evaluated = [number for kind, _, number in run_events if kind == "<"]
        lines = {line["evaluations"]: line for line in found.metrics if line["run"] == run}
        assert sorted(lines) == [7, 14, 21, 28, 30]
        for count, number in enumerate(evaluated, 1):
            if number >= 5:
                out, back = run_events.index(Event(">", run, number)), run_events.index(Event("<", run, number))
                stale.append(sum(event.kind == "<" for event in run_events[out:back]))
            if count in lines:
                assert lines[count]["staleness"] == pytest.approx(np.mean(stale))
                assert lines[count]["staleness_most"] == max(stale)
                stale = []
    assert max(line["staleness_most"] for line in found.metrics) > 1


@pytest.mark.slow
def test_several_results_at_once_are_equivalent_to_single_ones(setup: Setup) -> None:
    expected = setup.drive(6, 4)
    again, recorder, events = Rounds(expected.events), Recorder(), list[Event]()
    loop = AsyncLoop(setup.engine, seed=0, observers=[recorder], events=events.append, **MANY_SIZES)
    for dispatched, evaluated in again.rounds():
        requests = loop.ask(len(dispatched))
        assert [(request.run, request.number) for request in requests] == dispatched
        again.results |= {(request.run, request.number): setup.worker.make(request) for request in requests}
        loop.tell(*(again.results[key] for key in evaluated))
    found = Outcome.of(loop, recorder, events, setup.engine)
    assert found == expected


class Rounds:
    """Splits a log into rounds: requests dispatched together, then results that arrive together."""

    def __init__(self, events: list[Event]) -> None:
        self.events, self.results = events, dict[tuple[int, int], ChildResult]()

    def rounds(self) -> Iterator[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
        dispatched: list[tuple[int, int]] = []
        evaluated: list[tuple[int, int]] = []
        for kind, run, number in self.events:
            if kind == ">" and evaluated:
                yield dispatched, evaluated
                dispatched, evaluated = [], []
            (dispatched if kind == ">" else evaluated).append((run, number))
        yield dispatched, evaluated


@pytest.mark.slow
@FEW_EXAMPLES
@given(st.integers(1, 9), st.integers(0, 999), st.integers(1, 12), st.integers(0, 999))
def test_any_order_can_be_replayed_by_any_number_of_workers(
    setup: Setup, at_once: int, order: int, other: int, other_order: int
) -> None:
    first = setup.drive(at_once, order)
    check_invariants(first)
    again = setup.drive(other, other_order, replay=first.events)
    assert again == first


def check_invariants(found: Outcome) -> None:
    ended = {int(text.split()[2]): int(text.split()[-1]) for text in found.reports if text.startswith("end of")}
    for run in (0, 1):
        evaluated = [event.number for event in found.events if event.run == run and event.kind == "<"]
        assert len(set(evaluated)) == len(evaluated) <= 30, "each at most once, and never more than the budget"
        assert len(evaluated) == ended[run], "nothing after the end"
        assert set(evaluated[:6]) == set(range(6)) or len(evaluated) < 6, "initial individuals first"


@pytest.mark.slow
@FEW_EXAMPLES
@given(st.integers(1, 6), st.integers(0, 999), st.integers(0, 70), st.integers(1, 6))
def test_a_checkpoint_at_any_moment_gives_a_log_that_can_be_replayed(
    setup: Setup, at_once: int, order: int, moment: int, later: int
) -> None:
    recorder, events, rng = Recorder(), list[Event](), random.Random(order)
    observer = DeduplicatingObserver(recorder)  # a run with a used up budget reports its end again when resumed
    loop = AsyncLoop(setup.engine, seed=0, observers=[observer], events=events.append, **MANY_SIZES)
    in_flight: list[ChildRequest] = []
    for _ in range(moment):
        if loop.ended:
            break
        in_flight += loop.ask(at_once - len(in_flight))
        loop.tell(setup.worker.make(in_flight.pop(rng.randrange(len(in_flight)))))
        if rng.random() < 0.3:
            in_flight += loop.ask(at_once - len(in_flight))
    content = pack_checkpoint(loop.checkpoint(), {})
    setup.engine.reset(0)  # only the file is left
    saved, _ = unpack_checkpoint(content)
    assert saved.event_count == len(events)
    resumed = AsyncLoop(setup.engine, seed=0, observers=[observer], events=events.append, saved=[saved], **MANY_SIZES)
    drive(setup.engine, setup.worker.make, at_once=later, pick=rng.randrange, loop=resumed)
    assert resumed.event_count == len(events)
    uninterrupted = Outcome.of(resumed, recorder, events, setup.engine)
    check_invariants(uninterrupted)
    again = setup.drive(at_once, order + 1, replay=events)
    for part in ("metrics", "reports", "champions", "events"):
        assert getattr(again, part) == getattr(uninterrupted, part), part
    if not loop.results:  # the lane of an ended run has no meaning
        assert again.tables == uninterrupted.tables
