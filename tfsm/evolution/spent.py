"""Runs that have spent their evaluations without a solution, as they stood before that was told.

Telling how an interval and a run ended begins a new interval. Somebody who later gets more evaluations goes on from
before that, as if there had been no end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfsm.evolution.saving import Apart, Rows
from tfsm.evolution.state import State

_TALLIES = "tallies."


@dataclass(frozen=True)
class Spent:
    """What telling the end of a run changes, as it was before."""

    apart: Apart
    standing: tuple[bool, float] | None
    """What was last told of its champion; None if nothing was."""
    tallies: Mapping[str, np.ndarray[Any, Any]]
    """What was counted since the last line of the log, by the names of the tables."""


def spent(state: State, lane: int, apart: Apart, standing: tuple[bool, float] | None) -> Spent:
    """Remember a run whose end will be told now."""
    tallies = {name: table.numpy()[lane] for name, table in state.tables().items() if name.startswith(_TALLIES)}
    return Spent(apart, standing, tallies)


def with_tallies(tables: Mapping[str, Rows], places: Sequence[Spent | None]) -> dict[str, Rows]:
    """Return tables `[L, ...]` in which the lanes of such runs have what was counted before their end was told."""

    def mended(name: str, rows: Rows) -> Rows:
        def row(place: int) -> np.ndarray[Any, Any]:
            own = places[place]
            return rows.row(place) if own is None else own.tallies[name]

        return replace(rows, row=row)

    return {name: mended(name, rows) if name.startswith(_TALLIES) else rows for name, rows in tables.items()}
