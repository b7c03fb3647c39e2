"""The soak: its table, and what it knows about processes; a stretch takes minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kill_soak import Stretch, append, count_left, list_descendants, read_memory, read_stretches, summarize


def make_stretch(**changes: object) -> Stretch:
    values = ("2026-01-01", "abc", "parity", "local", 2, 360.0, 500.0, 510.0, 1.5, 2, 0, 0, "")
    return Stretch(*values)._replace(**changes)  # type: ignore[arg-type]


def test_stretches_add_up(tmp_path: Path) -> None:
    file = tmp_path / "soak" / "stretches.csv"
    append(file, make_stretch())
    append(file, make_stretch(kills=3, mib_most=600.0, lost=1, problem="differs, here"))
    append(file, make_stretch(domain="gym", backend="ray"))
    rows = read_stretches(file)
    assert rows[1]["problem"] == "differs, here"
    table = summarize(rows).splitlines()
    assert table[2] == "| `parity` | `local` | 2 | 5 | 0.20 | 500 | 600 | 1.5 | 2 | 0 | 1 |"
    assert table[3].startswith("| `gym` | `ray` | 1 | 2 |")


def test_processes_that_stay_are_counted_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.kill_soak.GONE_SECONDS", 0.1)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert process.pid in list_descendants(os.getpid())
    assert read_memory(process.pid) > 0.0
    assert count_left([process.pid]) == 1
    assert process.wait() != 0
    assert count_left([process.pid]) == 0
