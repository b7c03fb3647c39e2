"""Commands in processes of their own, which can be watched, signalled and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.bench import SETS, SMALL, install_fragile
from tests.faults.final import Final as FinalState
from tests.helpers.fake_distribution import FakeSite

PATIENCE: Final = 300.0
"""Seconds after which a process is taken to hang."""
PAUSE: Final = 0.015
"""Seconds of an evaluation, so that there is a while to do something in."""


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    err: str

    @property
    def problems(self) -> list[str]:
        """What no user should see."""
        return ["a traceback was shown"] if "Traceback" in self.err else []


class Process:
    """A command that is under way."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self._popen, self._log = popen, log
        self.pid = popen.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._popen.poll() is None

    def wait_for(self, seen: Callable[[], bool]) -> bool:
        """Wait until something is seen; False if the process ended before."""
        deadline = time.monotonic() + PATIENCE
        while not seen():
            if not self.alive:
                return False
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"it hangs: {self.err}")
            time.sleep(0.0005)
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """Kill -9."""
        self._popen.kill()
        self._popen.wait()

    def end(self) -> Ended:
        """Wait for its end."""
        try:
            self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it hangs: {self.err}") from None
        return Ended(self._popen.returncode, self.err)

    @property
    def err(self) -> str:
        """What it has written to its standard error so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")


@dataclass
class Lab:
    """Where commands are run.

    Args:
        root: a folder of its own, in which the fragile domain is installed.
    """

    root: Path

    def __post_init__(self) -> None:
        self._site = FakeSite(install_fragile(self.root))
        self._count = 0

    def out(self) -> Path:
        """Return a new directory's name."""
        self._count += 1
        return self.root / f"lab-{self._count}"

    def start(self, *arguments: str, through: Sequence[str] = (), **variables: str) -> Process:
        """Start a command, through another that changes something before."""
        self._count += 1
        log = self.root / f"process-{self._count}.err"
        environ = self._site.environ(
            FRAGILE_PAUSE=str(PAUSE), TFSM_COMPILE_CACHE=str(self.root / "compiled"), TF_CPP_MIN_LOG_LEVEL="3"
        )
        environ.pop("TF_XLA_FLAGS", None)  # the tests' own, which would switch the cache off
        with log.open("wb") as opened:
            popen = subprocess.Popen(
                [*through, sys.executable, "-m", "tfsm", *arguments],
                env=environ | variables,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=opened,
            )
        return Process(popen, log)

    def begin(self, out: Path, *more: str, **variables: str) -> Process:
        """Start the small experiment, or go on with it where there is one."""
        if (out / "run.json").is_file():
            return self.start("run", "--resume", str(out), "--quiet", *more, **variables)
        return self.start("run", "fragile", "--mutation", "control", *flags(), "--out", str(out), *more, **variables)

    def final(self, out: Path, *more: str) -> tuple[FinalState, list[str]]:
        """Go on with an experiment to its end; return what came of it, and what was wrong."""
        ended = self.begin(out, *more, FRAGILE_PAUSE="0").end()
        problems = ended.problems + ([f"exit code {ended.code}: {ended.err}"] if ended.code else [])
        return FinalState.of(out), problems


def flags() -> list[str]:
    """Return the small experiment's settings as a command line has them."""
    named = [word for key, value in SMALL.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    return [*named, *(word for assignment in SETS for word in ("--set", assignment)), "--quiet"]


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(folder.name))
    return found


def is_there(pid: int) -> bool:
    """Say whether a process is there, and not only its exit code."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def end(pid: int) -> None:
    """Kill -9."""
    os.kill(pid, signal.SIGKILL)
