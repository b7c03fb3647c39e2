"""List run directories and studies below a folder, summarize them, and remove them safely."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.runs.records import LOCK, METRICS, ORDER, RECORD, STUDY, is_locked, read_valid_record, read_valid_study
from tfsm.utils.files import is_backup, is_temporary

OWN_NAMES: Final = {
    LOCK,
    "checkpoints",
    ORDER,
    RECORD,
    METRICS,
    STUDY,
    "champions",
    "behavior",
    "inputs",
    "robustness",
    "tensorboard",
    "summary",
    "figures",
    "tfsm.toml",
}
"""The names of files and folders that tfsm writes to a run directory or study."""


@dataclass(frozen=True)
class DirectorySummary:
    """A summary of a run directory or study."""

    directory: Path
    kind: str
    """`run`, `compare`, `sweep` or `reproduce`; `damaged` if its record cannot be read."""
    domain: str
    methods: tuple[str, ...]
    status: str
    solved: int
    runs: int
    evaluations: int
    """Maximum evaluations per run."""
    started: str
    size: int
    """Bytes on disk."""
    problem: str = ""


def list_directories(top: Path) -> list[DirectorySummary]:
    """Summarize all run directories and studies below a folder, newest first; those within a study are part of it."""
    if not top.is_dir():
        raise TfsmError(f"{top}: no such directory")
    return sorted(
        (summarize_directory(path) for path in find_directories(top)),
        key=lambda item: (item.started, str(item.directory)),
        reverse=True,
    )


def summarize_directory(directory: Path) -> DirectorySummary:
    """Summarize a run directory or study; a damaged one is marked as such."""
    size = _size(directory)
    try:
        if (directory / STUDY).is_file():
            return _summarize_study(directory, size)
        record = read_valid_record(directory)
        return DirectorySummary(
            directory, "run", *_summarize_run(record, directory), str(record.get("started") or ""), size
        )
    except TfsmError as error:
        return DirectorySummary(directory, "damaged", "-", (), "damaged", 0, 0, 0, "", size, str(error))


def remove(directory: Path, *, force: bool) -> None:
    """Remove a run directory or study; raise a `TfsmError` if it is neither, is in use or has other files."""
    if not is_run_or_study(directory):
        raise TfsmError(f"{directory}: neither a run directory nor a study; not removed")
    if is_locked(directory) and not force:
        raise TfsmError(f"{directory}: in use by another process; use --force to remove it anyway")
    # With --force not even looked for: a damaged record does not say what belongs to it.
    foreign = [] if force else sorted(str(path.relative_to(directory)) for path in _find_foreign_files(directory))
    if foreign:
        raise TfsmError(f"{directory}: contains other files ({', '.join(foreign[:3])}); use --force to remove them too")
    try:
        shutil.rmtree(directory)
    except OSError as error:
        raise TfsmError(f"{directory}: cannot be removed: {error.strerror}") from None


def is_run_or_study(directory: Path) -> bool:
    """Say whether a directory is a run directory or a study."""
    return (
        directory.is_dir()
        and not directory.is_symlink()
        and any((directory / name).is_file() for name in (RECORD, STUDY))
    )


def find_directories(top: Path) -> Iterator[Path]:
    """Yield the run directories and studies below a folder, without the run directories within a study."""
    for folder, below, files in os.walk(top):
        if RECORD in files or STUDY in files:
            below.clear()
            yield Path(folder)
        below[:] = sorted(name for name in below if not name.startswith("."))


def find_status(record: Mapping[str, Any], directory: Path) -> str:
    """Return the status of a run or study; one that is recorded as running but not locked was killed."""
    status = str(record.get("status", "-"))
    return "killed" if status == "running" and not is_locked(directory) else status


def _summarize_run(record: dict[str, Any], directory: Path) -> tuple[str, tuple[str, ...], str, int, int, int]:
    settings = record["settings"]
    solved = sum(run["solved"] for run in record["runs"])
    return (
        str(settings["domain"]),
        (str(settings["mutation"]),),
        find_status(record, directory),
        solved,
        settings.get("runs", len(record["runs"])),
        settings["evaluations"],
    )


def _summarize_study(directory: Path, size: int) -> DirectorySummary:
    record = read_valid_study(directory)
    members = [directory / member["directory"] for member in record["members"]]
    summaries = [_summarize_run(read_valid_record(path), path) for path in members if (path / RECORD).is_file()]
    return DirectorySummary(
        directory,
        str(record.get("kind", "study")),
        str(record.get("domain", "-")),
        tuple(str(member["name"]) for member in record["members"]),
        find_status(record, directory),
        sum(solved for *_, solved, _, _ in summaries),
        sum(runs for *_, runs, _ in summaries),
        max((evaluations for *_, evaluations in summaries), default=0),
        str(record.get("started") or ""),
        size,
    )


def _find_foreign_files(directory: Path) -> Iterator[Path]:
    members = (
        {directory / m["directory"] for m in read_valid_study(directory)["members"]}
        if (directory / STUDY).is_file()
        else set()
    )
    for path in directory.iterdir():
        if path in members:
            yield from _find_foreign_files(path)
        elif path.name not in OWN_NAMES and not is_temporary(path) and not is_backup(path) and path.suffix != ".html":
            yield path


def _size(directory: Path) -> int:
    return sum((Path(folder) / name).lstat().st_size for folder, _, files in os.walk(directory) for name in files)
