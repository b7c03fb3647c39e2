"""All that came of an experiment, piece by piece, so that what is lost can be counted."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np


@dataclass(frozen=True)
class Final:
    """Digests of log lines, results of runs, champions and snapshots, by name."""

    pieces: dict[str, str]

    @classmethod
    def of(cls, directory: Path) -> Final:
        """Look at a run directory, or at a study and all its members."""
        study = directory / "study.json"
        if not study.is_file():
            return cls(_pieces(directory))
        record = json.loads(study.read_text(encoding="utf-8"))
        pieces = {"the study's status": record["status"]}
        for member in record["members"]:
            found = _pieces(directory / member["directory"])
            pieces |= {f"{member['name']}: {name}": piece for name, piece in found.items()}
        return cls(pieces)

    def lost(self, found: Final) -> list[str]:
        """Return the names of what is missing, or other than here, or there and not here."""
        names = {*self.pieces, *found.pieces}
        return sorted(name for name in names if self.pieces.get(name) != found.pieces.get(name))


def _pieces(directory: Path) -> dict[str, str]:
    record = _record(directory)
    pieces = {"status": str(record.get("status"))}
    pieces |= {f"run {run['run']}": json.dumps(run) for run in record.get("runs", [])}
    log = directory / "metrics.jsonl"
    # By their places: the file must be the same byte for byte.
    lines = log.read_bytes().split(b"\n") if log.is_file() else []
    pieces |= {f"line {number} of the log": _digest(line) for number, line in enumerate(lines)}
    for file in sorted(directory.glob("champions/*.keras")):
        pieces[f"champion {file.stem}"] = _champion(file)
    for file in sorted(directory.glob("behavior/*.npz")):
        pieces |= {f"{name} of {file.stem}": piece for name, piece in _behavior(file).items()}
    for file in sorted(directory.rglob(".*")):
        if file.name != ".lock":
            pieces[f"left behind: {file.relative_to(directory)}"] = "a file"
    return pieces


def _record(directory: Path) -> dict[str, Any]:
    file = directory / "run.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _champion(file: Path) -> str:
    """Look at architecture and weights; the file says when it was made, too."""
    with zipfile.ZipFile(file) as kept:
        parts = [kept.read("config.json")]
        with h5py.File(io.BytesIO(kept.read("model.weights.h5")), "r") as weights:

            def see(name: str, item: Any) -> None:
                if isinstance(item, h5py.Dataset):
                    parts.append(name.encode() + item[()].tobytes())

            weights.visititems(see)
    return _digest(b"".join(parts))


def _behavior(file: Path) -> dict[str, str]:
    with np.load(file, allow_pickle=False) as kept:
        tables = {name: kept[name] for name in kept.files}
    pieces = {f"snapshot at {evaluations}": "" for evaluations in tables["evaluations"]}
    for place, name in enumerate(pieces):
        pieces[name] = _digest(tables["behavior"][place].tobytes() + tables["fitness"][place].tobytes())
    others = [tables[name].tobytes() for name in sorted(tables) if name not in ("behavior", "fitness")]
    return {**pieces, "what else is kept": _digest(b"".join(others))}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
