"""Experiments in this process, on one engine that is compiled once: fast enough for hundreds of faults."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from typing import Any, Final

from tests.faults.final import Final as FinalState
from tests.helpers.fake_distribution import FakeSite
from tfsm.parallel.pool import Backend
from tfsm.plugins import Plugins, load_plugins
from tfsm.runs.build import EngineCache
from tfsm.runs.result import Result
from tfsm.runs.resume import resume_settings
from tfsm.runs.runner import run_experiment
from tfsm.settings import ResolvedSettings, resolve

SMALL: Final = {"runs": 3, "population": 8, "evaluations": 130, "seed": 4, "checkpoint_every": "20"}
"""One run is solved on the way, and the budget is no multiple of the interval."""
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
