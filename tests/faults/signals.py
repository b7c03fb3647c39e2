"""Requests to end: Ctrl-C, twice if need be, and what a system sends before it shuts down."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Final

from tests.faults.bench import Bench
from tests.faults.lab import Lab
from tests.faults.trial import Trial, compared

INTERRUPTED: Final = 130
WAYS: Final = {
    "SIGINT": [signal.SIGINT],
    "SIGTERM": [signal.SIGTERM],
    "SIGINT twice": [signal.SIGINT, signal.SIGINT],
}


def signals(lab: Lab, bench: Bench, ways: Iterator[str] | list[str], *, by_command: bool = True) -> Iterator[Trial]:
    """Send signals to a command that is evolving, then let it come to its end: by a command, or in this process."""
    for way in ways:
        out = lab.out()
        process = lab.begin(out, FRAGILE_PAUSE="0.03")
        process.wait_for(lambda out=out: len(list(out.glob("checkpoints/*.checkpoint"))) == 2)
        for number, one in enumerate(WAYS[way]):
            if number:
                process.wait_for(lambda process=process: "once more" in process.err)
            process.signal(one)
        ended = process.end()
        problems = list(ended.problems)
        if ended.code != INTERRUPTED:
            problems.append(f"exit code {ended.code}")
        status = json.loads((out / "run.json").read_text())["status"]
        if status != "interrupted":
            problems.append(f"its status is {status}")
        if len(WAYS[way]) == 1 and f"resume with: tfsm run --resume {out}" not in ended.err:
            problems.append(f"it does not say how to go on: {ended.err}")
        found, wrong = lab.final(out) if by_command else (bench.final(out), [])
        yield compared(way, bench.expected, found, problems + wrong)
