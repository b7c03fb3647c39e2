"""What logging, and the host that wakes for it, cost a whole run."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.engines import advance, engine_of, settings_of
from benchmarks.measure import clock
from benchmarks.results import Table
from tfsm.evolution.engine import Engine
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.interfaces import Observer

INTERVALS = 3
STEPS = 64
NOTE = "Between two calls of the loop the bare engine has its turn. Counted from the first interval, without compiling."


class Turns(Observer):
    """Lets the loop and the bare engine take turns, and counts the evaluations and seconds of each.

    Args:
        engine: the engine of the loop.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._bare = engine, advance(engine, STEPS)
        self._since, self._before = 0.0, 0
        self._intervals = 0
        self.spent = {"loop": [0.0, 0.0], "engine": [0.0, 0.0]}

    def on_interval(self, interval: Any) -> None:
        """Count an interval of all runs, after the first of which everything is compiled."""
        self._intervals += interval.run == 0

    def enough(self) -> bool:
        """Say whether the loop may stop; asked between two of its calls."""
        if self._intervals > 0 and self._since:
            self._count("loop", self._done() - self._before, time.perf_counter() - self._since)
        if self._intervals > 0:
            self._count("engine", STEPS * self._engine.state.runs, clock(self._bare))
            self._before, self._since = self._done(), time.perf_counter()
        return self._intervals > INTERVALS

    def rate(self, who: str) -> float:
        """Return evaluations per second."""
        evaluations, seconds = self.spent[who]
        return evaluations / seconds

    def _count(self, who: str, evaluations: int, seconds: float) -> None:
        self.spent[who][0] += evaluations
        self.spent[who][1] += seconds

    def _done(self) -> int:
        return int(self._engine.state.evaluations.numpy().sum())


def logged_table(operators: tuple[str, ...]) -> Table:
    """Measure parity at 20 runs as `tfsm run` does it, with metrics and probes, in turns with the bare engine."""
    table = Table(
        "logged", "(b) parity, 20 runs, with metrics at every interval as `tfsm run` takes them", notes=[NOTE]
    )
    for operator in operators:
        settings = settings_of("parity", operator, 20)
        engine = engine_of(settings)
        turns = Turns(engine)
        loop = LockstepLoop(
            engine,
            seed=0,
            runs=20,
            evaluations=10**7,
            log_every=settings.log_every,
            observers=[turns],
            stop=turns.enough,
        )
        loop.run()
        table.rows.append(
            {
                "operator": operator,
                "with logging, evaluations/s": turns.rate("loop"),
                "engine alone": turns.rate("engine"),
                "share": turns.rate("loop") / turns.rate("engine"),
                "compiling s": loop.compile_seconds,
            }
        )
    return table
