"""What run directories and studies tell of themselves, looked at before anything is made of it.

They are files on a disk: a crash, an editor or another program may have left anything in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NotRequired

from annotated_types import Ge, Lt
from typing_extensions import TypedDict

from tfsm.errors import TfsmError
from tfsm.experiments.record import METRICS, RECORD, STUDY, read_metrics, read_record, read_study

Count = Annotated[int, Ge(0), Lt(2**63)]


class _Run(TypedDict):
    run: Count
    solved: bool
    evaluations: Count
    best_fitness: float | None


class _Settings(TypedDict):
    domain: str
    mutation: str
    evaluations: Count
    runs: NotRequired[Count]


class _Record(TypedDict):
    status: str
    settings: _Settings
    runs: list[_Run]
    command: NotRequired[list[str]]
    started: NotRequired[str | None]
    ended: NotRequired[str | None]
    inputs: NotRequired[dict[str, str]]


class _Member(TypedDict):
    name: str
    directory: str


class _Study(TypedDict):
    members: list[_Member]
    kind: NotRequired[str]
    domain: NotRequired[str]
    status: NotRequired[str]
    commands: NotRequired[list[list[str]]]
    started: NotRequired[str | None]
    ended: NotRequired[str | None]
    scale: NotRequired[float]


class _Line(TypedDict):
    run: Count
    evaluations: Count
    best_fitness: float | None


def checked_record(directory: Path) -> dict[str, Any]:
    """Return what a run directory says of itself; what a run would not have written is an error that names it."""
    record = read_record(directory)
    _check(_Record, record, f"{directory / RECORD}: not the record of a run")
    return record


def checked_study(directory: Path) -> dict[str, Any]:
    """Return what a study says of itself; what no study would have written is an error that names it."""
    record = read_study(directory)
    _check(_Study, record, f"{directory / STUDY}: not the record of a study")
    return record


def checked_metrics(directory: Path) -> tuple[dict[str, Any], ...]:
    """Return what was logged; a line that no run would have written is an error that names it."""
    file = directory / METRICS
    try:
        lines = tuple(read_metrics(directory))
    except RecursionError:
        raise TfsmError(f"{file}: not valid JSON: nested without end") from None
    for number, line in enumerate(lines, start=1):
        _check(_Line, line, f"{file}, line {number}: not what a run logs")
    return lines


def _check(kind: type, value: Mapping[str, Any], where: str) -> None:
    from pydantic import ValidationError

    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise TfsmError(f"{where}: {f'{place}: ' if place else ''}{first['msg'].lower()}") from None


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
