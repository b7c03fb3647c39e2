"""Timing: all sides in turns within one run, warm-up apart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from textwrap import shorten
from typing import TypeVar

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    quick: bool
    repetitions: int
    seconds: float
    """One repetition of one side lasts about this long."""
    most: float
    """A slow side gives up some of its repetitions, but never the first two, to stay below so many seconds."""

    @classmethod
    def of(cls, quick: bool) -> Effort:
        """Return the effort of a quick or a full run."""
        return cls(True, 3, 0.05, 1.0) if quick else cls(False, 5, 0.1, 2.0)


@dataclass(frozen=True)
class Timing:
    """The seconds of one call of one side, once for each repetition."""

    seconds: tuple[float, ...]
    calls: int
    """Calls in each repetition."""
    first: float
    """Seconds of the first call: tracing, compiling and one execution."""


@dataclass(frozen=True)
class Failure:
    """A side that does not work, and why."""

    reason: str


def interleave(sides: Mapping[Name, Call], effort: Effort) -> dict[Name, Timing | Failure]:
    """Time all sides in turns, A B A B and so on, so that whatever else the machine does disturbs all alike.

    Args:
        sides: functions that return when their work is done.
        effort: how long to measure.
    """
    found: dict[Name, Timing | Failure] = {}
    ready: dict[Name, tuple[float, int, int]] = {}
    for name, call in sides.items():
        try:
            first = clock(call)
            call()
        except Exception as error:  # a side may fail in any way; the others are still worth measuring
            found[name] = Failure(_reason(error))
            continue
        once = clock(call)
        calls = max(1, math.ceil(effort.seconds / max(once, 1e-7)))
        ready[name] = first, calls, max(2, min(effort.repetitions, int(effort.most / (once * calls))))
    samples: dict[Name, list[float]] = {name: [] for name in ready}
    for repetition in range(effort.repetitions):
        for name, (_, calls, repetitions) in ready.items():
            if repetition < repetitions:
                samples[name].append(clock(sides[name], calls))
    for name, (first, calls, _) in ready.items():
        found[name] = Timing(tuple(samples[name]), calls, first)
    return {name: found[name] for name in sides}


def needed(found: Mapping[str, Timing | Failure], name: str) -> Timing:
    """Return the timing of a side without which nothing can be said."""
    timing = found[name]
    if isinstance(timing, Failure):
        raise RuntimeError(f"{name} failed: {timing.reason}")
    return timing


def clock(call: Call, calls: int = 1) -> float:
    """Return the seconds of one call, the mean of so many in a row."""
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {shorten(text, 200, placeholder=' ...')}"
