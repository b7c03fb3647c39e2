"""What logging, and the host that wakes for it, cost a whole run."""

from __future__ import annotations

import time

from benchmarks.engines import advance, engine_of, settings_of
from benchmarks.measure import clock
from benchmarks.results import Table
from tfsm.evolution.engine import Engine
from tfsm.evolution.loop import Loop
from tfsm.evolution.records import Progress, Silent

SECONDS = 4.0
WARM_UP_CALLS = 4
"""Calls of the compiled step before the loop knows its pace, the first of which compile."""


class Stopwatch(Silent):
    """Notes when how many evaluations were done, while the loop evolves."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, int]] = []

    def progress(self, progress: Progress) -> None:
        """Take a mark."""
        if progress.phase == "evolving":
            self.marks.append((time.perf_counter(), progress.evaluations))

    def enough(self) -> bool:
        """Say whether the loop may stop."""
        known = self.marks[WARM_UP_CALLS:]
        return len(known) > 1 and known[-1][0] - known[0][0] > SECONDS

    def rate(self) -> float:
        """Return evaluations per second, from when the pace was known."""
        (began, before), (ended, after) = self.marks[WARM_UP_CALLS], self.marks[-1]
        return (after - before) / (ended - began)


def logged_rows(operators: tuple[str, ...]) -> Table:
    """Measure parity at 20 runs as `tfsm run` does it, with metrics and probes, and the bare engine after it."""
    table = Table("logged", "(b) the loop as `tfsm run` runs it: parity, 20 runs, with metrics at every interval")
    for operator in operators:
        settings = settings_of("parity", operator, 20)
        engine = engine_of(settings)
        watch = Stopwatch()
        loop = Loop(
            engine,
            seed=0,
            runs=20,
            evaluations=10**7,
            log_every=settings.log_every,
            observers=[watch],
            stop=watch.enough,
        )
        loop.run()
        bare = _bare(engine)
        table.rows.append(
            {
                "operator": operator,
                "with logging, evaluations/s": watch.rate(),
                "engine alone": bare,
                "share": watch.rate() / bare,
                "compiling s": loop.compile_seconds,
            }
        )
    return table


def _bare(engine: Engine) -> float:
    steps = 64
    call = advance(engine, steps)
    call()
    return engine.state.runs * steps / clock(call, 10)
