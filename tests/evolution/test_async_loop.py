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

from tests.helpers.domains import HostTarget, Target
from tests.helpers.engines import Recorder, evolve, make_engine
from tests.helpers.steady import drive, nursery_of
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
from tfsm_plugins.mutations.gaussian import Control
from tfsm_plugins.mutations.gradient import SafeMutationSum
from tfsm_plugins.mutations.rescale import SafeMutationRescale
from tfsm_plugins.selections.map_elites import MapElites
from tfsm_plugins.selections.novelty import Novelty
from tfsm_plugins.selections.steady_state import HillClimber, Tournament

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


SIZES: dict[str, Any] = {"seed": 0, "runs": 2, "evaluations": 20, "log_every": 8}


@pytest.fixture(scope="module")
def engine() -> Engine:
    adaptation = Adaptation("divergence", 0.3, 0.01)
    return make_engine(Target(near=0.0), population=4, adaptation=adaptation, reuse=False)


@pytest.fixture(scope="module")
def nursery(engine: Engine) -> ChildWorker:
    return nursery_of(engine)


def begun(engine: Engine, nursery: ChildWorker, **more: Any) -> tuple[AsyncLoop, Recorder, list[Event]]:
    """Return a driver whose first individuals are all settled."""
    recorder, events = Recorder(), list[Event]()
    steady = AsyncLoop(engine, observers=[recorder], events=events.append, **SIZES | more)
    orders = steady.ask(99)
    assert [(order.run, order.number) for order in orders] == [(i % 2, i // 2) for i in range(8)]
    assert steady.ask(1) == [], "children only once all first individuals are settled"
    steady.tell(*map(nursery.make, orders))
    return steady, recorder, events


def test_orders_are_spread_and_never_beyond_the_budget(engine: Engine, nursery: ChildWorker) -> None:
    steady, _, _ = begun(engine, nursery)
    orders = steady.ask(3)
    assert [(order.run, order.number) for order in orders] == [(0, 4), (1, 4), (0, 5)]
    steady.tell(nursery.make(orders[2]))
    orders = steady.ask(99)
    assert len(orders) == 32 - 3
    assert {order.run for order in orders[:2]} == {0, 1}
    assert steady.ask(1) == []


def test_first_individuals_and_children_may_arrive_together(engine: Engine, nursery: ChildWorker) -> None:
    steady = AsyncLoop(engine, **SIZES)
    *most, last = map(nursery.make, steady.ask(99))
    steady.tell(*most)
    (order,) = steady.ask(1)
    child = nursery.make(order)
    assert (child.run, child.number, last.run, last.number) == (0, 4, 1, 3)
    steady.tell(child, last)
    assert engine.state.tallies["children"].numpy().tolist() == [1, 0]
    assert engine.state.evaluations.numpy().tolist() == [5, 4]
    np.testing.assert_array_equal(engine.state.genomes.numpy()[1, 3], last.genome)
    assert child.genome.tolist() in engine.state.genomes.numpy()[0].tolist()


def test_the_first_interval_has_children_as_in_lock_step(engine: Engine, nursery: ChildWorker) -> None:
    steady, heard, _ = begun(engine, nursery, log_every=2)
    assert heard.metrics == []
    steady.tell(*map(nursery.make, steady.ask(3)))
    assert [(line["run"], line["evaluations"]) for line in heard.metrics] == [(0, 6)]


def test_an_order_is_plain_arrays(engine: Engine, nursery: ChildWorker) -> None:
    steady, _, _ = begun(engine, nursery)
    (order,) = steady.ask(1)
    content = pickle.dumps((order, nursery.make(order)))
    assert b"tensorflow" not in content
    assert b"keras" not in content
    parents = engine.state.genomes.numpy()[0].tolist()
    assert order.parents[0].tolist() in parents
    genome, experience = order.parents
    np.testing.assert_array_equal(experience, genome)


def test_whoever_was_settled_is_settled_once(engine: Engine, nursery: ChildWorker) -> None:
    steady, _, events = begun(engine, nursery)
    (order,) = steady.ask(1)
    bred = nursery.make(order)
    steady.tell(bred, bred)
    steady.tell(bred)
    steady.tell_failure(order, "too late to matter")
    assert [str(event) for event in events[16:]] == ["> 0 4", "< 0 4"]
    assert engine.state.evaluations.numpy().tolist() == [5, 4]


def test_children_of_a_run_that_has_ended_are_dropped() -> None:
    engine = make_engine(Target(near=0.0), population=4, reuse=False)
    nursery = nursery_of(engine)
    steady, heard, events = begun(engine, nursery)
    first, *others = (nursery.make(order) for order in steady.ask(4) if order.run == 0)
    solved = ChildResult(0, first.number, first.genome, (first.evaluation[0], np.bool_(True), *first.evaluation[2:]))
    steady.tell(solved, *others)
    assert heard.events[-1] == "end of 0 at 5"
    assert heard.results[-1].solved
    before = engine.state.genomes.numpy()
    steady.tell(*others)
    np.testing.assert_array_equal(engine.state.genomes.numpy(), before)
    assert [str(event) for event in events[-1:]] == ["< 0 4"]
    assert {order.run for order in steady.ask(9)} == {1}
    assert not steady.ended


def test_an_interruption_ends_everything_and_can_be_replayed(engine: Engine, nursery: ChildWorker) -> None:
    steady, heard, events = begun(engine, nursery)
    orders = steady.ask(5)
    steady.tell(nursery.make(orders[4]), nursery.make(orders[1]))
    saved = steady.checkpoint()
    assert {run: own.in_flight for run, own in saved.async_runs.items()} == {0: (4, 5), 1: (5,)}
    steady.finish_early()
    assert steady.ended
    assert steady.interrupted
    assert [result.evaluations for result in steady.results] == [5, 5]
    assert [text for text in heard.events if text.startswith("end")] == ["end of 0 at 5", "end of 1 at 5"]
    steady.tell(nursery.make(orders[0]))
    assert engine.state.evaluations.numpy().tolist() == [5, 5]
    champions = [result.champion.tobytes() for result in steady.results]
    again, told = Recorder(), list[Event]()
    replay = AsyncLoop(engine, observers=[again], events=told.append, replay=events, **SIZES)
    while not replay.replayed:
        replay.tell(*map(nursery.make, replay.ask(2)))
    replay.finish_early()
    assert told == events
    assert again.metrics == heard.metrics
    assert [result.champion.tobytes() for result in replay.results] == champions


def test_after_a_replay_whoever_never_came_back_is_handed_out_again(engine: Engine, nursery: ChildWorker) -> None:
    steady, _, events = begun(engine, nursery)
    orders = steady.ask(5)
    steady.tell(nursery.make(orders[3]))
    told: list[Event] = []
    replay = AsyncLoop(engine, events=told.append, replay=events, **SIZES)
    while not replay.replayed:
        replay.tell(*map(nursery.make, replay.ask(2)))
    assert told == events
    left = [(order.run, order.number) for order in replay.ask(4)]
    assert left == [(0, 4), (1, 4), (0, 5), (1, 6)]


def test_an_interruption_before_anybody_arrives_is_survived(engine: Engine) -> None:
    steady = AsyncLoop(engine, **SIZES)
    steady.ask(3)
    steady.finish_early()
    assert [(result.evaluations, result.best_fitness) for result in steady.results] == [(0, float("-inf"))] * 2


def test_a_failure_stops_everything_unless_told_otherwise(engine: Engine, nursery: ChildWorker) -> None:
    steady, _, _ = begun(engine, nursery)
    (order,) = steady.ask(1)
    with pytest.raises(TfsmError, match="run 0: individual 4 could not be made: its worker died"):
        steady.tell_failure(order, "its worker died")


def test_whoever_failed_counts_as_broken(engine: Engine, nursery: ChildWorker) -> None:
    heard, events = Recorder(), list[Event]()
    steady = AsyncLoop(engine, observers=[heard], events=events.append, failures="broken", **SIZES)
    number = 0
    while not steady.ended:
        for order in reversed(steady.ask(3)):
            number += 1
            if number % 3:
                steady.tell(nursery.make(order))
            else:
                steady.tell_failure(order, "out of luck")
    failed = [event for event in events if event.kind == "!"]
    assert len(failed) > 5
    assert {event.number < 4 for event in failed} == {True, False}
    assert sum(line["failed"] for line in heard.metrics) == len(failed)
    assert sum(line["broken"] > 0 for line in heard.metrics) > 1
    fitness, genomes = engine.state.fitness.numpy(), engine.state.genomes.numpy()
    assert not np.isfinite(fitness[(genomes == 0).all(axis=-1)]).any()
    assert np.isfinite(fitness).any(axis=1).all()
    kept = {name: table.numpy().tobytes() for name, table in engine.state.tables().items()}
    made: list[ChildRequest] = []

    def make(order: ChildRequest) -> ChildResult:
        made.append(order)
        return nursery.make(order)

    _, again, _ = drive(engine, make, at_once=4, replay=events, **SIZES)
    assert again.metrics == heard.metrics
    assert not {(order.run, order.number) for order in made} & {(event.run, event.number) for event in failed}
    assert {name: table.numpy().tobytes() for name, table in engine.state.tables().items()} == kept


def test_a_failure_says_nothing_about_intensities(engine: Engine, nursery: ChildWorker) -> None:
    steady, _, _ = begun(engine, nursery, failures="broken")
    before = engine.state.run_intensity_scale.numpy().tolist()
    orders = steady.ask(2)
    steady.tell_failure(orders[0], "out of luck")
    assert engine.state.run_intensity_scale.numpy().tolist() == before
    steady.tell(nursery.make(orders[1]))
    assert engine.state.run_intensity_scale.numpy()[1] != before[1]


def test_what_could_be_made_once_must_be_made_again(engine: Engine, nursery: ChildWorker) -> None:
    _, _, events = begun(engine, nursery)
    replay = AsyncLoop(engine, replay=events, failures="broken", **SIZES)
    with pytest.raises(TfsmError, match="it was made when the log was written"):
        replay.tell_failure(replay.ask(1)[0], "out of luck")


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("> 0 1", r"event 1 of the log, '> 0 1' does not fit these runs: the next number of this run is 0"),
        ("> 5 0", "there is no such run"),
        ("< 0 0", "no such individual is in flight"),
        ("> 0 0,> 0 1,> 0 2,> 0 3,> 0 4", "only 0 of this run are evaluated"),
    ],
)
def test_a_log_of_something_else_is_told(engine: Engine, log: str, why: str) -> None:
    with pytest.raises(TfsmError, match=why):
        AsyncLoop(engine, replay=parse_events(log.replace(",", "\n") + "\n"), **SIZES).ask(9)


def test_no_healthy_network_at_all_is_an_error() -> None:
    engine = make_engine(Target(broken_below=float("inf")), reuse=False)
    with pytest.raises(TfsmError, match="run 3: none of the 6 initial networks has a finite fitness"):
        drive(engine, nursery_of(engine).make, runs=range(3, 5))


def test_what_cannot_be_is_said_steady_driver(engine: Engine) -> None:
    with pytest.raises(TfsmError, match="there is room for 2 of the 3 runs"):
        AsyncLoop(engine, **SIZES | {"runs": 3})
    with pytest.raises(TfsmError, match="the checkpoint is of runs 2 to 3, expected runs 0 to 1"):
        AsyncLoop(engine, saved=[Checkpoint(2, 2, 0)], **SIZES)
    with pytest.raises(TfsmError, match="not from a checkpoint"):
        AsyncLoop(engine, saved=[Checkpoint(0, 2, 0)], replay=[Event(">", 0, 0)], **SIZES)
    with pytest.raises(TfsmError, match=r"set engine\.reuse=false"):
        AsyncLoop(make_engine(mutation=SafeMutationSum()), **SIZES)


class Keeper:
    """Keeps where runs in lock step stand after ten evaluations."""

    content = b""

    def next_check(self, spent: int) -> int:
        return 10 if spent < 10 else 99

    def is_due(self, spent: int) -> bool:
        return spent == 10

    def save(self, saved: Checkpoint, *, last: bool = False) -> None:
        self.content = self.content or pack_checkpoint(saved, {})


def test_what_was_left_in_lock_step_goes_on_one_by_one(engine: Engine, nursery: ChildWorker) -> None:
    keeper = Keeper()
    expected = LockstepLoop(engine, checkpoints=keeper, **SIZES).run()
    saved, _ = unpack_checkpoint(keeper.content)
    assert saved.evaluations_used == 10
    steady = AsyncLoop(engine, saved=[saved], **SIZES)
    drive(engine, nursery.make, steady=steady)
    for before, after in zip(expected, sorted(steady.results, key=lambda result: result.run), strict=True):
        assert before.summary() == after.summary()
        assert before.champion.tobytes() == after.champion.tobytes()


def test_what_was_left_out_of_step_does_not_go_on_in_lock_step(engine: Engine, nursery: ChildWorker) -> None:
    steady, _, _ = begun(engine, nursery)
    with pytest.raises(TfsmError, match="cannot be resumed in lock step"):
        LockstepLoop(engine, saved=[steady.checkpoint()], **SIZES)


def test_a_run_that_has_spent_its_budget_ends_when_it_goes_on(engine: Engine, nursery: ChildWorker) -> None:
    steady, _, _ = begun(engine, nursery)
    steady.tell(*map(nursery.make, steady.ask(4)))
    saved, _ = unpack_checkpoint(pack_checkpoint(steady.checkpoint(), {}))
    steady = AsyncLoop(engine, saved=[saved], **SIZES | {"evaluations": 6})
    assert steady.ended
    assert [result.evaluations for result in steady.results] == [6, 6]


@pytest.mark.parametrize("shorter", [3, 4, 13, 16])
def test_whoever_has_spent_his_evaluations_goes_on_with_more_as_if_he_never_had(
    engine: Engine, nursery: ChildWorker, shorter: int
) -> None:
    whole, expected, _ = drive(engine, nursery.make, **SIZES)
    steady, told, _ = drive(engine, nursery.make, **SIZES | {"evaluations": shorter})
    assert [result.evaluations for result in steady.results] == [shorter] * 2
    saved, _ = unpack_checkpoint(pack_checkpoint(steady.checkpoint(), {}))
    assert saved.active_runs == [0, 1]
    heard = Recorder()
    longer = AsyncLoop(engine, saved=[saved], observers=[heard], **SIZES)
    drive(engine, nursery.make, steady=longer)
    assert outcomes(longer) == outcomes(whole)
    lines = [line for line in told.metrics if line["evaluations"] % 8 == 0] + heard.metrics
    assert {(line["run"], line["evaluations"]): line for line in lines} == {
        (line["run"], line["evaluations"]): line for line in expected.metrics
    }


class Full(Recorder):
    """Cannot write down how a run ended."""

    def on_run_end(self, result: Any) -> None:
        raise TfsmError("no room")


def test_a_run_whose_end_was_not_told_ends_when_it_goes_on() -> None:
    engine = make_engine(Target(near=0.0), population=4, reuse=False)
    nursery = nursery_of(engine)
    steady, _, _ = begun(engine, nursery)
    (order,) = steady.ask(1)
    child = nursery.make(order)
    steady._reporter._observers = [Full()]
    with pytest.raises(TfsmError, match="no room"):
        steady.tell(
            ChildResult(0, child.number, child.genome, (child.evaluation[0], np.bool_(True), *child.evaluation[2:]))
        )
    saved, _ = unpack_checkpoint(pack_checkpoint(steady.checkpoint(), {}))
    gone_on = AsyncLoop(engine, saved=[saved], **SIZES)
    assert [(result.run, result.solved, result.evaluations) for result in gone_on.results] == [(0, True, 5)]


def outcomes(steady: AsyncLoop) -> list[Any]:
    ended = sorted(steady.results, key=lambda result: result.run)
    return [(result.summary(), result.champion.tobytes()) for result in ended]


def test_runs_of_which_nothing_was_kept_begin_among_others_that_go_on(engine: Engine, nursery: ChildWorker) -> None:
    whole, _, _ = drive(engine, nursery.make, **SIZES)
    steady, _, _ = begun(engine, nursery)
    steady.tell(*map(nursery.make, steady.ask(2)))
    saved, _ = unpack_checkpoint(pack_checkpoint(steady.checkpoint(), {}))
    for part in (range(1), range(1, 2)):
        gone_on = AsyncLoop(engine, saved=[saved.part(part)], **SIZES)
        drive(engine, nursery.make, steady=gone_on)
        assert outcomes(gone_on) == outcomes(whole)


def test_nothing_is_traced_twice(engine: Engine, nursery: ChildWorker) -> None:
    for _ in range(2):
        drive(engine, nursery.make, at_once=3, pick=lambda there: there - 1, **SIZES)
    assert engine.ask.traces == 1
    assert engine.tell.traces == 1
    assert engine.tell_initial.traces == 1


SIZES_STEADY_MANY: dict[str, Any] = {"runs": 2, "evaluations": 30, "log_every": 7}
QUICKLY = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass
class Place:
    """An engine, and somebody who makes its children, for many tests."""

    engine: Engine
    nursery: ChildWorker

    def drive(self, at_once: int, order: int | Callable[[int], int], **more: Any) -> Outcome:
        pick = random.Random(order).randrange if isinstance(order, int) else order
        steady, heard, events = drive(
            self.engine, self.nursery.make, at_once=at_once, pick=pick, **SIZES_STEADY_MANY | more
        )
        return Outcome.of(steady, heard, events, self.engine)


@dataclass
class Outcome:
    """All that a user could ever notice."""

    metrics: list[dict[str, Any]]
    told: list[str]
    champions: dict[int, bytes]
    tables: dict[str, bytes]
    events: list[Event] = field(repr=False)

    @classmethod
    def of(cls, steady: AsyncLoop, heard: Recorder, events: list[Event], engine: Engine) -> Outcome:
        champions = {result.run: result.champion.tobytes() for result in steady.results}
        tables = {name: table.numpy().tobytes() for name, table in engine.state.tables().items()}
        return cls(heard.metrics, heard.events, champions, tables, events)


@pytest.fixture(scope="module")
def place() -> Place:
    """Runs of which one is solved before its end, with everything that remembers."""
    engine = make_engine(
        Target(near=1.5),
        selection=Novelty(size=3, archive=5, archived=0.5),
        adaptation=Adaptation("divergence", 0.3, 0.01),
        intensity=0.5,
        reuse=False,
        seed=1,
    )
    return Place(engine, nursery_of(engine))


@pytest.fixture(scope="module")
def endless() -> Place:
    engine = make_engine(Target(near=0.0), population=5, reuse=False)
    return Place(engine, nursery_of(engine))


def plain_steady(events: list[Event], run: int, population: int) -> tuple[np.ndarray, np.ndarray]:
    """The algorithm, event by event: a parent now, and whose place it takes when the child is there."""
    domain, selection, root = Target(near=0.0), Tournament(size=3), root_seed(0)
    network = Network(domain.network())
    genomes, fitness = np.zeros([population, 3], np.float32), np.full(population, -np.inf, np.float32)
    parents: dict[int, np.ndarray] = {}
    for kind, own, number in events:
        if own != run:
            continue
        if number < population:
            draw_seed, _ = split(fold_in(root, run, number), 2)
            child, place = Initializer("normal", 1.0).genomes(network, draw_seed[None]), number
        else:
            select_seed, mutate_seed, _ = split(fold_in(root, run, number), 3)
            choice = selection.choose(tf.constant(fitness[None]), select_seed[None])
            if kind == ">":
                parents[number] = genomes[int(choice.parent[0])].copy()
                continue
            parent, place = tf.constant(parents[number][None]), int(choice.replaced[0])
            child = Control()(network, parent, (), tf.constant(0.1), mutate_seed[None])
        if kind == "<":
            genomes[place] = child[0].numpy()
            fitness[place] = float(domain.evaluate(network, child, root).fitness[0])
    return genomes, fitness


@pytest.mark.parametrize("at_once", [3, 9])
def test_it_does_what_a_plain_loop_of_the_same_rules_does(endless: Place, at_once: int) -> None:
    found = endless.drive(at_once, 1)
    assert sum(event.kind == "<" for event in found.events) == 60
    for run in (0, 1):
        genomes, fitness = plain_steady(found.events, run, 5)
        np.testing.assert_allclose(endless.engine.state.genomes.numpy()[run], genomes, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(endless.engine.state.fitness.numpy()[run], fitness, rtol=1e-4, atol=1e-5)
    other = endless.drive(at_once, 2)
    assert other.tables != found.tables, "the order of arrival matters, or the test would tell nothing"


def test_staleness_is_how_many_others_were_settled_meanwhile(endless: Place) -> None:
    found = endless.drive(6, 3)
    for run in (0, 1):
        own = [event for event in found.events if event.run == run]
        stale: list[int] = []
        settled = [number for kind, _, number in own if kind == "<"]
        lines = {line["evaluations"]: line for line in found.metrics if line["run"] == run}
        assert sorted(lines) == [7, 14, 21, 28, 30]
        for count, number in enumerate(settled, 1):
            if number >= 5:
                out, back = own.index(Event(">", run, number)), own.index(Event("<", run, number))
                stale.append(sum(event.kind == "<" for event in own[out:back]))
            if count in lines:
                assert lines[count]["staleness"] == pytest.approx(np.mean(stale))
                assert lines[count]["staleness_most"] == max(stale)
                stale = []
    assert max(line["staleness_most"] for line in found.metrics) > 1


def test_several_at_once_are_settled_as_if_one_by_one(place: Place) -> None:
    expected = place.drive(6, 4)
    again, heard, events = Replayed(expected.events), Recorder(), list[Event]()
    steady = AsyncLoop(place.engine, seed=0, observers=[heard], events=events.append, **SIZES_STEADY_MANY)
    for handed, settled in again.rounds():
        orders = steady.ask(len(handed))
        assert [(order.run, order.number) for order in orders] == handed
        again.made |= {(order.run, order.number): place.nursery.make(order) for order in orders}
        steady.tell(*(again.made[who] for who in settled))
    found = Outcome.of(steady, heard, events, place.engine)
    assert found == expected


class Replayed:
    """A log as rounds: who is handed out at once, then who is settled at once."""

    def __init__(self, events: list[Event]) -> None:
        self.events, self.made = events, dict[tuple[int, int], ChildResult]()

    def rounds(self) -> Iterator[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
        handed: list[tuple[int, int]] = []
        settled: list[tuple[int, int]] = []
        for kind, run, number in self.events:
            if kind == ">" and settled:
                yield handed, settled
                handed, settled = [], []
            (handed if kind == ">" else settled).append((run, number))
        yield handed, settled


@QUICKLY
@given(st.integers(1, 9), st.integers(0, 999), st.integers(1, 12), st.integers(0, 999))
def test_any_order_can_be_replayed_by_any_number_of_workers(
    place: Place, at_once: int, order: int, other: int, other_order: int
) -> None:
    first = place.drive(at_once, order)
    check_invariants(first)
    again = place.drive(other, other_order, replay=first.events)
    assert again == first


def check_invariants(found: Outcome) -> None:
    ended = {int(text.split()[1]): int(text.split()[-1]) for text in found.told if text.startswith("finished")}
    for run in (0, 1):
        settled = [event.number for event in found.events if event.run == run and event.kind == "<"]
        assert len(set(settled)) == len(settled) <= 30, "each at most once, and never more than the budget"
        assert len(settled) == ended[run], "nothing after the end"
        assert set(settled[:6]) == set(range(6)) or len(settled) < 6, "first individuals first"


@QUICKLY
@given(st.integers(1, 6), st.integers(0, 999), st.integers(0, 70), st.integers(1, 6))
def test_a_checkpoint_at_any_moment_gives_a_log_that_can_be_replayed(
    place: Place, at_once: int, order: int, moment: int, later: int
) -> None:
    heard, events, chance = Recorder(), list[Event](), random.Random(order)
    once = DeduplicatingObserver(heard)  # whoever has spent his evaluations says so again when he goes on
    steady = AsyncLoop(place.engine, seed=0, observers=[once], events=events.append, **SIZES_STEADY_MANY)
    away: list[ChildRequest] = []
    for _ in range(moment):
        if steady.ended:
            break
        away += steady.ask(at_once - len(away))
        steady.tell(place.nursery.make(away.pop(chance.randrange(len(away)))))
        if chance.random() < 0.3:
            away += steady.ask(at_once - len(away))
    content = pack_checkpoint(steady.checkpoint(), {})
    place.engine.reset(0)  # nothing is left of it but the file
    saved, _ = unpack_checkpoint(content)
    assert saved.event_count == len(events)
    gone_on = AsyncLoop(
        place.engine, seed=0, observers=[once], events=events.append, saved=[saved], **SIZES_STEADY_MANY
    )
    drive(place.engine, place.nursery.make, at_once=later, pick=chance.randrange, steady=gone_on)
    assert gone_on.event_count == len(events)
    whole = Outcome.of(gone_on, heard, events, place.engine)
    check_invariants(whole)
    again = place.drive(at_once, order + 1, replay=events)
    for part in ("metrics", "told", "champions", "events"):
        assert getattr(again, part) == getattr(whole, part), part
    if not steady.results:  # what an ended run leaves in its lane is nobody's
        assert again.tables == whole.tables
