"""Ends, interruptions, failures, and what cannot be."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tests.helpers.domains import Target
from tests.helpers.engines import Recorder, make_engine
from tests.helpers.steady import drive, nursery_of
from tfsm.errors import TfsmError
from tfsm.evolution.async_loop import Steady
from tfsm.evolution.async_worker import Bred, Nursery, Order
from tfsm.evolution.checkpoint import Saved, packed, unpacked
from tfsm.evolution.engine import Engine
from tfsm.evolution.event_log import Event, parse_events
from tfsm.evolution.lockstep_loop import Loop
from tfsm.evolution.variation import Adaptation
from tfsm_plugins.mutations.gradient import SafeMutationSum

SIZES: dict[str, Any] = {"seed": 0, "runs": 2, "evaluations": 20, "log_every": 8}


@pytest.fixture(scope="module")
def engine() -> Engine:
    adaptation = Adaptation("divergence", 0.3, 0.01)
    return make_engine(Target(near=0.0), population=4, adaptation=adaptation, reuse=False)


@pytest.fixture(scope="module")
def nursery(engine: Engine) -> Nursery:
    return nursery_of(engine)


def begun(engine: Engine, nursery: Nursery, **more: Any) -> tuple[Steady, Recorder, list[Event]]:
    """Return a driver whose first individuals are all settled."""
    recorder, events = Recorder(), list[Event]()
    steady = Steady(engine, observers=[recorder], events=events.append, **SIZES | more)
    orders = steady.orders(99)
    assert [(order.run, order.number) for order in orders] == [(i % 2, i // 2) for i in range(8)]
    assert steady.orders(1) == [], "children only once all first individuals are settled"
    steady.settle(*map(nursery.make, orders))
    return steady, recorder, events


def test_orders_are_spread_and_never_beyond_the_budget(engine: Engine, nursery: Nursery) -> None:
    steady, _, _ = begun(engine, nursery)
    orders = steady.orders(3)
    assert [(order.run, order.number) for order in orders] == [(0, 4), (1, 4), (0, 5)]
    steady.settle(nursery.make(orders[2]))
    orders = steady.orders(99)
    assert len(orders) == 32 - 3
    assert {order.run for order in orders[:2]} == {0, 1}
    assert steady.orders(1) == []


def test_first_individuals_and_children_may_arrive_together(engine: Engine, nursery: Nursery) -> None:
    steady = Steady(engine, **SIZES)
    *most, last = map(nursery.make, steady.orders(99))
    steady.settle(*most)
    (order,) = steady.orders(1)
    child = nursery.make(order)
    assert (child.run, child.number, last.run, last.number) == (0, 4, 1, 3)
    steady.settle(child, last)
    assert engine.state.tallies["children"].numpy().tolist() == [1, 0]
    assert engine.state.evaluations.numpy().tolist() == [5, 4]
    np.testing.assert_array_equal(engine.state.genomes.numpy()[1, 3], last.genome)
    assert child.genome.tolist() in engine.state.genomes.numpy()[0].tolist()


def test_the_first_interval_has_children_as_in_lock_step(engine: Engine, nursery: Nursery) -> None:
    steady, heard, _ = begun(engine, nursery, log_every=2)
    assert heard.metrics == []
    steady.settle(*map(nursery.make, steady.orders(3)))
    assert [(line["run"], line["evaluations"]) for line in heard.metrics] == [(0, 6)]


def test_an_order_is_plain_arrays(engine: Engine, nursery: Nursery) -> None:
    steady, _, _ = begun(engine, nursery)
    (order,) = steady.orders(1)
    content = pickle.dumps((order, nursery.make(order)))
    assert b"tensorflow" not in content
    assert b"keras" not in content
    assert order.parent is not None
    parents = engine.state.genomes.numpy()[0].tolist()
    assert order.parent.genome.tolist() in parents
    np.testing.assert_array_equal(order.parent.experience[0], order.parent.genome)
    assert order.mate is None


def test_whoever_was_settled_is_settled_once(engine: Engine, nursery: Nursery) -> None:
    steady, _, events = begun(engine, nursery)
    (order,) = steady.orders(1)
    bred = nursery.make(order)
    steady.settle(bred, bred)
    steady.settle(bred)
    steady.failed(order, "too late to matter")
    assert [str(event) for event in events[16:]] == ["> 0 4", "< 0 4"]
    assert engine.state.evaluations.numpy().tolist() == [5, 4]


def test_children_of_a_run_that_has_ended_are_dropped() -> None:
    engine = make_engine(Target(near=0.0), population=4, reuse=False)
    nursery = nursery_of(engine)
    steady, heard, events = begun(engine, nursery)
    first, *others = (nursery.make(order) for order in steady.orders(4) if order.run == 0)
    solved = Bred(0, first.number, first.genome, (first.found[0], np.bool_(True), *first.found[2:]))
    steady.settle(solved, *others)
    assert heard.events[-2:] == ["solved 0 at 5", "finished 0 at 5"]
    before = engine.state.genomes.numpy()
    steady.settle(*others)
    np.testing.assert_array_equal(engine.state.genomes.numpy(), before)
    assert [str(event) for event in events[-1:]] == ["< 0 4"]
    assert {order.run for order in steady.orders(9)} == {1}
    assert not steady.ended


def test_an_interruption_ends_everything_and_can_be_replayed(engine: Engine, nursery: Nursery) -> None:
    steady, heard, events = begun(engine, nursery)
    orders = steady.orders(5)
    steady.settle(nursery.make(orders[4]), nursery.make(orders[1]))
    saved = steady.saved()
    assert {run: own.away for run, own in saved.apart.items()} == {0: (4, 5), 1: (5,)}
    steady.finish_early()
    assert steady.ended
    assert steady.interrupted
    assert [result.evaluations for result in steady.results] == [5, 5]
    assert [text for text in heard.events if text.startswith("finished")] == ["finished 0 at 5", "finished 1 at 5"]
    steady.settle(nursery.make(orders[0]))
    assert engine.state.evaluations.numpy().tolist() == [5, 5]
    champions = [result.champion.tobytes() for result in steady.results]
    again, told = Recorder(), list[Event]()
    replay = Steady(engine, observers=[again], events=told.append, replay=events, **SIZES)
    while not replay.replayed:
        replay.settle(*map(nursery.make, replay.orders(2)))
    replay.finish_early()
    assert told == events
    assert again.metrics == heard.metrics
    assert [result.champion.tobytes() for result in replay.results] == champions


def test_after_a_replay_whoever_never_came_back_is_handed_out_again(engine: Engine, nursery: Nursery) -> None:
    steady, _, events = begun(engine, nursery)
    orders = steady.orders(5)
    steady.settle(nursery.make(orders[3]))
    told: list[Event] = []
    replay = Steady(engine, events=told.append, replay=events, **SIZES)
    while not replay.replayed:
        replay.settle(*map(nursery.make, replay.orders(2)))
    assert told == events
    left = [(order.run, order.number) for order in replay.orders(4)]
    assert left == [(0, 4), (1, 4), (0, 5), (1, 6)]


def test_an_interruption_before_anybody_arrives_is_survived(engine: Engine) -> None:
    steady = Steady(engine, **SIZES)
    steady.orders(3)
    steady.finish_early()
    assert [(result.evaluations, result.best_fitness) for result in steady.results] == [(0, float("-inf"))] * 2


def test_a_failure_stops_everything_unless_told_otherwise(engine: Engine, nursery: Nursery) -> None:
    steady, _, _ = begun(engine, nursery)
    (order,) = steady.orders(1)
    with pytest.raises(TfsmError, match="run 0: individual 4 could not be made: its worker died"):
        steady.failed(order, "its worker died")


def test_whoever_failed_counts_as_broken(engine: Engine, nursery: Nursery) -> None:
    heard, events = Recorder(), list[Event]()
    steady = Steady(engine, observers=[heard], events=events.append, failures="broken", **SIZES)
    number = 0
    while not steady.ended:
        for order in reversed(steady.orders(3)):
            number += 1
            if number % 3:
                steady.settle(nursery.make(order))
            else:
                steady.failed(order, "out of luck")
    failed = [event for event in events if event.kind == "!"]
    assert len(failed) > 5
    assert {event.number < 4 for event in failed} == {True, False}
    assert sum(line["failed"] for line in heard.metrics) == len(failed)
    assert sum(line["broken"] > 0 for line in heard.metrics) > 1
    fitness, genomes = engine.state.fitness.numpy(), engine.state.genomes.numpy()
    assert not np.isfinite(fitness[(genomes == 0).all(axis=-1)]).any()
    assert np.isfinite(fitness).any(axis=1).all()
    kept = {name: table.numpy().tobytes() for name, table in engine.state.tables().items()}
    made: list[Order] = []

    def make(order: Order) -> Bred:
        made.append(order)
        return nursery.make(order)

    _, again, _ = drive(engine, make, at_once=4, replay=events, **SIZES)
    assert again.metrics == heard.metrics
    assert not {(order.run, order.number) for order in made} & {(event.run, event.number) for event in failed}
    assert {name: table.numpy().tobytes() for name, table in engine.state.tables().items()} == kept


def test_a_failure_says_nothing_about_intensities(engine: Engine, nursery: Nursery) -> None:
    steady, _, _ = begun(engine, nursery, failures="broken")
    before = engine.state.control.numpy().tolist()
    orders = steady.orders(2)
    steady.failed(orders[0], "out of luck")
    assert engine.state.control.numpy().tolist() == before
    steady.settle(nursery.make(orders[1]))
    assert engine.state.control.numpy()[1] != before[1]


def test_what_could_be_made_once_must_be_made_again(engine: Engine, nursery: Nursery) -> None:
    _, _, events = begun(engine, nursery)
    replay = Steady(engine, replay=events, failures="broken", **SIZES)
    with pytest.raises(TfsmError, match="it could be when the log was written"):
        replay.failed(replay.orders(1)[0], "out of luck")


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("> 0 1", r"event 1 of the log, '> 0 1' does not fit these runs: the next number of this run is 0"),
        ("> 5 0", "there is no such run"),
        ("< 0 0", "nobody of that number is on the way"),
        ("> 0 0,> 0 1,> 0 2,> 0 3,> 0 4", "only 0 of this run were settled"),
    ],
)
def test_a_log_of_something_else_is_told(engine: Engine, log: str, why: str) -> None:
    with pytest.raises(TfsmError, match=why):
        Steady(engine, replay=parse_events(log.replace(",", "\n") + "\n"), **SIZES).orders(9)


def test_no_healthy_network_at_all_is_an_error() -> None:
    engine = make_engine(Target(broken_below=float("inf")), reuse=False)
    with pytest.raises(TfsmError, match="run 3: none of the 6 initial networks has a finite fitness"):
        drive(engine, nursery_of(engine).make, runs=range(3, 5))


def test_what_cannot_be_is_said(engine: Engine) -> None:
    with pytest.raises(TfsmError, match="there is room for 2 of the 3 runs"):
        Steady(engine, **SIZES | {"runs": 3})
    with pytest.raises(TfsmError, match="the runs 2 to 3 were saved, and 0 to 1 are to go on"):
        Steady(engine, saved=[Saved(2, 2, 0)], **SIZES)
    with pytest.raises(TfsmError, match="not from a checkpoint"):
        Steady(engine, saved=[Saved(0, 2, 0)], replay=[Event(">", 0, 0)], **SIZES)
    with pytest.raises(TfsmError, match=r"set engine\.reuse=false"):
        Steady(make_engine(mutation=SafeMutationSum()), **SIZES)


class Keeper:
    """Keeps where runs in lock step stand after ten evaluations."""

    content = b""

    def bound(self, spent: int) -> int:
        return 10 if spent < 10 else 99

    def due(self, spent: int) -> bool:
        return spent == 10

    def keep(self, saved: Saved, *, last: bool = False) -> None:
        self.content = self.content or packed(saved, {})


def test_what_was_left_in_lock_step_goes_on_one_by_one(engine: Engine, nursery: Nursery) -> None:
    keeper = Keeper()
    expected = Loop(engine, checkpoints=keeper, **SIZES).run()
    saved, _ = unpacked(keeper.content)
    assert saved.spent == 10
    steady = Steady(engine, saved=[saved], **SIZES)
    drive(engine, nursery.make, steady=steady)
    for before, after in zip(expected, sorted(steady.results, key=lambda result: result.run), strict=True):
        assert before.summary() == after.summary()
        assert before.champion.tobytes() == after.champion.tobytes()


def test_what_was_left_out_of_step_does_not_go_on_in_lock_step(engine: Engine, nursery: Nursery) -> None:
    steady, _, _ = begun(engine, nursery)
    with pytest.raises(TfsmError, match="cannot go on in lock step"):
        Loop(engine, saved=[steady.saved()], **SIZES)


def test_a_run_that_has_spent_its_budget_ends_when_it_goes_on(engine: Engine, nursery: Nursery) -> None:
    steady, _, _ = begun(engine, nursery)
    steady.settle(*map(nursery.make, steady.orders(4)))
    saved, _ = unpacked(packed(steady.saved(), {}))
    steady = Steady(engine, saved=[saved], **SIZES | {"evaluations": 6})
    assert steady.ended
    assert [result.evaluations for result in steady.results] == [6, 6]


@pytest.mark.parametrize("shorter", [3, 4, 13, 16])
def test_whoever_has_spent_his_evaluations_goes_on_with_more_as_if_he_never_had(
    engine: Engine, nursery: Nursery, shorter: int
) -> None:
    whole, expected, _ = drive(engine, nursery.make, **SIZES)
    steady, told, _ = drive(engine, nursery.make, **SIZES | {"evaluations": shorter})
    assert [result.evaluations for result in steady.results] == [shorter] * 2
    saved, _ = unpacked(packed(steady.saved(), {}))
    assert saved.going == [0, 1]
    heard = Recorder()
    longer = Steady(engine, saved=[saved], observers=[heard], **SIZES)
    drive(engine, nursery.make, steady=longer)
    assert outcomes(longer) == outcomes(whole)
    lines = [line for line in told.metrics if line["evaluations"] % 8 == 0] + heard.metrics
    assert {(line["run"], line["evaluations"]): line for line in lines} == {
        (line["run"], line["evaluations"]): line for line in expected.metrics
    }


class Full(Recorder):
    """Cannot write down how a run ended."""

    def finished(self, result: Any) -> None:
        raise TfsmError("no room")


def test_a_run_whose_end_was_not_told_ends_when_it_goes_on() -> None:
    engine = make_engine(Target(near=0.0), population=4, reuse=False)
    nursery = nursery_of(engine)
    steady, _, _ = begun(engine, nursery)
    (order,) = steady.orders(1)
    child = nursery.make(order)
    steady._reporter._observers = [Full()]
    with pytest.raises(TfsmError, match="no room"):
        steady.settle(Bred(0, child.number, child.genome, (child.found[0], np.bool_(True), *child.found[2:])))
    saved, _ = unpacked(packed(steady.saved(), {}))
    gone_on = Steady(engine, saved=[saved], **SIZES)
    assert [(result.run, result.solved, result.evaluations) for result in gone_on.results] == [(0, True, 5)]


def outcomes(steady: Steady) -> list[Any]:
    ended = sorted(steady.results, key=lambda result: result.run)
    return [(result.summary(), result.champion.tobytes()) for result in ended]


def test_runs_of_which_nothing_was_kept_begin_among_others_that_go_on(engine: Engine, nursery: Nursery) -> None:
    whole, _, _ = drive(engine, nursery.make, **SIZES)
    steady, _, _ = begun(engine, nursery)
    steady.settle(*map(nursery.make, steady.orders(2)))
    saved, _ = unpacked(packed(steady.saved(), {}))
    for part in (range(1), range(1, 2)):
        gone_on = Steady(engine, saved=[saved.part(part)], **SIZES)
        drive(engine, nursery.make, steady=gone_on)
        assert outcomes(gone_on) == outcomes(whole)


def test_nothing_is_traced_twice(engine: Engine, nursery: Nursery) -> None:
    for _ in range(2):
        drive(engine, nursery.make, at_once=3, pick=lambda there: there - 1, **SIZES)
    assert engine.match.traces == 1
    assert engine.settle.traces == 1
    assert engine.settle_first.traces == 1
