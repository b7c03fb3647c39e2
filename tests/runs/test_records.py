"""Directory locks: one process per directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfsm.errors import TfsmError
from tfsm.runs.records import DirectoryLock, is_locked

HOLD_LOCK = """
import sys, time
from pathlib import Path
from tfsm.runs.records import DirectoryLock
with DirectoryLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def lock_holder(tmp_path: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock of the directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.stdout.close()
    process.wait()


def test_a_second_process_is_refused_in_one_line(tmp_path: Path, lock_holder: subprocess.Popen[str]) -> None:
    assert is_locked(tmp_path)
    with pytest.raises(TfsmError, match="in use by another process; wait for it or stop it") as caught:
        DirectoryLock(tmp_path).__enter__()
    assert "\n" not in str(caught.value)
    assert lock_holder.poll() is None


def test_a_killed_process_releases_its_lock(tmp_path: Path, lock_holder: subprocess.Popen[str]) -> None:
    lock_holder.kill()
    lock_holder.wait()
    assert (tmp_path / ".lock").exists()
    assert not is_locked(tmp_path)
    with DirectoryLock(tmp_path):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


def test_an_exception_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="odd"), DirectoryLock(tmp_path):
        raise ValueError("odd")
    with DirectoryLock(tmp_path):
        pass


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "missing")
    with pytest.raises(TfsmError, match="cannot be written to"):
        DirectoryLock(Path("/proc/self/nowhere")).__enter__()
