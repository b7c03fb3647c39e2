"""Progress of a run on stderr: a live bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from tfsm.cli.common import make_console, print_message
from tfsm.interfaces import Observer

if TYPE_CHECKING:
    from tfsm.evolution.observers import Progress
    from tfsm.settings import Settings


Item = TypeVar("Item")

LINE_SECONDS: Final = 10.0
RATE_SECONDS: Final = 15.0
"""How far back the rate looks."""


def make_progress(settings: Settings, *, quiet: bool, title: str | None = None) -> AbstractContextManager[Observer]:
    """Return an observer that shows progress in a form that suits stderr."""
    if quiet:
        return nullcontext(Observer())
    title = title or f"{settings.domain}, {settings.mutation}"
    return _ProgressBar(title) if sys.stderr.isatty() else _ProgressLines(title)


def show_progress(items: Sequence[Item], title: str) -> Iterable[Item]:
    """Return the items, and show a live bar on a terminal while they are consumed."""
    if not sys.stderr.isatty():
        return items
    from rich.progress import track

    return track(items, title, console=make_console(stderr=True), transient=True)


class _Reporter(Observer):
    """Measures the recent evaluations per second, without compile time."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._samples: list[tuple[float, int]] = []

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _rate(self, progress: Progress) -> float | None:
        now = time.monotonic()
        if progress.phase == "compiling" or progress.evaluations == 0:
            return None
        self._samples = [(time_, count) for time_, count in self._samples if now - time_ < RATE_SECONDS]
        self._samples.append((now, progress.evaluations))
        (first, count_then), (last, count) = self._samples[0], self._samples[-1]
        return (count - count_then) / (last - first) if last > first and count > count_then else None

    def _describe(self, progress: Progress) -> tuple[str, str, str]:
        rate = self._rate(progress)
        best = f"{progress.best_fitness:.4f}" if math.isfinite(progress.best_fitness) else "-"
        speed = f"{rate:,.0f}/s" if rate else "-"
        remaining = _format_duration((progress.budget - progress.evaluations) / rate) if rate else "-"
        return best, speed, remaining


class _ProgressLines(_Reporter):
    """Prints a line every `LINE_SECONDS`, and one at the end."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._last = -math.inf

    def __enter__(self) -> Self:
        print_message(f"{self._title}: starting TensorFlow")
        return self

    def on_progress(self, progress: Progress) -> None:
        best, speed, remaining = self._describe(progress)
        now = time.monotonic()
        if now - self._last < LINE_SECONDS and progress.finished < progress.runs:
            return
        self._last = now
        print_message(
            f"{self._title}: {progress.phase}, {progress.evaluations:,} evaluations, "
            f"{progress.solved} of {progress.runs} solved, best {best}, {speed}, at most {remaining} left"
        )


class _ProgressBar(_Reporter):
    """Shows a live bar."""

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[status]}"),
            console=make_console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(f"{self._title}: starting TensorFlow", total=None, status="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def on_progress(self, progress: Progress) -> None:
        best, speed, remaining = self._describe(progress)
        status = (
            f"{progress.evaluations:,} evals  {progress.solved}/{progress.runs} solved  best {best}  {speed}  "
            f"{remaining} left"
        )
        total = None if progress.phase == "compiling" else progress.budget
        title = self._title if progress.phase == "evolving" else f"{self._title}: {progress.phase}"
        self._bar.update(self._task, description=title, total=total, completed=progress.evaluations, status=status)


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
