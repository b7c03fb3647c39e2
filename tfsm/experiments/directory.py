"""A run directory: what was asked for, what happened, and what came of it, on disk as soon as it is known."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import keras

from tfsm.errors import TfsmError
from tfsm.evolution.records import RunResult, Silent
from tfsm.experiments.settings import Resolved
from tfsm.models.genome import unflatten

RECORD = "run.json"
METRICS = "metrics.jsonl"
CHAMPIONS = "champions"


class RunDirectory(Silent):
    """Writes a run directory as an observer of the run.

    Args:
        path: the directory; made here, and never one that has something in it.
        resolved: the settings and where they came from.
        model: the network, which champions are saved as.
        command: the command line.
        plan: how the run is compiled, for the record.
    """

    def __init__(
        self, path: Path, resolved: Resolved, model: keras.Model, *, command: list[str], plan: dict[str, Any]
    ) -> None:
        self.path = path
        self._model = model
        _make(path / CHAMPIONS)
        self._record: dict[str, Any] = {
            "status": "running",
            "command": command,
            "started": _now(),
            "ended": None,
            "seed": resolved.settings.seed,
            "settings": resolved.settings.as_dict(),
            "sources": resolved.sources,
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

    def finished(self, result: RunResult) -> None:
        """Save the champion, then say so."""
        file = self.champion(result.run)
        # Keras goes by the ending; a half-written champion must not look like one.
        draft = file.with_name(f".{file.name}.part.keras")
        unflatten(self._model, result.champion).save(draft)
        os.replace(draft, file)
        self._record["runs"].append({**result.summary(), "champion": str(file.relative_to(self.path))})
        self._record["runs"].sort(key=lambda run: run["run"])
        self._write_record()

    def champion(self, run: int) -> Path:
        """Return where a run's champion is kept."""
        return self.path / CHAMPIONS / f"run-{run:03d}.keras"

    def close(self, status: str, error: str | None = None) -> None:
        """Write down how it ended: `finished`, `interrupted` or `failed`."""
        self._metrics.close()
        self._record |= {"status": status, "ended": _now()}
        if error is not None:
            self._record["error"] = error
        self._write_record()

    def _write_record(self) -> None:
        draft = self.path / f".{RECORD}.part"
        draft.write_text(json.dumps(self._record, indent=2) + "\n", encoding="utf-8")
        os.replace(draft, self.path / RECORD)


def free_directory(wanted: Path | None, name: str) -> Path:
    """Return a directory that holds nothing yet: the wanted one, or a new one below `runs`.

    Args:
        wanted: what the user asked for; an error if it has something in it.
        name: what to call a new one, before the time.
    """
    if wanted is not None:
        if wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
            raise TfsmError(f"{wanted}: already there, and an earlier run is never overwritten: choose another --out")
        return wanted
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / f"{name}-{stamp}"
    path, count = base, 1
    while path.exists():
        count += 1
        path = base.with_name(f"{base.name}-{count}")
    return path


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TfsmError(f"{path}: cannot make the run directory: {error.strerror}") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("tfsm", "tensorflow", "keras", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = getattr(sys.modules.get(package), "__version__", "unknown")
    return found
