"""Drivers and workers of an asynchronous steady state in one process, for tests."""

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


def nursery_of(engine: Engine) -> ChildWorker:
    """Return a worker for an engine's children, which knows nothing of its populations."""
    own = engine.variation
    return ChildWorker(
        Variation(
            Evaluator(own.domain, own.network, jit=own.plan.jit),
            own.mutation,
            intensity=float(own.intensity.numpy()),
            initializer=own._initializer,
            seed=int(own._root.numpy()[0]),
            plan=replace(own.plan, runs=1),
            adaptation=own.adaptation,
        )
    )


def sent(thing: Any) -> Any:
    """Return what arrives at another process."""
    return pickle.loads(pickle.dumps(thing))


def drive(
    engine: Engine,
    make: Callable[[ChildRequest], ChildResult],
    *,
    at_once: int = 1,
    pick: Callable[[int], int] = lambda there: 0,
    runs: int = 2,
    evaluations: int = 60,
    log_every: int = 20,
    steady: AsyncLoop | None = None,
    **more: Any,
) -> tuple[AsyncLoop, Recorder, list[Event]]:
    """Evolve with so many on their way at once, of whom the one that `pick` says arrives next."""
    recorder, events = Recorder(), list[Event]()
    if steady is None:
        options = {"seed": 0, "runs": runs, "evaluations": evaluations, "log_every": log_every} | more
        steady = AsyncLoop(engine, observers=[recorder], events=events.append, **options)
    away: list[ChildRequest] = []
    while not steady.ended:
        away += steady.ask(at_once - len(away))
        if not away:  # a replay may end by settling whom it held
            assert steady.ended
            break
        steady.tell(sent(make(sent(away.pop(pick(len(away)))))))
    return steady, recorder, events
