"""What Gymnasium is told, before and after an environment is made."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium")

import tfsm_domains.envs  # noqa: E402
from tests.domains.envs.players import IDS  # noqa: E402
from tfsm.errors import TfsmError  # noqa: E402


def test_importing_registers_all_without_tensorflow() -> None:
    code = f"""
import sys, gymnasium, tfsm_domains.envs  # noqa: E402
assert "tensorflow" not in sys.modules and "keras" not in sys.modules
gymnasium.register_envs(tfsm_domains.envs)
assert set({IDS!r}) <= set(gymnasium.registry)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_importing_twice_changes_nothing() -> None:
    before = {name: gymnasium.spec(name) for name in IDS}
    importlib.reload(tfsm_domains.envs)
    assert all(gymnasium.spec(name) is spec for name, spec in before.items())


def test_without_gymnasium_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)  # as if it were not installed
    with pytest.raises(TfsmError, match=r"^tfsm_domains.envs needs gymnasium: pip install 'tfsm\[gym\]'$"):
        importlib.reload(tfsm_domains.envs)


@pytest.mark.parametrize("name", IDS)
def test_what_is_registered_is_true_of_the_default_maze(name: str) -> None:
    spec = gymnasium.spec(name)
    env: Any = gymnasium.make(f"tfsm_domains.envs:{name}")
    assert spec.reward_threshold == env.unwrapped.reward_threshold
    assert spec.max_episode_steps == env.unwrapped._world.limit
    assert not spec.nondeterministic
    # Before an instance knows better, the class tells the same.
    assert type(env.unwrapped).metadata == env.metadata
    env.close()


def test_a_reached_goal_is_worth_the_way_there() -> None:
    from tfsm_domains.hard_maze.domain import HardMaze

    maze = HardMaze()
    way = float(maze.way.at([maze.place.start])[0])
    assert way == pytest.approx(461.3, abs=0.05)  # docs/hard-maze.md
    threshold = gymnasium.spec("tfsm/HardMaze-v0").reward_threshold
    assert way - maze.place.reach - 1.0 < threshold <= way - maze.place.reach


def test_other_mazes_have_thresholds_of_their_own() -> None:
    for name in IDS[1:]:
        env: Any = gymnasium.make(name, maze="short")
        assert env.unwrapped.reward_threshold == 18.0  # of 19 squares
