"""Order.log and replay.

    > 3 1017        run 3's number 1017 was handed out
    < 3 1017        it was settled
    ! 3 1017        it could not be made, and was settled as a broken one

Whoever is handed out a second time without having been settled got lost on the way the first time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from tfsm.errors import TfsmError
from tfsm.evolution.async_worker import ChildResult
from tfsm.utils.atomic import atomic_write

EventKind: TypeAlias = Literal[">", "<", "!"]
_KINDS: Final = (">", "<", "!")


class Event(NamedTuple):
    """Something that happened to an individual."""

    kind: EventKind
    run: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.run} {self.number}"


def parse_events(text: str, where: str = "events") -> list[Event]:
    r"""Understand a log; its last line is left out if it was torn off.

    >>> parse_events("> 3 1017\n< 3 1017\n> 3 10")
    [Event(kind='>', run=3, number=1017), Event(kind='<', run=3, number=1017)]
    """
    *lines, _ = text.split("\n")
    return [_parsed(line, f"{where}, line {place}") for place, line in enumerate(lines, 1)]


def read_events(file: Path) -> list[Event]:
    """Read a log."""
    try:
        # Bytes that are no text are no event either, wherever they come from.
        text = file.read_bytes().decode("ascii", errors="replace")
    except OSError as error:
        raise TfsmError(f"{file}: cannot be read: {error.strerror}") from None
    return parse_events(text, str(file))


def _parsed(line: str, where: str) -> Event:
    kind, *numbers = line.split(" ")
    if kind not in _KINDS or len(numbers) != 2 or not all(word.isascii() and word.isdigit() for word in numbers):
        raise TfsmError(f"{where}: {line!r} is no event: expected >, < or !, a run and a number, such as '> 3 1017'")
    return Event(cast(EventKind, kind), int(numbers[0]), int(numbers[1]))


def _run_of(line: bytes) -> bytes:
    words = line.split(b" ")
    return words[1] if len(words) == 3 else b""


class EventLog:
    """A file that events are appended to; called with each of them.

    Args:
        file: the file.
        keep: by run, the place up to which its events hold of those that are there already, as a checkpoint says;
            of a run that is not in it none does. None: all hold.
    """

    def __init__(self, file: Path, keep: Mapping[int, int] | None = None) -> None:
        content = file.read_bytes() if file.is_file() else b""
        there = content.splitlines(keepends=True)
        if there and not there[-1].endswith(b"\n"):
            del there[-1]
        if keep is not None:
            if len(there) < (most := max(keep.values(), default=0)):
                raise TfsmError(f"{file}: ends after {len(there)} events, and the checkpoint was made after {most}")
            holds = {str(run).encode(): until for run, until in keep.items()}
            there = [line for place, line in enumerate(there) if place < holds.get(_run_of(line), 0)]
        if content != (held := b"".join(there)):
            with atomic_write(file) as draft:
                draft.write_bytes(held)
        self.count = len(there)
        """How many events it began with."""
        self._file = file.open("ab")

    def __call__(self, event: Event) -> None:
        """Append an event."""
        self._file.write(f"{event}\n".encode())

    def flush(self) -> None:
        """Make sure that all of it is on the disk, as a checkpoint that counts on it needs."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class EventReplay:
    """A place in a log of events, and those who came before it was their turn.

    Args:
        events: the log.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self._events, self._settled = events, _settled(events)
        self._place = 0
        self._held: dict[tuple[int, int], ChildResult] = {}
        self.idle: set[tuple[int, int]] = set()
        """Who was handed out then and never came back, and is not made again for that."""

    @property
    def next(self) -> Event | None:
        """The next event; None after the last one."""
        return self._events[self._place] if self._place < len(self._events) else None

    @property
    def where(self) -> str:
        """Which event comes next, for a message."""
        return f"event {self._place + 1} of the log, '{self.next}'"

    def dispatch(self) -> bool:
        """Pass by the next event, which hands somebody out, and say whether that is worth anybody's while."""
        event, worth = self._events[self._place], self._settled[self._place]
        self._place += 1
        (self.idle.discard if worth else self.idle.add)((event.run, event.number))
        return worth

    def hold(self, bred: ChildResult) -> None:
        """Keep somebody until it is its turn."""
        self._held.setdefault((bred.run, bred.number), bred)

    def arrived(self) -> ChildResult | None:
        """Pass by the next event, which settles somebody, and return who that is; None: not there yet."""
        event = self._events[self._place]
        bred = self._held.pop((event.run, event.number), None)
        self._place += bred is not None
        return bred

    def broke(self) -> tuple[int, int]:
        """Pass by the next event, which settles somebody as broken, and return who that is."""
        event = self._events[self._place]
        self._place += 1
        self.idle.discard((event.run, event.number))
        return event.run, event.number

    def forget(self, run: int) -> None:
        """Forget whoever is held of a run that has ended."""
        self._held = {who: bred for who, bred in self._held.items() if who[0] != run}
        self.idle = {who for who in self.idle if who[0] != run}


def _settled(events: Sequence[Event]) -> list[bool]:
    """Say of each event whether somebody is handed out who was settled afterwards, made as it should be."""
    found, last = [False] * len(events), dict[tuple[int, int], int]()
    for place, (kind, run, number) in enumerate(events):
        if kind == ">":
            last[run, number] = place
        elif (handed := last.pop((run, number), None)) is not None:
            found[handed] = kind == "<"
    return found
