"""Where a group of runs stands, as header and tables of a container, and back."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from tfsm.evolution.container import Damaged, dump, load, load_file
from tfsm.evolution.records import RunResult
from tfsm.evolution.saving import Apart, Rows, Saved
from tfsm.files import whole

_CHAMPIONS = "results.champion"


def write_saved(file: Path, saved: Saved, about: Mapping[str, Any]) -> None:
    """Write it to a file, as a whole or not at all.

    Args:
        file: the file.
        saved: where a group stands.
        about: what else the header says, such as which experiment it belongs to.
    """
    with whole(file) as draft, draft.open("wb") as opened:
        dump(opened, _header(saved, about), _tables(saved))


def read_saved(file: Path) -> tuple[Saved, dict[str, Any]]:
    """Return what is in a file, and what else its header says; `Damaged` if it is not whole."""
    return _unpacked(*load_file(file), str(file))


def packed(saved: Saved, about: Mapping[str, Any]) -> bytes:
    """Return it as bytes, to be sent."""
    buffer = io.BytesIO()
    dump(buffer, _header(saved, about), _tables(saved))
    return buffer.getvalue()


def unpacked(content: bytes) -> tuple[Saved, dict[str, Any]]:
    """Return what was sent."""
    return _unpacked(*load(content, "what was sent"), "what was sent")


def _header(saved: Saved, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "about": about,
        "first": saved.first,
        "count": saved.count,
        "spent": saved.spent,
        # Not the summary, which has no infinities.
        "results": [
            [r.run, r.seed, r.solved, r.evaluations, r.best_fitness, r.champion_fitness] for r in saved.results
        ],
        "standing": [[run, solved, fitness] for run, (solved, fitness) in saved.standing.items()],
        "apart": [[run, *astuple(own)] for run, own in saved.apart.items()],
        "events": saved.events,
    }


def _apart(away: Iterable[Any], *counts: Any) -> Apart:
    return Apart(tuple(int(number) for number in away), *(int(count) for count in counts))


def _tables(saved: Saved) -> dict[str, Rows]:
    champions = [result.champion for result in saved.results]
    if not champions:
        return dict(saved.tables)
    first = champions[0]
    return {**saved.tables, _CHAMPIONS: Rows(first.dtype, (len(champions), *first.shape), lambda i: champions[i])}


def _unpacked(header: dict[str, Any], tables: dict[str, Rows], where: str) -> tuple[Saved, dict[str, Any]]:
    try:
        champions = [np.array(row) for row in tables.pop(_CHAMPIONS, ())]
        results = [
            RunResult(int(run), int(seed), bool(solved), int(spent), float(best), float(own), champion)
            for (run, seed, solved, spent, best, own), champion in zip(header["results"], champions, strict=True)
        ]
        saved = Saved(
            first=int(header["first"]),
            count=int(header["count"]),
            spent=int(header["spent"]),
            results=tuple(results),
            standing={int(run): (bool(solved), float(fitness)) for run, solved, fitness in header["standing"]},
            tables=tables,
            # Older files have neither.
            apart={int(run): _apart(*own) for run, *own in header.get("apart", ())},
            events=int(header.get("events", 0)),
        )
        if any(rows.shape[0] != len(saved.going) for rows in tables.values()):
            raise ValueError("tables of other runs")
        return saved, dict(header["about"])
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{where}: not a checkpoint of tfsm: {error}") from None
