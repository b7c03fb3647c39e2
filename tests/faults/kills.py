"""Kill -9 at any moment of a command."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.faults.bench import Bench
from tests.faults.lab import PAUSE, Lab, Process
from tests.faults.trial import Trial, compared

PHASES: Final = ("start", "evolving", "checkpoint", "end")
_STARTING: Final = 6.0
_EVOLVING: Final = 130 * PAUSE
_ENDING: Final = 0.3


def moments(count: int, seed: int = 0) -> list[tuple[str, float]]:
    """Draw phases of a command, and how far into them."""
    rng = random.Random(seed)
    shares = {"start": 0.2, "evolving": 0.4, "checkpoint": 0.2, "end": 0.2}
    phases = rng.choices(PHASES, [shares[phase] for phase in PHASES], k=count)
    return [(phase, rng.random()) for phase in phases]


def kills(lab: Lab, bench: Bench, wanted: list[tuple[str, float]], seed: int = 0) -> Iterator[Trial]:
    """Kill a command at each of these moments, sometimes again after it has gone on, and then let it come to its end.

    The end is by a command every fifth time, and in this process otherwise, which is faster.
    """
    rng = random.Random(seed)
    for number, (phase, how_far) in enumerate(wanted):
        out, times = lab.out(), 1
        kill(lab.begin(out), out, phase, how_far)
        while times < 3 and rng.random() < 0.3:
            times += 1
            kill(lab.begin(out), out, rng.choice(PHASES), rng.random())
        found, problems = lab.final(out) if number % 5 == 4 else (bench.final(out), [])
        yield compared(f"{phase} {how_far:.2f}, killed {times} times", bench.expected, found, problems)


def kill(process: Process, out: Path, phase: str, how_far: float) -> None:
    """Kill a process, in a phase of its life."""
    if phase == "start":
        time.sleep(how_far * _STARTING)
    elif phase == "evolving":
        before = _stamp(out / "run.json")
        process.wait_for(lambda: _stamp(out / "run.json") != before)
        time.sleep(how_far * _EVOLVING)
    elif phase == "checkpoint":
        # Wherever in the run it is: some of the drafts that are written.
        until = time.monotonic() + how_far * _EVOLVING
        process.wait_for(lambda: _drafts(out / "checkpoints") and time.monotonic() > until)
    else:
        champions = len(list(out.glob("champions/*.keras")))
        process.wait_for(lambda: len(list(out.glob("champions/*.keras"))) > min(champions, 2))
        time.sleep(how_far * _ENDING)
    process.kill()


def _stamp(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _drafts(folder: Path) -> bool:
    try:
        return any(file.name.startswith(".") for file in folder.iterdir())
    except OSError:
        return False
