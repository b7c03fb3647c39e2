"""Handing out and settling in an order that was once recorded, however many workers there are now."""

from __future__ import annotations

from collections.abc import Sequence

from tfsm.evolution.events import Event
from tfsm.evolution.orders import Bred


class Replay:
    """A place in a log of events, and those who came before it was their turn.

    Args:
        events: the log.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self._events, self._settled = events, _settled(events)
        self._place = 0
        self._held: dict[tuple[int, int], Bred] = {}
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

    def hand_out(self) -> bool:
        """Pass by the next event, which hands somebody out, and say whether that is worth anybody's while."""
        event, worth = self._events[self._place], self._settled[self._place]
        self._place += 1
        (self.idle.discard if worth else self.idle.add)((event.run, event.number))
        return worth

    def hold(self, bred: Bred) -> None:
        """Keep somebody until it is its turn."""
        self._held.setdefault((bred.run, bred.number), bred)

    def arrived(self) -> Bred | None:
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
