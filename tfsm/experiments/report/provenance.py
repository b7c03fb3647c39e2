"""Where the numbers of a report come from: which runs, how they ended, and what was typed to make them."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta
from typing import Any

from tfsm.experiments.outcomes import Method, Study
from tfsm.experiments.report.tables import Table
from tfsm.experiments.report.words import NOTHING, listed


def warnings_of(study: Study) -> list[str]:
    """Return what must be known before a number is believed."""
    said = []
    unfinished = [method for method in study.methods if not _is_finished(method)]
    if unfinished:
        which = listed([f"{method.name} ({_status(method)}, {_ended(method)} runs ended)" for method in unfinished])
        said.append(f"Unfinished: {which}. What is told here may change.")
    for scale in dict.fromkeys(_scale(method) for method in study.methods):
        if scale is not None:
            which = listed([method.name for method in study.methods if _scale(method) == scale])
            said.append(
                f"Scaled down (scale {scale}): {which}. Runs are fewer or shorter than in the experiment that they "
                "stand for, and nothing told here is a result of that."
            )
    budgets = {method.budget for method in study.methods}
    if len(budgets) > 1:
        said.append(
            "The methods had different budgets; how many runs each solved in the end cannot be compared fairly. "
            f"Give --at {min(budgets)} to compare within the smallest."
        )
    return said


def runs_table(study: Study) -> Table:
    """Return which runs there are, and how they ended."""
    return Table(
        "Which runs the report is made of",
        ("method", "runs ended", "budget", "seed", "status", "started", "took", "directory"),
        tuple(
            (
                method.name,
                _ended(method),
                f"{method.budget:,}",
                str(method.record.get("seed", NOTHING)),
                _status(method),
                _started(method),
                _took(method),
                NOTHING if method.directory is None else str(method.directory),
            )
            for method in study.methods
        ),
        numeric=frozenset({1, 2, 3}),
        notes=("Budget: the most evaluations of one run. Started: in UTC.",),
    )


def commands(study: Study) -> list[str]:
    """Return the command lines, each once."""
    typed = [method.record.get("command") for method in study.methods]
    lines = [shlex.join(map(str, words)) for words in typed if isinstance(words, list) and words]
    return list(dict.fromkeys(lines))


def versions(study: Study) -> list[tuple[str, str]]:
    """Return which versions computed it; several if methods were run with different ones."""
    found: dict[str, dict[str, None]] = {}
    for method in study.methods:
        told = method.record.get("versions")
        for package, version in told.items() if isinstance(told, dict) else ():
            found.setdefault(str(package), {})[str(version)] = None
    return [(package, " and ".join(known)) for package, known in found.items()]


def asked(method: Method) -> int:
    """Return how many runs there should be."""
    runs = method.settings.get("runs")
    return runs if isinstance(runs, int) else len(method.outcomes)


def _is_finished(method: Method) -> bool:
    # Records made by hand may have no status; what they hold is all there is.
    return method.record.get("status", "finished") == "finished" and len(method.outcomes) >= asked(method)


def _status(method: Method) -> str:
    return str(method.record.get("status", "unknown"))


def _ended(method: Method) -> str:
    return f"{len(method.outcomes)} of {asked(method)}"


def _scale(method: Method) -> str | None:
    scale: Any = method.record.get("scale")
    return None if scale is None or scale == 1 or scale is False else str(scale)


def _started(method: Method) -> str:
    try:
        return f"{datetime.fromisoformat(method.record['started']):%Y-%m-%d %H:%M}"
    except (KeyError, TypeError, ValueError):
        return NOTHING


def _took(method: Method) -> str:
    try:
        began, ended = (datetime.fromisoformat(method.record[key]) for key in ("started", "ended"))
        return str(timedelta(seconds=round((ended - began).total_seconds())))
    except (KeyError, TypeError, ValueError):
        return NOTHING
