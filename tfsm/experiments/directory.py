"""A run directory: what was asked for, what happened, and what came of it, on disk as soon as it is known."""

from __future__ import annotations

import itertools
import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tfsm.errors import TfsmError
from tfsm.evolution.records import RunResult, Silent, Snapshot
from tfsm.experiments.record import METRICS, RECORD, behavior_file, now, write_json
from tfsm.experiments.settings import Resolved
from tfsm.models.network import Network

CHAMPIONS = "champions"
INPUTS = "inputs"


class RunDirectory(Silent):
    """Writes a run directory as an observer of the run.

    Args:
        path: the directory, claimed before.
        resolved: the settings and where they came from.
        network: the network, whose models champions are saved as.
        command: the command line.
        plan: how the run is compiled, for the record.
        objects: parts that came ready made, and the user's model, in words, for the record.
        files: files that options of the domain name, which are copied.
    """

    def __init__(
        self,
        path: Path,
        resolved: Resolved,
        network: Network,
        *,
        command: list[str],
        plan: dict[str, Any],
        objects: dict[str, str],
        files: Mapping[str, Path],
    ) -> None:
        self.path = path
        self._network = network
        self._snapshots: dict[int, list[Snapshot]] = {}
        try:
            (path / CHAMPIONS).mkdir()
        except FileExistsError:  # another run, started in the same moment, was faster
            raise _taken(path) from None
        self._record: dict[str, Any] = {
            "status": "running",
            "command": command,
            "started": now(),
            "ended": None,
            "seed": resolved.settings.seed,
            "settings": resolved.settings.as_dict(),
            "sources": resolved.sources,
            "objects": objects,
            "inputs": _copied(files, path / INPUTS),
            "plan": plan,
            "versions": _versions(),
            "runs": [],
        }
        self._write_record()
        self._metrics = (path / METRICS).open("a", encoding="utf-8")

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Append a line for each run."""
        self._metrics.writelines(json.dumps(metric) + "\n" for metric in metrics)
        self._metrics.flush()

    def population(self, snapshot: Snapshot) -> None:
        """Keep it until the run ends: a compressed file cannot be added to."""
        self._snapshots.setdefault(snapshot.run, []).append(snapshot)

    def finished(self, result: RunResult) -> None:
        """Save what the populations did and the champion, then say so."""
        self._save_behavior(result.run)
        file = champion_file(self.path, result.run)
        # Keras goes by the ending; a half-written champion must not look like one.
        draft = file.with_name(f".{file.name}.part.keras")
        self._network.child(result.champion).save(draft)
        os.replace(draft, file)
        self._record["runs"].append({**result.summary(), "champion": str(file.relative_to(self.path))})
        self._record["runs"].sort(key=lambda run: run["run"])
        self._write_record()

    def close(self, status: str, error: str | None = None) -> None:
        """Write down how it ended: `finished`, `interrupted` or `failed`."""
        for run in list(self._snapshots):
            self._save_behavior(run)
        self._metrics.close()
        self._record |= {"status": status, "ended": now()}
        if error is not None:
            self._record["error"] = error
        self._write_record()

    def _save_behavior(self, run: int) -> None:
        if not (snapshots := self._snapshots.pop(run, [])):
            return
        file = behavior_file(self.path, run)
        file.parent.mkdir(exist_ok=True)
        draft = file.with_name(f".{file.name}.part.npz")
        tables: dict[str, Any] = {
            "evaluations": [snapshot.evaluations for snapshot in snapshots],
            "behavior": np.stack([snapshot.behavior for snapshot in snapshots]),
            "fitness": np.stack([snapshot.fitness for snapshot in snapshots]),
            "names": np.array(snapshots[-1].names, np.str_),
        }
        if snapshots[-1].cells is not None:
            tables["cells"] = snapshots[-1].cells
        np.savez_compressed(draft, **tables)
        os.replace(draft, file)

    def _write_record(self) -> None:
        write_json(self.path / RECORD, self._record)


def _copied(files: Mapping[str, Path], folder: Path) -> dict[str, str]:
    """Copy files, and return where each is within the run directory."""
    for option, file in files.items():
        folder.mkdir(exist_ok=True)
        shutil.copyfile(file, folder / f"{option}{file.suffix}")
    return {option: f"{folder.name}/{option}{file.suffix}" for option, file in files.items()}


def champion_file(directory: Path, run: int) -> Path:
    """Return where a run's champion is kept."""
    return directory / CHAMPIONS / f"run-{run:03d}.keras"


def check_free(wanted: Path | None) -> None:
    """Refuse a directory that has something in it."""
    if wanted is not None and wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
        raise _taken(wanted)


def _taken(path: Path) -> TfsmError:
    return TfsmError(f"{path}: already there, and an earlier run is never overwritten: choose another --out")


def claim(wanted: Path | None, name: str) -> Path:
    """Make a directory that nobody else has, and return it: the wanted one, or a new one below `runs`.

    Args:
        wanted: what the user asked for; an error if it has something in it.
        name: what to call a new one, before the time.
    """
    check_free(wanted)
    try:
        if wanted is not None:
            wanted.mkdir(parents=True, exist_ok=True)
            return wanted
        base = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
        base.parent.mkdir(exist_ok=True)
        for count in itertools.count(1):
            path = base if count == 1 else base.with_name(f"{base.name}-{count}")
            # Making it is the only way to be sure that it is ours: another run may start in the same second.
            with suppress(FileExistsError):
                path.mkdir()
                return path
    except OSError as error:
        raise TfsmError(f"{wanted or 'runs'}: cannot make the run directory: {error.strerror}") from error
    raise AssertionError("unreachable: the numbers do not end")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("tfsm", "tensorflow", "keras", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = getattr(sys.modules.get(package), "__version__", "unknown")
    return found
