"""Progress on stderr: a live bar with rate and remaining time on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias, TypeVar

from tfsm.cli.common import make_console, print_message
from tfsm.interfaces import Observer
from tfsm.report.formatting import MISSING, RateMeter, format_duration, format_rate

if TYPE_CHECKING:
    from tfsm.evolution.observers import Progress
    from tfsm.settings import Settings


Item = TypeVar("Item")
StepsCallback: TypeAlias = Callable[[int, int | None, str], None]
"""Called with the number of steps done, their number if it is known, and what is done next."""

LINE_SECONDS: Final = 10.0
BAR_WIDTH: Final = 20
MAX_TITLE, MAX_NARROW_TITLE = 30, 17
WIDE: Final = 110
"""Columns of a terminal on which the number of evaluations fits beside the rest."""


def make_progress(settings: Settings, *, quiet: bool, title: str | None = None) -> AbstractContextManager[Observer]:
    """Return an observer that shows the progress of runs in a form that suits stderr."""
    if quiet:
        return nullcontext(Observer())
    title = title or f"{settings.domain}, {settings.mutation}"
    return _RunProgress(title, _make_display(of_runs=True))


@contextmanager
def show_steps(title: str, *, quiet: bool) -> Iterator[StepsCallback]:
    """Show the progress of a computation in steps, while the context is entered.

    Args:
        title: what is computed.
        quiet: show nothing.
    """
    if quiet:
        yield lambda done, total, description: None
        return
    meter, began = RateMeter(), time.monotonic()

    def update(done: int, total: int | None, description: str) -> None:
        now = time.monotonic()
        rate = meter.add(now, done)
        if done and done == total:
            rate = done / max(now - began, 1e-9)  # of the whole: the last step may include closing a file
        what = f"{title}: {description}" if description else title
        counts = f"{done:,}/{total:,}" if total is not None else f"{done:,}" if done else ""
        speed = f"{format_rate(rate)}/s" if rate else ""
        left = f"{format_duration((total - done) / rate)} left" if rate and total is not None else ""
        known = [part for part in (counts, speed, left) if part]
        display.show(what, done, total, ": ".join([what, ", ".join(known)] if known else [what]), "  ".join(known))

    with _make_display() as display:
        display.show(title, 0, None, title, "")
        yield update


def show_progress(items: Sequence[Item], title: str, *, quiet: bool = False) -> Iterator[Item]:
    """Yield the items, and show how many of them are done."""
    with show_steps(title, quiet=quiet) as update:
        for done, item in enumerate(items):
            update(done, len(items), "")
            yield item


class _Display(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, title: str, done: int, total: int | None, line: str, status: str, *, always: bool = False) -> None:
        """Show a state: as a bar with a title and a status, or as a line, of which some are left out."""

    @property
    def is_narrow(self) -> bool:
        """Whether there is little space."""


def _make_display(*, of_runs: bool = False) -> _Display:
    # Runs take long: their first line is printed at once, and their status needs more space.
    return _Bar(long_status=of_runs) if sys.stderr.isatty() else _Lines(delay=0.0 if of_runs else LINE_SECONDS)


class _RunProgress(Observer):
    """Shows the state of all runs, with the recent evaluations per second, without compile time."""

    def __init__(self, title: str, display: _Display) -> None:
        self._title, self._display = title, display
        self._meter = RateMeter()

    def __enter__(self) -> Self:
        self._display.__enter__()
        title = f"{self._title}: starting TensorFlow"
        self._display.show(title, 0, None, title, "", always=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, value, trace)

    def on_progress(self, progress: Progress) -> None:
        evaluations, phase = progress.evaluations, progress.phase
        rate = self._meter.add(time.monotonic(), evaluations) if phase != "compiling" and evaluations else None
        best = f"{progress.best_fitness:.4f}" if math.isfinite(progress.best_fitness) else MISSING
        speed = f"{format_rate(rate)}/s" if rate else MISSING
        left = format_duration((progress.budget - evaluations) / rate) if rate else MISSING
        line = (
            f"{self._title}: {phase}, {evaluations:,} evaluations, "
            f"{progress.solved} of {progress.runs} solved, best {best}, {speed}, at most {left} left"
        )
        count = "" if self._display.is_narrow else f"{evaluations:,} evals  "
        status = f"{count}{progress.solved}/{progress.runs} solved  best {best}  {speed}  {left} left"
        title = self._title if phase == "evolving" else f"{self._title}: {phase}"
        total = None if phase == "compiling" else progress.budget
        self._display.show(title, evaluations, total, line, status, always=progress.finished >= progress.runs)


class _Lines:
    """Prints a line every `LINE_SECONDS`; nothing about a computation that takes less."""

    is_narrow = False

    def __init__(self, delay: float) -> None:
        self._delay = delay

    def __enter__(self) -> Self:
        self._next = time.monotonic() + self._delay
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, title: str, done: int, total: int | None, line: str, status: str, *, always: bool = False) -> None:
        now = time.monotonic()
        if always:
            print_message(line)
        elif now >= self._next:
            print_message(line)
            self._next = now + LINE_SECONDS


class _Bar:
    """Shows a live bar that fits the terminal, and disappears at the end."""

    def __init__(self, long_status: bool) -> None:
        self._long_status = long_status

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
        from rich.table import Column

        console = make_console(stderr=True)
        self.is_narrow = console.width < WIDE
        width = MAX_NARROW_TITLE if self.is_narrow and self._long_status else MAX_TITLE
        title = Column(no_wrap=True, overflow="ellipsis", max_width=width)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=title),
            BarColumn(bar_width=None, table_column=Column(min_width=4, max_width=BAR_WIDTH)),
            TextColumn("{task.fields[status]}", markup=False, table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            redirect_stdout=False,
        )
        self._progress.start()
        self._task = self._progress.add_task("", total=None, status="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, title: str, done: int, total: int | None, line: str, status: str, *, always: bool = False) -> None:
        self._progress.update(self._task, description=title, total=total, completed=done, status=status)
