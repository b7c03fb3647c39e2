"""A group of runs at some point: enough to go on from there as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.records import RunResult
from tfsm.evolution.state import State


@dataclass(frozen=True)
class Rows:
    """A table of which a row is looked at when it is needed: a state may be as large as the memory."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    """`[L, ...]`, of `L` lanes."""
    row: Callable[[int], np.ndarray]
    """From a place among the lanes to its row."""

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self.row(place) for place in range(self.shape[0]))

    def some(self, places: Sequence[int]) -> Rows:
        """Return some of the rows."""
        return Rows(self.dtype, (len(places), *self.shape[1:]), lambda place: self.row(places[place]))


@dataclass(frozen=True)
class Apart:
    """What else there is to know of a run that is not in step with the others."""

    away: tuple[int, ...] = ()
    """The numbers of those who were on their way: to be handed out again."""
    children: int = 0
    """Settled in the logging interval that has begun."""
    stale: int = 0
    """The sum of their staleness."""
    most: int = 0
    """The greatest of it."""
    failed: int = 0
    """How many could not be made."""


@dataclass(frozen=True)
class Saved:
    """Where a group of runs stands, between two steps."""

    first: int
    """The run in lane 0."""
    count: int
    """How many runs."""
    spent: int
    """Evaluations of each run that has not ended; of the one with the most, where they are not in step."""
    results: tuple[RunResult, ...] = ()
    """How those ended that have."""
    standing: Mapping[int, tuple[bool, float]] = field(default_factory=dict)
    """What was last told of each run's champion."""
    tables: Mapping[str, Rows] = field(default_factory=dict, repr=False)
    """What the others remember, by name: `[L, ...]`, in the order of `going`."""
    apart: Mapping[int, Apart] = field(default_factory=dict)
    """What else there is to know of each of those, where they are not in step."""
    events: int = 0
    """How many events there were before, where these are logged."""

    @property
    def runs(self) -> range:
        """The numbers of the runs."""
        return range(self.first, self.first + self.count)

    @property
    def number(self) -> int:
        """A number that only ever grows as these runs go on."""
        return self.events or self.spent

    @property
    def going(self) -> list[int]:
        """The runs that have not ended."""
        ended = {result.run for result in self.results}
        return [run for run in self.runs if run not in ended]

    @property
    def settled(self) -> dict[int, int]:
        """Evaluations of each run that has not ended."""
        own = self.tables.get("evaluations") if self.apart else None
        return {run: self.spent if own is None else int(own.row(place)) for place, run in enumerate(self.going)}

    def part(self, runs: range) -> Saved:
        """Return what it says of some of the runs, which follow one another."""
        places = [place for place, run in enumerate(self.going) if run in runs]
        return replace(
            self,
            first=runs.start,
            count=len(runs),
            results=tuple(result for result in self.results if result.run in runs),
            standing={run: told for run, told in self.standing.items() if run in runs},
            tables={name: rows.some(places) for name, rows in self.tables.items()},
            apart={run: own for run, own in self.apart.items() if run in runs},
        )


class Checkpoints(Protocol):
    """Who is given what is worth keeping, when it is time."""

    def bound(self, spent: int) -> int:
        """Return the number of evaluations, above `spent`, at which to look again at the latest."""
        ...

    def due(self, spent: int) -> bool:
        """Say whether it is time."""
        ...

    def keep(self, saved: Saved, *, last: bool = False) -> None:
        """Keep it, `last` where the group has come to its end; what fails here must not cost the run."""
        ...


def tables_of(state: State, lanes: Sequence[int]) -> dict[str, Rows]:
    """Return what a state remembers of some lanes; valid until the next step."""

    def rows(table: tf.Variable) -> Rows:
        shape = (len(lanes), *table.shape[1:])
        return Rows(
            np.dtype(table.dtype.as_numpy_dtype), shape, lambda place: table.gather_nd([[lanes[place]]]).numpy()[0]
        )

    return {name: rows(table) for name, table in state.tables().items()}


def restore(state: State, tables: Mapping[str, Rows], lanes: Sequence[int]) -> None:
    """Let lanes of a state, cleared before, remember what was saved; what does not fit is an error."""
    own = state.tables()
    for name in {*own, *tables}:
        had = (tables[name].dtype, tables[name].shape[1:]) if name in tables else "nothing"
        wants = (np.dtype(own[name].dtype.as_numpy_dtype), tuple(own[name].shape[1:])) if name in own else "nothing"
        if had != wants:
            raise TfsmError(f"what was saved does not fit: of {name} there is {had}, and {wants} is needed")
    for name, rows in tables.items():
        for lane, row in zip(lanes, rows, strict=True):
            own[name].scatter_nd_update([[lane]], row[None])
