"""All that came of an experiment, piece by piece, so that what is lost can be counted."""

from __future__ import annotations

import hashlib
import io
import json
import os
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

    def lost(self, found: FinalState) -> list[str]:
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


class Trial(NamedTuple):
    """What was done, whether it was survived, and how many pieces of the result were lost."""

    what: str
    survived: bool
    """Whether what was said and returned is right, and the experiment came to its end afterwards."""
    lost: int
    words: str = ""
    """What went wrong, or what is worth knowing."""


def compared(what: str, expected: FinalState, found: FinalState, problems: Iterable[str] = ()) -> Trial:
    """Return a trial from what should have come of it and what has, and from what else was not right."""
    lost, wrong = expected.lost(found), list(problems)
    words = "; ".join([*wrong, *(f"other: {name}" for name in lost[:5])])
    return Trial(what, not wrong and found.pieces.get("status", "finished") == "finished", len(lost), words)


def assert_nothing_lost(trials: Iterable[Trial]) -> int:
    """Fail with the words of all that went wrong, and return how many there were."""
    found = list(trials)
    wrong = [f"{trial.what}: {trial.words or 'did not survive'}" for trial in found if trial.lost or not trial.survived]
    assert not wrong, "\n".join(wrong)
    assert found, "no fault was injected"
    return len(found)


SMALL: Final = {"runs": 3, "population": 8, "evaluations": 130, "seed": 4, "checkpoint_every": "20"}
SETS: Final = ("log_every=25", "near=0.0001", "intensity=0.1")


@dataclass
class Bench:
    """Where experiments with the fragile domain are made.

    Args:
        root: a folder of its own.
        overrides: settings other than the small experiment's.
        sets: assignments besides its own.
    """

    root: Path
    overrides: dict[str, Any] = field(default_factory=dict)
    sets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._engines, self._count = EngineCache(), 0
        self.plugins = with_fragile(self.root)
        self.heard: list[str] = []
        """What the user was told by the last run."""
        self._expected: FinalState | None = None

    def resolved(self, **overrides: Any) -> ResolvedSettings:
        """Return the settings."""
        values = SMALL | self.overrides | overrides
        return resolve(self.plugins, domain="fragile", mutation="control", overrides=values, sets=[*SETS, *self.sets])

    def out(self) -> Path:
        """Return a new directory's name."""
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
        """Make the experiment, or go on with it."""
        self.heard.clear()
        again = (out / "run.json").is_file()
        return run_experiment(
            self.plugins,
            resume_settings(self.plugins, out, overrides) if again else self.resolved(**overrides),
            out=out,
            resume=again,
            stop=stop,
            observers=observers,
            notify=self.heard.append,
            engines=self._engines,
            backend=backend,
            order=order,
        )

    def final(self, out: Path) -> FinalState:
        """Go on with an experiment to its end, and return what came of it."""
        self.run(out)
        return FinalState.of(out)

    @property
    def expected(self) -> FinalState:
        """What comes of it when nothing goes wrong."""
        if self._expected is None:
            self._expected = self.final(self.out())
        return self._expected

    @property
    def expected_runs(self) -> list[str]:
        """The pieces that every experiment has, whatever its domain does."""
        kinds = ("run ", "champion ")
        return [name for name in self.expected.pieces if name.startswith(kinds)]

    def break_domain(self, kind: str, at: int, times: int = 1) -> Path:
        """Let the domain fail at its so manieth call from now on; returns the file that makes it."""
        # Otherwise the first call might be the one by which an engine learns what the domain is like.
        self._engines.engine(self.plugins, self.resolved().settings)
        file = self.root / "fragile.json"
        calls = self.plugins.domains["fragile"].load().calls[0]
        file.write_text(json.dumps({"kind": kind, "at": calls + at, "times": times}), encoding="utf-8")
        os.environ["FRAGILE"] = str(file)
        return file


def with_fragile(root: Path) -> Plugins:
    """Return all plugins, the fragile domain's among them, as an installed distribution has it."""
    folder = install_fragile(root)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    (info,) = folder.glob("*.dist-info")
    points = [point for point in entry_points(group="tfsm") if point.name != "fragile"]
    return load_plugins(entry_points=[*points, *Distribution.at(info).entry_points])


def install_fragile(root: Path) -> Path:
    """Write the fragile domain as a distribution, unless it is there, and return the folder to put on the path."""
    folder = root / "site"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        source = Path(__file__).with_name("fragile_domain.py").read_text(encoding="utf-8")
        FakeSite(folder).install("tfsm-fragile", {"fragile": source})
    return folder


PATIENCE: Final = 300.0
PAUSE: Final = 0.015


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
