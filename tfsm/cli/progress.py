"""Progress of a run on stderr: a live bar on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import math
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tfsm.cli.common import err, say
from tfsm.interfaces import Observer

if TYPE_CHECKING:
    from tfsm.evolution.observers import Progress
    from tfsm.settings import Settings


LINE_SECONDS = 10.0


def progress_of(settings: Settings, *, quiet: bool, title: str | None = None) -> AbstractContextManager[Observer]:
    """Return an observer that shows progress in the way that fits where stderr goes."""
    if quiet:
        return nullcontext(Observer())
    title = title or f"{settings.domain}, {settings.mutation}"
    return _Bar(title) if sys.stderr.isatty() else _Lines(title)


class _Shown(Observer):
    """Counts evaluations per second over the last while, compile time left out."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._marks: list[tuple[float, int]] = []

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _rate(self, progress: Progress) -> float | None:
        now = time.monotonic()
        if progress.phase == "compiling" or progress.evaluations == 0:
            return None
        self._marks = [(when, count) for when, count in self._marks if now - when < 15.0]
        self._marks.append((now, progress.evaluations))
        (first, before), (last, count) = self._marks[0], self._marks[-1]
        return (count - before) / (last - first) if last > first and count > before else None

    def _words(self, progress: Progress) -> tuple[str, str, str]:
        rate = self._rate(progress)
        best = f"{progress.best_fitness:.4f}" if math.isfinite(progress.best_fitness) else "-"
        speed = f"{rate:,.0f}/s" if rate else "-"
        left = _clock((progress.budget - progress.evaluations) / rate) if rate else "-"
        return best, speed, left


class _Lines(_Shown):
    """Prints a line now and then."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self._last = -math.inf

    def __enter__(self) -> Self:
        say(f"{self._title}: starting TensorFlow")
        return self

    def on_progress(self, progress: Progress) -> None:
        best, speed, left = self._words(progress)
        now = time.monotonic()
        over = progress.finished == progress.runs
        if now - self._last < LINE_SECONDS and not over:
            return
        self._last = now
        say(
            f"{self._title}: {progress.phase}, {progress.evaluations:,} evaluations, "
            f"{progress.solved} of {progress.runs} solved, best {best}, {speed}, at most {left} left"
        )


class _Bar(_Shown):
    """Shows a live bar."""

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[words]}"),
            console=err(),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(f"{self._title}: starting TensorFlow", total=None, words="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def on_progress(self, progress: Progress) -> None:
        best, speed, left = self._words(progress)
        words = (
            f"{progress.evaluations:,} evals  {progress.solved}/{progress.runs} solved  best {best}  {speed}  "
            f"{left} left"
        )
        known = None if progress.phase == "compiling" else progress.budget
        title = self._title if progress.phase == "evolving" else f"{self._title}: {progress.phase}"
        self._bar.update(self._task, description=title, total=known, completed=progress.evaluations, words=words)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
