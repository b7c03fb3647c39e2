"""What is on disk: run directories and studies below a folder, told in a few words, and removed with care."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.runs.records import LOCK, METRICS, ORDER, RECORD, STUDY, is_locked, read_valid_record, read_valid_study
from tfsm.utils.atomic import is_backup, is_temporary

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
"""What a directory of ours may hold."""


@dataclass(frozen=True)
class DirectorySummary:
    """One run directory, or one study."""

    directory: Path
    kind: str
    """`run`, `compare` or `sweep`; or `damaged`, where nothing else can be said."""
    domain: str
    methods: tuple[str, ...]
    status: str
    solved: int
    runs: int
    evaluations: int
    """The most of one run."""
    started: str
    size: int
    """Bytes on disk."""
    problem: str = ""


def list_directories(top: Path) -> list[DirectorySummary]:
    """Return all run directories and studies below a folder, the newest first; those within a study belong to it."""
    if not top.is_dir():
        raise TfsmError(f"{top}: no such directory")
    return sorted(
        (summarize_directory(path) for path in _find(top)),
        key=lambda item: (item.started, str(item.directory)),
        reverse=True,
    )


def summarize_directory(directory: Path) -> DirectorySummary:
    """Tell of a run directory or study; one that is damaged is told of as such."""
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
    """Remove a run directory or study; anything that is none, or holds something else, or is in use, is an error."""
    if not is_run_or_study(directory):
        raise TfsmError(f"{directory}: neither a run directory nor a study, so it is not removed")
    if is_locked(directory) and not force:
        raise TfsmError(f"{directory}: a process is at work in it; --force removes it all the same")
    # A record that cannot be read does not tell what belongs to it; whoever insists need not know.
    strange = [] if force else sorted(str(path.relative_to(directory)) for path in _find_foreign_files(directory))
    if strange:
        raise TfsmError(
            f"{directory}: holds what tfsm did not write ({', '.join(strange[:3])}); --force removes it, too"
        )
    try:
        shutil.rmtree(directory)
    except OSError as error:
        raise TfsmError(f"{directory}: cannot be removed: {error.strerror}") from None


def is_run_or_study(directory: Path) -> bool:
    """Say whether it is a run directory or a study."""
    return (
        directory.is_dir()
        and not directory.is_symlink()
        and any((directory / name).is_file() for name in (RECORD, STUDY))
    )


def _find(top: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(top):
        if RECORD in files or STUDY in files:
            below.clear()
            yield Path(folder)
        below[:] = sorted(name for name in below if not name.startswith("."))


def find_status(record: Mapping[str, Any], directory: Path) -> str:
    """Return what became of a run or study; one that says it is running, and is not, was killed."""
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
    told = [_summarize_run(read_valid_record(path), path) for path in members if (path / RECORD).is_file()]
    return DirectorySummary(
        directory,
        str(record.get("kind", "study")),
        str(record.get("domain", "-")),
        tuple(str(member["name"]) for member in record["members"]),
        find_status(record, directory),
        sum(solved for *_, solved, _, _ in told),
        sum(runs for *_, runs, _ in told),
        max((evaluations for *_, evaluations in told), default=0),
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
