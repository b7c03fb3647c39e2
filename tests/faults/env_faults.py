"""Faults of Gymnasium environments: names and spaces that are of no use, and environments that fail."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import gymnasium
import keras
import numpy as np
from gymnasium import spaces

from tests.faults.fragile_env import KINDS, NAME, FragileEnv, register
from tests.faults.lab import Bench, FinalState, Trial, compare
from tfsm.errors import TfsmError
from tfsm.runs.build import EngineCache
from tfsm.settings import ResolvedSettings, resolve

SMALL: Final = {"runs": 2, "population": 8, "evaluations": 60, "seed": 4, "checkpoint_every": "10"}
SETS: Final = ("log_every=20", "episodes=2", "confirm=0", "units=4", "layers=1", "stop=budget", "intensity=0.1")
RAISING: Final = ("reset", "step", "exit", "shape", "none")
BROKEN: Final = ("nan", "reward")


class EnvBench(Bench):
    """Runs experiments with the fragile environment in this process."""

    def resolve_settings(self, **overrides: Any) -> ResolvedSettings:
        """Return the settings."""
        register()
        values = SMALL | self.overrides | overrides
        sets = [f"env={NAME}", *SETS, *self.sets]
        return resolve(self.plugins, domain="gym", mutation="control", overrides=values, sets=sets)

    def break_env(self, kind: str) -> Path:
        """Let some episodes fail from now on, and return the file that controls it."""
        self.engines.engine(self.plugins, self.resolve_settings().settings)  # its first call must not fail
        file = self.root / "fragile-env"
        file.write_text(kind, encoding="utf-8")
        os.environ["FRAGILE_ENV"] = str(file)
        return file

    @property
    def engines(self) -> EngineCache:
        """The compiled engine."""
        return self._engines

    def forget_engines(self) -> None:
        """Compile a new engine for the next run, as a new process does; Keras numbers the names of layers again."""
        self._engines = EngineCache()
        keras.utils.clear_session(free_memory=False)


def fail_and_resume(bench: EnvBench, kinds: Sequence[str]) -> Iterator[Trial]:
    """Let an environment fail; once it works again, the results must be the same."""
    bench.forget_engines()
    expected = bench.expected
    for kind in kinds:
        os.environ["FRAGILE_ENV"] = str(bench.root / "fragile-env")  # for processes that start now
        bench.forget_engines()
        out, flag, problems = bench.new_out(), bench.break_env(kind), []
        try:
            bench.run(out)
            problems.append("the failure had no effect")
        except TfsmError as error:
            if "\n" in str(error):
                problems.append(f"more than one line: {error}")
        except SystemExit as error:
            problems.append(f"sys.exit({error.code}) got through")
        finally:
            flag.unlink()
        bench.forget_engines()
        yield compare(KINDS[kind], expected, bench.finish(out), problems)


def fail_and_continue(bench: EnvBench, kinds: Sequence[str]) -> Iterator[Trial]:
    """Let an environment return NaN: the experiment finishes without help, and no piece of the result is missing."""
    for kind in kinds:
        names, problems = bench.expected_runs, []
        out, flag = bench.new_out(), bench.break_env(kind)
        result = bench.run(out)
        flag.unlink()
        found = FinalState.of(out)
        if result.interrupted or len(result.runs) != SMALL["runs"]:
            problems.append("not all runs finished")
        if not bench.expected.list_lost(found):
            problems.append("the failure had no effect")
        missing = [name for name in ("status", *names) if name not in found.pieces]
        yield Trial(KINDS[kind], not problems, len(missing), "; ".join([*problems, *missing]))


def refuse_names(bench: EnvBench) -> Iterator[Trial]:
    """Name environments that do not exist, or whose package or simulator is not installed."""
    hidden: dict[str, Any] = dict.fromkeys(("ale_py", "minigrid", "gymnasium_robotics", "mujoco", "Box2D"))
    registry = {name: spec for name, spec in gymnasium.registry.items() if not name.startswith(("ALE/", "MiniGrid"))}
    with patch.dict(sys.modules, hidden), patch.object(gymnasium, "registry", registry):
        for module in [name for name in sys.modules if re.match(r"gymnasium\.envs\.(mujoco|box2d)", name)]:
            del sys.modules[module]  # so that they look for their simulators again
        for name, expected in {
            "CartPol-v1": "Did you mean: `CartPole`",
            "CartPole-v9": "versioned environments",
            "Ant-v2": "did you mean 'Ant-v5'?",
            "nowhere:Mine-v0": "No module named 'nowhere'",
            "ALE/Breakout-v5": "needs ale-py: pip install ale-py",
            "MiniGrid-Empty-5x5-v0": "needs minigrid: pip install minigrid",
            "FetchReach-v4": "needs gymnasium-robotics: pip install gymnasium-robotics",
            "HalfCheetah-v5": 'MuJoCo is not installed, run `pip install "gymnasium[mujoco]"`',
            "LunarLander-v3": "Box2D is not installed",
        }.items():
            yield _refuse(bench, name, expected)
    images = spaces.Box(0, 255, (40, 40, 3), np.uint8)
    with patch.dict(sys.modules, {"cv2": None}), _odd_env(observation_space=images) as name:
        yield _refuse(bench, name, "resize=20 needs OpenCV: pip install 'tfsm[atari]'", "resize=20", what="OpenCV")
    with patch.dict(sys.modules, {"gymnasium": None}):
        yield _refuse(bench, "CartPole-v1", "needs gymnasium: pip install 'tfsm[gym]'")


def refuse_spaces(bench: EnvBench) -> Iterator[Trial]:
    """Use environments with observations and actions that are not supported, and options that do not fit."""
    number = FragileEnv.observation_space
    cases: dict[str, tuple[Any, Any, str]] = {
        "only text": (spaces.Text(9), number, "has only text as observations"),
        "sequences": (spaces.Sequence(number), number, "has observations of the space Sequence"),
        "nothing": (spaces.Dict({}), number, "has empty observations"),
        "several actions": (number, spaces.Tuple([number]), "has actions of the space Tuple"),
    }
    for name, (seen, acts, expected) in cases.items():
        with _odd_env(observation_space=seen, action_space=acts) as odd:
            yield _refuse(bench, odd, expected, what=name)
    register()
    for option, expected in {
        "grayscale=yes": "grayscale=yes does not fit the environment",
        "policy=nature-cnn": "expected images of at least 36x36 pixels",
        "env_options=8x8": "expected keyword arguments as JSON",
    }.items():
        yield _refuse(bench, NAME, expected, option, what=option)


@contextmanager
def _odd_env(**members: Any) -> Iterator[str]:
    """Register an environment with other spaces, and return its name."""
    gymnasium.register("tests/Odd-v0", type("OddEnv", (FragileEnv,), members))
    try:
        yield "tests/Odd-v0"
    finally:
        del gymnasium.registry["tests/Odd-v0"]


def _refuse(bench: EnvBench, name: str, expected: str, *sets: str, what: str = "") -> Trial:
    """Start an experiment that must be refused in one line, before anything is written."""
    out, problems = bench.new_out(), []
    start: Callable[[], object] = lambda: bench.engines.engine(  # noqa: E731
        bench.plugins,
        resolve(
            bench.plugins, domain="gym", mutation="control", overrides=SMALL, sets=[*SETS, f"env={name}", *sets]
        ).settings,
    )
    try:
        start()
        problems.append("it was not refused")
    except TfsmError as error:
        if "\n" in str(error):
            problems.append(f"more than one line: {error}")
        if expected not in str(error):
            problems.append(f"{error}, expected {expected}")
    return Trial(what or name, not problems and not out.exists(), 0, "; ".join(problems))
