"""Several on their way at once: the rules in plain Python, any order of arrival, replays, checkpoints."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.domains import Target
from tests.helpers.engines import Recorder, make_engine
from tests.helpers.steady import drive, nursery_of
from tfsm.evolution.async_loop import Steady
from tfsm.evolution.async_worker import Bred, Nursery, Order
from tfsm.evolution.checkpoint import packed, unpacked
from tfsm.evolution.engine import Engine
from tfsm.evolution.event_log import Event
from tfsm.evolution.initialization import Initial
from tfsm.evolution.variation import Adaptation
from tfsm.kernels.random import fold, root_seed, split
from tfsm.models.network import Network
from tfsm.runs.observers import Once
from tfsm_plugins.mutations.gaussian import Control
from tfsm_plugins.selections.novelty import Novelty
from tfsm_plugins.selections.steady_state import Tournament

SIZES: dict[str, Any] = {"runs": 2, "evaluations": 30, "log_every": 7}
QUICKLY = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass
class Place:
    """An engine, and somebody who makes its children, for many tests."""

    engine: Engine
    nursery: Nursery

    def drive(self, at_once: int, order: int | Callable[[int], int], **more: Any) -> Outcome:
        pick = random.Random(order).randrange if isinstance(order, int) else order
        steady, heard, events = drive(self.engine, self.nursery.make, at_once=at_once, pick=pick, **SIZES | more)
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
    def of(cls, steady: Steady, heard: Recorder, events: list[Event], engine: Engine) -> Outcome:
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
            draw_seed, _ = split(fold(root, run, number), 2)
            child, place = Initial("normal", 1.0).genomes(network, draw_seed[None]), number
        else:
            select_seed, mutate_seed, _ = split(fold(root, run, number), 3)
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
    steady = Steady(place.engine, seed=0, observers=[heard], events=events.append, **SIZES)
    for handed, settled in again.rounds():
        orders = steady.orders(len(handed))
        assert [(order.run, order.number) for order in orders] == handed
        again.made |= {(order.run, order.number): place.nursery.make(order) for order in orders}
        steady.settle(*(again.made[who] for who in settled))
    found = Outcome.of(steady, heard, events, place.engine)
    assert found == expected


class Replayed:
    """A log as rounds: who is handed out at once, then who is settled at once."""

    def __init__(self, events: list[Event]) -> None:
        self.events, self.made = events, dict[tuple[int, int], Bred]()

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
    once = Once(heard)  # whoever has spent his evaluations says so again when he goes on
    steady = Steady(place.engine, seed=0, observers=[once], events=events.append, **SIZES)
    away: list[Order] = []
    for _ in range(moment):
        if steady.ended:
            break
        away += steady.orders(at_once - len(away))
        steady.settle(place.nursery.make(away.pop(chance.randrange(len(away)))))
        if chance.random() < 0.3:
            away += steady.orders(at_once - len(away))
    content = packed(steady.saved(), {})
    place.engine.reset(0)  # nothing is left of it but the file
    saved, _ = unpacked(content)
    assert saved.events == len(events)
    gone_on = Steady(place.engine, seed=0, observers=[once], events=events.append, saved=[saved], **SIZES)
    drive(place.engine, place.nursery.make, at_once=later, pick=chance.randrange, steady=gone_on)
    assert gone_on.events == len(events)
    whole = Outcome.of(gone_on, heard, events, place.engine)
    check_invariants(whole)
    again = place.drive(at_once, order + 1, replay=events)
    for part in ("metrics", "told", "champions", "events"):
        assert getattr(again, part) == getattr(whole, part), part
    if not steady.results:  # what an ended run leaves in its lane is nobody's
        assert again.tables == whole.tables
