"""The log of a run directory: a line for each run and interval, each of them once, whatever happens in between."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tfsm.evolution.intervals import Intervals
from tfsm.experiments.record import METRICS, write_text
from tfsm.files import put_aside


class MetricsFile:
    """Adds to the log of a directory, which may be there already.

    A line that was there before is not written again: a run that goes on from a checkpoint tells once more what it has
    told since. A last line that was never finished is taken off.

    Args:
        directory: the run directory.
        notify: told if the log was damaged; then a copy of it is kept.
    """

    def __init__(self, directory: Path, notify: Callable[[str], None] = lambda message: None) -> None:
        self._file = directory / METRICS
        content = self._file.read_bytes() if self._file.is_file() else b""
        lines: list[bytes] = []
        self._known: set[tuple[int, int]] = set()
        parts = content.split(b"\n")
        for part in parts[:-1]:
            try:
                key = _key(json.loads(part))
                if key not in self._known:
                    self._known.add(key)
                    lines.append(part)
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        if len(lines) < len(parts) - 1:
            copy = put_aside(self._file, "damaged", copy=True)
            notify(f"{self._file}: {len(parts) - 1 - len(lines)} damaged lines are left out; a copy is in {copy.name}")
        if content and (parts[-1] or len(lines) < len(parts) - 1):
            write_text(self._file, b"".join(line + b"\n" for line in lines).decode())
        self._opened = self._file.open("a", encoding="utf-8")

    @property
    def known(self) -> frozenset[tuple[int, int]]:
        """The run and the number of evaluations of each line."""
        return frozenset(self._known)

    def add(self, metrics: Iterable[Mapping[str, Any]]) -> None:
        """Add the lines that are new, so that a process that is killed has lost none."""
        new = [line for line in metrics if _key(line) not in self._known]
        self._opened.writelines(json.dumps(line) + "\n" for line in new)
        self._opened.flush()
        self._known.update(map(_key, new))

    def forget(self, after: Mapping[int, int]) -> None:
        """Take back what was told of runs after so many evaluations each."""
        told = {key for key in self._known if key[0] in after and key[1] > after[key[0]]}
        if not told:
            return
        self.close()
        lines = self._file.read_text(encoding="utf-8").splitlines(keepends=True)
        write_text(self._file, "".join(line for line in lines if _key(json.loads(line)) not in told))
        self._known -= told
        self._opened = self._file.open("a", encoding="utf-8")

    def sync(self) -> None:
        """Let a power cut lose none either."""
        os.fsync(self._opened.fileno())

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def tidy(self, intervals: Intervals) -> None:
        """Put the lines of a finished experiment in order: the same file, however often it was interrupted.

        Where a run was interrupted between two intervals there is a line that an uninterrupted run does not have, and
        which the next one covers.
        """
        self.close()
        lines = [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]
        last: dict[int, int] = {}
        for line in lines:
            last[line["run"]] = max(line["evaluations"], last.get(line["run"], 0))
        kept = [line for line in lines if line["evaluations"] in intervals or line["evaluations"] == last[line["run"]]]
        kept.sort(key=lambda line: (line["evaluations"], line["run"]))
        write_text(self._file, "".join(json.dumps(line) + "\n" for line in kept))


def _key(line: Mapping[str, Any]) -> tuple[int, int]:
    return int(line["run"]), int(line["evaluations"])
