"""Asynchronous loops and their workers in one process, for tests."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.helpers.engines import Recorder
from tfsm.evolution.async_loop import AsyncLoop
from tfsm.evolution.async_worker import ChildRequest, ChildResult, ChildWorker
from tfsm.evolution.engine import Engine
from tfsm.evolution.evaluation import Evaluator
from tfsm.evolution.event_log import Event
from tfsm.evolution.variation import Variation


def make_worker(engine: Engine) -> ChildWorker:
    """Return a worker for an engine's children; it does not know the populations."""
    variation = engine.variation
    return ChildWorker(
        Variation(
            Evaluator(variation.domain, variation.network, jit=variation.plan.jit),
            variation.mutation,
            intensity=float(variation.intensity.numpy()),
            initializer=variation._initializer,
            seed=int(variation.root_seed.numpy()[0]),
            plan=replace(variation.plan, runs=1),
            adaptation=variation.adaptation,
        ),
        engine.batches.size,
    )


def pickle_round_trip(value: Any) -> Any:
    """Return a copy as another process would receive it."""
    return pickle.loads(pickle.dumps(value))


def drive(
    engine: Engine,
    make: Callable[[ChildRequest], ChildResult],
    *,
    at_once: int = 1,
    pick: Callable[[int], int] = lambda count: 0,
    runs: int = 2,
    evaluations: int = 60,
    log_every: int = 20,
    loop: AsyncLoop | None = None,
    **more: Any,
) -> tuple[AsyncLoop, Recorder, list[Event]]:
    """Evolve with `at_once` children in flight; `pick` chooses which of them arrives next."""
    recorder, events = Recorder(), list[Event]()
    if loop is None:
        options = {"seed": 0, "runs": runs, "evaluations": evaluations, "log_every": log_every} | more
        loop = AsyncLoop(engine, observers=[recorder], events=events.append, **options)
    in_flight: list[ChildRequest] = []
    while not loop.ended:
        in_flight += loop.ask(at_once - len(in_flight))
        if not in_flight:  # a replay may end with results that it held back
            assert loop.ended
            break
        loop.tell(pickle_round_trip(make(pickle_round_trip(in_flight.pop(pick(len(in_flight)))))))
    return loop, recorder, events
