"""The log of an asynchronous run (`order.log`), and its replay.

    > 3 1017        run 3's individual 1017 was dispatched
    < 3 1017        its result arrived
    ! 3 1017        it could not be made, and counts as broken

With `--offspring` these are batches, each named by its first individual. A batch that is dispatched a second time was
lost in flight the first time, or its result was not used: the budget had cut it off, and was raised later.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from tfsm.errors import TfsmError
from tfsm.evolution.async_worker import ChildResult
from tfsm.utils.files import atomic_write

EventKind: TypeAlias = Literal[">", "<", "!"]
_KINDS: Final = (">", "<", "!")


class Event(NamedTuple):
    """Something that happened to an individual."""

    kind: EventKind
    run: int
    number: int

    @property
    def key(self) -> tuple[int, int]:
        """Run and number."""
        return self.run, self.number

    def __str__(self) -> str:
        return f"{self.kind} {self.run} {self.number}"


def parse_events(text: str, where: str = "events") -> list[Event]:
    r"""Parse a log; its last line is left out if it is incomplete.

    >>> parse_events("> 3 1017\n< 3 1017\n> 3 10")
    [Event(kind='>', run=3, number=1017), Event(kind='<', run=3, number=1017)]
    """
    *lines, _ = text.split("\n")
    return [_parse_line(line, f"{where}, line {number}") for number, line in enumerate(lines, 1)]


def read_events(file: Path) -> list[Event]:
    """Read a log."""
    try:
        # Bytes that are not text are not an event either.
        text = file.read_bytes().decode("ascii", errors="replace")
    except OSError as error:
        raise TfsmError(f"{file}: cannot be read: {error.strerror}") from None
    return parse_events(text, str(file))


def _parse_line(line: str, where: str) -> Event:
    kind, *numbers = line.split(" ")
    if kind not in _KINDS or len(numbers) != 2 or not all(word.isascii() and word.isdigit() for word in numbers):
        raise TfsmError(
            f"{where}: {line!r} is not an event: expected >, < or !, a run and a number, such as '> 3 1017'"
        )
    return Event(cast(EventKind, kind), int(numbers[0]), int(numbers[1]))


def _run_of(line: bytes) -> bytes:
    words = line.split(b" ")
    return words[1] if len(words) == 3 else b""


class EventLog:
    """A file that events are appended to; call it with each event.

    Args:
        file: the file.
        keep: by run, the number of lines of the existing file before which its events are kept, as a checkpoint says;
            no events of other runs are kept. None: all are kept.
    """

    def __init__(self, file: Path, keep: Mapping[int, int] | None = None) -> None:
        content = file.read_bytes() if file.is_file() else b""
        lines = content.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            del lines[-1]
        if keep is not None:
            if len(lines) < (needed := max(keep.values(), default=0)):
                raise TfsmError(f"{file}: ends after {len(lines)} events, but the checkpoint was made after {needed}")
            bounds = {str(run).encode(): bound for run, bound in keep.items()}
            lines = [line for index, line in enumerate(lines) if index < bounds.get(_run_of(line), 0)]
        if content != (kept := b"".join(lines)):
            with atomic_write(file) as temporary:
                temporary.write_bytes(kept)
        self.count = len(lines)
        """Number of events that it started with."""
        self._file = file.open("ab")

    def __call__(self, event: Event) -> None:
        """Append an event."""
        self._file.write(f"{event}\n".encode())

    def flush(self) -> None:
        """Write everything to the disk: a checkpoint relies on it."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write the rest, and close the file."""
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class EventReplay:
    """A position in a log of events, and the results that came before their turn.

    Args:
        events: the log.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        last = {event.key: index for index, event in enumerate(events) if event.kind == ">"}
        # Results of batches that were dispatched again later were not used.
        events = [event for i, event in enumerate(events) if event.kind == ">" or i > last.get(event.key, -1)]
        self._events, self._was_made = events, _find_made(events)
        self._ends = _find_ends(events)
        self._index = 0
        self._held: dict[tuple[int, int], ChildResult] = {}
        self.idle: set[tuple[int, int]] = set()
        """Individuals that were dispatched and never arrived: the replay does not make them again."""

    @property
    def next(self) -> Event | None:
        """The next event; None after the last one."""
        return self._events[self._index] if self._index < len(self._events) else None

    @property
    def position(self) -> str:
        """The next event, for a message."""
        return f"event {self._index + 1} of the log, '{self.next}'"

    @property
    def most(self) -> int | None:
        """How many individuals the next event dispatches at most; None if the log does not say."""
        event = self._events[self._index]
        end = self._ends.get(event.key)
        return None if end is None else end - event.number

    def dispatch(self) -> bool:
        """Pass the next event, which dispatches a batch, and return whether it has to be made."""
        event, was_made = self._events[self._index], self._was_made[self._index]
        self._index += 1
        (self.idle.discard if was_made else self.idle.add)(event.key)
        return was_made

    def hold(self, result: ChildResult) -> None:
        """Keep a result until it is its turn."""
        self._held.setdefault(result.key, result)

    def take_result(self) -> ChildResult | None:
        """Pass the next event, which tells a result, and return this; None, without passing, if it is not there yet."""
        result = self._held.pop(self._events[self._index].key, None)
        self._index += result is not None
        return result

    def take_broken(self) -> tuple[int, int]:
        """Pass the next event, which tells a broken individual, and return its run and number."""
        event = self._events[self._index]
        self._index += 1
        self.idle.discard(event.key)
        return event.key

    def forget(self, run: int) -> None:
        """Forget the held results of a run that has ended."""
        self._held = {key: result for key, result in self._held.items() if key[0] != run}
        self.idle = {key for key in self.idle if key[0] != run}


def _find_ends(events: Sequence[Event]) -> dict[tuple[int, int], int]:
    """Return, by batch, the first number of the following batch of its run; without the last batch of each run."""
    numbers = sorted({event.key for event in events if event.kind == ">"})
    return {first: following[1] for first, following in pairwise(numbers) if first[0] == following[0]}


def _find_made(events: Sequence[Event]) -> list[bool]:
    """Return for each event whether it dispatches an individual that was made and evaluated afterwards."""
    was_made, last = [False] * len(events), dict[tuple[int, int], int]()
    for index, event in enumerate(events):
        if event.kind == ">":
            last[event.key] = index
        elif (dispatched := last.pop(event.key, None)) is not None:
            was_made[dispatched] = event.kind == "<"
    return was_made
