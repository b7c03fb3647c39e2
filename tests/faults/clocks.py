"""A time of day that goes backwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from tests.faults.bench import Bench
from tests.faults.damage import left_experiment
from tests.faults.trial import Trial, compared


@contextmanager
def backwards() -> Iterator[None]:
    """Let the time of day, of this process alone, go back by an hour each time that somebody asks."""
    asked = [0]

    def earlier() -> timedelta:
        asked[0] += 1
        return timedelta(hours=asked[0])

    class Backwards(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2026, 1, 1, tzinfo=UTC) - earlier()

    def clock() -> float:
        return 1.7e9 - earlier().total_seconds()

    with (
        patch("tfsm.runs.records.datetime", Backwards),
        patch("tfsm.runs.directory.datetime", Backwards),
        patch.object(time, "time", clock),
    ):
        yield
    assert asked[0], "nobody has looked at the clock"


def clocks(bench: Bench) -> Iterator[Trial]:
    """Let the clock go backwards during an experiment, and while one is gone on with."""
    with backwards():
        out = bench.out()
        yield compared("backwards from the start", bench.expected, bench.final(out))
    left = left_experiment(bench)
    with backwards():
        yield compared("backwards after a kill", bench.expected, bench.final(left))


def clocks_with_cadence(bench: Bench) -> Iterator[Trial]:
    """Let it go backwards where checkpoints are made by the clock."""
    out = bench.out()
    with backwards():
        bench.run(out, checkpoint_every="0.01s")
    yield compared("backwards, with checkpoints by the clock", bench.expected, bench.final(out))
