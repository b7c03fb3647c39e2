"""What run directories are made of, as far as it can be read without TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.files import whole

RECORD: Final = "run.json"
METRICS: Final = "metrics.jsonl"
STUDY: Final = "study.json"
ORDER: Final = "order.log"
BEHAVIOR: Final = "behavior"


def behavior_file(directory: Path, run: int) -> Path:
    """Return where it is kept what a run's populations did, if the domain names that or the scheme needs it."""
    return directory / BEHAVIOR / f"run-{run:03d}.npz"


def now() -> str:
    """Return the time, as records tell it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_text(file: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all."""
    with whole(file) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record, as a whole or not at all."""
    write_text(file, json.dumps(record, indent=2) + "\n")


def read_record(directory: Path) -> dict[str, Any]:
    """Return what a run directory says of itself."""
    file = directory / RECORD
    if not file.is_file():
        what = "no such directory" if not directory.is_dir() else f"no run directory, it has no {RECORD}"
        raise TfsmError(f"{directory}: {what}")
    record = read_json(file)
    for key, kind in (("settings", dict), ("runs", list), ("status", str)):
        if not isinstance(record.get(key), kind):
            raise TfsmError(f"{file}: not the record of a run: no {key!r}")
    return record


def read_study(directory: Path) -> dict[str, Any]:
    """Return what a directory of several run directories says of itself."""
    file = directory / STUDY
    record = read_json(file)
    members = record.get("members")
    if not isinstance(members, list) or not all(
        isinstance(m, dict) and {"name", "directory"} <= m.keys() for m in members
    ):
        raise TfsmError(f"{file}: not the record of a study: no list of members")
    return record


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a file; anything else is an error that says so."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise TfsmError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise TfsmError(f"{file}: not valid JSON: {error}") from None
    if not isinstance(record, dict):
        raise TfsmError(f"{file}: expected an object, got {type(record).__name__}")
    return record


def read_metrics(directory: Path) -> Iterator[dict[str, Any]]:
    """Return what was logged, line by line; a last line that was never finished is left out."""
    file = directory / METRICS
    if not file.is_file():
        return
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TfsmError(f"{file}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        try:
            metrics = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                return
            raise TfsmError(f"{file}, line {number}: not valid JSON: {error}") from None
        yield metrics
