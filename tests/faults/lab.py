"""Run experiments and commands under faults, and compare their results piece by piece, so that losses are counted."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from typing import Any, Final, NamedTuple

import h5py
import numpy as np

from tests.helpers.fake_distribution import FakeSite
from tfsm.parallel.pool import Backend
from tfsm.plugins import Plugins, load_plugins
from tfsm.runs.build import EngineCache
from tfsm.runs.result import Result
from tfsm.runs.resume import resume_settings
from tfsm.runs.runner import run_experiment
from tfsm.settings import ResolvedSettings, resolve


@dataclass(frozen=True)
class FinalState:
    """Digests of log lines, results of runs, champions and snapshots, by name."""

    pieces: dict[str, str]

    @classmethod
    def of(cls, directory: Path) -> FinalState:
        """Read a run directory, or a study with all its members."""
        study = directory / "study.json"
        if not study.is_file():
            return cls(_read_pieces(directory))
        record = json.loads(study.read_text(encoding="utf-8"))
        pieces = {"the study's status": record["status"]}
        for member in record["members"]:
            found = _read_pieces(directory / member["directory"])
            pieces |= {f"{member['name']}: {name}": piece for name, piece in found.items()}
        return cls(pieces)

    def list_lost(self, found: FinalState) -> list[str]:
        """Return the names of pieces that are missing, differ, or are unexpected."""
        names = {*self.pieces, *found.pieces}
        return sorted(name for name in names if self.pieces.get(name) != found.pieces.get(name))


def _read_pieces(directory: Path) -> dict[str, str]:
    record = _read_record(directory)
    pieces = {"status": str(record.get("status"))}
    pieces |= {f"run {run['run']}": json.dumps(run) for run in record.get("runs", [])}
    log = directory / "metrics.jsonl"
    # By position, because the file must be the same byte for byte.
    lines = log.read_bytes().split(b"\n") if log.is_file() else []
    pieces |= {f"line {number} of the log": _digest(line) for number, line in enumerate(lines)}
    for file in sorted(directory.glob("champions/*.keras")):
        pieces[f"champion {file.stem}"] = _digest_champion(file)
    for file in sorted(directory.glob("behavior/*.npz")):
        pieces |= {f"{name} of {file.stem}": piece for name, piece in _digest_behavior(file).items()}
    for file in sorted(directory.rglob(".*")):
        if file.name != ".lock":
            pieces[f"left behind: {file.relative_to(directory)}"] = "a file"
    return pieces


def _read_record(directory: Path) -> dict[str, Any]:
    file = directory / "run.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _digest_champion(file: Path) -> str:
    """Return a digest of architecture and weights, without the creation time and addresses that the file also has."""
    with zipfile.ZipFile(file) as archive:
        contents = [re.sub(rb'"shared_object_id": \d+', b"", archive.read("config.json"))]
        with h5py.File(io.BytesIO(archive.read("model.weights.h5")), "r") as weights:

            def add_dataset(name: str, item: Any) -> None:
                if isinstance(item, h5py.Dataset):
                    contents.append(name.encode() + item[()].tobytes())

            weights.visititems(add_dataset)
    return _digest(b"".join(contents))


def _digest_behavior(file: Path) -> dict[str, str]:
    with np.load(file, allow_pickle=False) as archive:
        tables = {name: archive[name] for name in archive.files}
    pieces = {f"snapshot at {evaluations}": "" for evaluations in tables["evaluations"]}
    for place, name in enumerate(pieces):
        pieces[name] = _digest(tables["behavior"][place].tobytes() + tables["fitness"][place].tobytes())
    others = [tables[name].tobytes() for name in sorted(tables) if name not in ("behavior", "fitness")]
    return {**pieces, "what else is kept": _digest(b"".join(others))}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Trial(NamedTuple):
    """The outcome of one injected fault, with the number of pieces of the result that were lost."""

    what: str
    survived: bool
    """Whether messages and exit codes were right, and the experiment finished afterwards."""
    lost: int
    details: str = ""
    """What went wrong, or the messages of interest."""


def compare(what: str, expected: FinalState, found: FinalState, problems: Iterable[str] = ()) -> Trial:
    """Compare the expected with the found results, and return a trial that also lists other problems."""
    lost, wrong = expected.list_lost(found), list(problems)
    details = "; ".join([*wrong, *(f"differs: {name}" for name in lost[:5])])
    return Trial(what, not wrong and found.pieces.get("status", "finished") == "finished", len(lost), details)


def assert_nothing_lost(trials: Iterable[Trial]) -> int:
    """Fail with the details of all failed trials; otherwise return the number of trials."""
    found = list(trials)
    wrong = [
        f"{trial.what}: {trial.details or 'did not survive'}" for trial in found if trial.lost or not trial.survived
    ]
    assert not wrong, "\n".join(wrong)
    assert found, "no fault was injected"
    return len(found)


SMALL: Final = {"runs": 3, "population": 8, "evaluations": 130, "seed": 4, "checkpoint_every": "20"}
SETS: Final = ("log_every=25", "near=0.0001", "intensity=0.1")


@dataclass
class Bench:
    """Runs experiments with the fragile domain in this process.

    Args:
        root: an empty folder.
        overrides: settings that replace those of the small experiment.
        sets: further assignments.
    """

    root: Path
    overrides: dict[str, Any] = field(default_factory=dict)
    sets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._engines, self._count = EngineCache(), 0
        self.plugins = load_fragile(self.root)
        self.messages: list[str] = []
        """The messages of the last run to the user."""
        self._expected: FinalState | None = None

    def resolve_settings(self, **overrides: Any) -> ResolvedSettings:
        """Return the settings."""
        values = SMALL | self.overrides | overrides
        return resolve(self.plugins, domain="fragile", mutation="control", overrides=values, sets=[*SETS, *self.sets])

    def new_out(self) -> Path:
        """Return the path of a new directory, which does not exist yet."""
        self._count += 1
        return self.root / f"run-{self._count}"

    def run(
        self,
        out: Path,
        *,
        stop: Callable[[], bool] = lambda: False,
        observers: Any = (),
        backend: Backend | None = None,
        order: Path | None = None,
        **overrides: Any,
    ) -> Result:
        """Run the experiment, or resume it."""
        self.messages.clear()
        resuming = (out / "run.json").is_file()
        return run_experiment(
            self.plugins,
            resume_settings(self.plugins, out, overrides) if resuming else self.resolve_settings(**overrides),
            out=out,
            resume=resuming,
            stop=stop,
            observers=observers,
            notify=self.messages.append,
            engines=self._engines,
            backend=backend,
            order=order,
        )

    def finish(self, out: Path) -> FinalState:
        """Run or resume an experiment to its end, and return its results."""
        self.run(out)
        return FinalState.of(out)

    @property
    def expected(self) -> FinalState:
        """The results of an undisturbed experiment."""
        if self._expected is None:
            self._expected = self.finish(self.new_out())
        return self._expected

    @property
    def expected_runs(self) -> list[str]:
        """The names of the pieces that every experiment has, whatever its domain returns."""
        kinds = ("run ", "champion ")
        return [name for name in self.expected.pieces if name.startswith(kinds)]

    def break_domain(self, kind: str, at: int, times: int = 1) -> Path:
        """Let the domain fail at its `at`-th call from now on, and return the file that controls it."""
        # Build the engine first: it calls the domain once to learn its shapes.
        self._engines.engine(self.plugins, self.resolve_settings().settings)
        file = self.root / "fragile.json"
        calls = self.plugins.domains["fragile"].load().calls[0]
        file.write_text(json.dumps({"kind": kind, "at": calls + at, "times": times}), encoding="utf-8")
        os.environ["FRAGILE"] = str(file)
        return file


def load_fragile(root: Path) -> Plugins:
    """Return all plugins, including the fragile domain as an installed distribution."""
    folder = install_fragile(root)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    (info,) = folder.glob("*.dist-info")
    points = [point for point in entry_points(group="tfsm") if point.name != "fragile"]
    return load_plugins(entry_points=[*points, *Distribution.at(info).entry_points])


def install_fragile(root: Path) -> Path:
    """Install the fragile domain as a distribution, if necessary, and return the folder for `sys.path`."""
    folder = root / "site"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        source = Path(__file__).with_name("fragile_domain.py").read_text(encoding="utf-8")
        FakeSite(folder).install("tfsm-fragile", {"fragile": source})
    return folder


PATIENCE: Final = 300.0
PAUSE: Final = 0.015


class ExitStatus(NamedTuple):
    """The exit code and standard error of a process."""

    code: int
    err: str

    @property
    def problems(self) -> list[str]:
        """Output that no user should see."""
        return ["a traceback was shown"] if "Traceback" in self.err else []


class Process:
    """A running command."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self._popen, self._log = popen, log
        self.pid = popen.pid

    @property
    def alive(self) -> bool:
        """Whether the process is still running."""
        return self._popen.poll() is None

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition; return False if the process exits first."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
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
        """Send SIGKILL, and wait for the process to exit."""
        self._popen.kill()
        self._popen.wait()

    def wait(self) -> ExitStatus:
        """Wait for the process to exit."""
        try:
            self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it hangs: {self.err}") from None
        return ExitStatus(self._popen.returncode, self.err)

    @property
    def err(self) -> str:
        """What the process has written to standard error so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")


@dataclass
class Lab:
    """Runs commands in subprocesses.

    Args:
        root: an empty folder, in which the fragile domain is installed.
    """

    root: Path

    def __post_init__(self) -> None:
        self._site = FakeSite(install_fragile(self.root))
        self._count = 0

    def new_out(self) -> Path:
        """Return the path of a new directory, which does not exist yet."""
        self._count += 1
        return self.root / f"lab-{self._count}"

    def start(self, *arguments: str, wrapper: Sequence[str] = (), **variables: str) -> Process:
        """Start a command, optionally through a wrapper command."""
        self._count += 1
        log = self.root / f"process-{self._count}.err"
        environ = self._site.environ(
            FRAGILE_PAUSE=str(PAUSE), TFSM_COMPILE_CACHE=str(self.root / "compiled"), TF_CPP_MIN_LOG_LEVEL="3"
        )
        environ.pop("TF_XLA_FLAGS", None)  # set by tests/conftest.py; it would disable the cache
        with log.open("wb") as stderr:
            popen = subprocess.Popen(
                [*wrapper, sys.executable, "-m", "tfsm", *arguments],
                env=environ | variables,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        return Process(popen, log)

    def begin(self, out: Path, *more: str, **variables: str) -> Process:
        """Start the small experiment, or resume it if the directory has one."""
        if (out / "run.json").is_file():
            return self.start("run", "--resume", str(out), "--quiet", *more, **variables)
        return self.start("run", "fragile", "--mutation", "control", *flags(), "--out", str(out), *more, **variables)

    def finish(self, out: Path, *more: str) -> tuple[FinalState, list[str]]:
        """Run or resume an experiment to its end; return its results and any problems."""
        ended = self.begin(out, *more, FRAGILE_PAUSE="0").wait()
        problems = ended.problems + ([f"exit code {ended.code}: {ended.err}"] if ended.code else [])
        return FinalState.of(out), problems


def flags() -> list[str]:
    """Return the settings of the small experiment as command-line flags."""
    named = [word for key, value in SMALL.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    return [*named, *(word for assignment in SETS for word in ("--set", assignment)), "--quiet"]


def list_child_processes(pid: int) -> list[int]:
    """Return the child processes of a process."""
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


def is_running(pid: int) -> bool:
    """Return whether a process is running, and not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def kill_process(pid: int) -> None:
    """Send SIGKILL to a process."""
    os.kill(pid, signal.SIGKILL)
