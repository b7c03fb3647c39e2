"""`--backend`: the same study by workers, one of which is killed on the way, and messages where it cannot be."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.lab import children

STUDY = ["compare", "parity", "--mutation", "control,sm-g-sum", "--runs", "8", "--evaluations", "3000", "--quiet"]


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tfsm", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def workers_of(pid: int) -> list[int]:
    """Return the processes below one that do its work; Ray has others besides."""
    below = [child for own in children(pid) for child in (own, *workers_of(own))]
    words = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in below if Path(f"/proc/{child}").exists()}
    return [child for child, line in words.items() if b"ray::Actor" in line or b"tfsm.parallel" in line]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["processes", "ray"])
def test_a_study_by_workers_is_the_same_though_one_is_killed(backend: str, tmp_path: Path) -> None:
    if backend == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray")
    local = started(tmp_path, *STUDY, "--out", "local")
    _, told = local.communicate(timeout=600)
    assert local.returncode == 0, told
    there = started(
        tmp_path, *STUDY, "--out", "there", "--backend", backend, "--workers", "2", "--checkpoint-every", "500"
    )
    killed = None
    deadline = time.monotonic() + 600
    while there.poll() is None and time.monotonic() < deadline:
        begun = list((tmp_path / "there").glob("*/checkpoints/*.checkpoint"))
        if killed is None and begun and (found := workers_of(there.pid)):
            killed = found[0]
            os.kill(killed, signal.SIGKILL)
        time.sleep(0.1)
    _, told = there.communicate()
    assert there.returncode == 0, told
    assert killed is not None
    assert "a worker died" in told
    for method in ("control", "sm-g-sum"):
        one, other = tmp_path / "local" / method, tmp_path / "there" / method
        assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
        ends = [json.loads((path / "run.json").read_text())["runs"] for path in (one, other)]
        assert ends[0] == ends[1]
