"""Helpers that play episodes in an environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm_domains.envs.hard_maze import HardMazeSimulator

IDS = ("tfsm/HardMaze-v0", "tfsm/TopdownMaze-v0", "tfsm/FirstPersonMaze-v0")


@dataclass
class Episode:
    """The observations, rewards and infos of an episode."""

    seen: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False

    @property
    def total(self) -> float:
        return math.fsum(self.rewards)


def play_episode(env: Any, decide: Callable[[np.ndarray, dict[str, Any]], Any]) -> Episode:
    """Play until the episode is over."""
    seen, info = env.reset()
    episode = Episode([seen], [], [info])
    while not (episode.terminated or episode.truncated):
        seen, reward, episode.terminated, episode.truncated, info = env.step(decide(seen, info))
        episode.seen.append(seen)
        episode.rewards.append(reward)
        episode.infos.append(info)
    return episode


def follow_script(actions: Iterable[Any], idle: Any) -> Callable[[np.ndarray, dict[str, Any]], Any]:
    """Return a policy that follows a script, and is idle afterwards."""
    left = iter(actions)
    return lambda seen, info: next(left, idle)


def search_actions(simulator: HardMazeSimulator, beam: int = 48) -> list[np.ndarray]:
    """Return actions that lead to the goal, found by a beam search over decisions.

    States in nearly the same pose count as one, so that a dead end does not fill the beam.
    """
    choices = np.array([(turn, speed) for turn in (0.0, 0.25, 0.5, 0.75, 1.0) for speed in (0.5, 1.0)], np.float32)
    agents = simulator.start(beam * len(choices))
    scripts: list[list[np.ndarray]] = [[] for _ in range(beam)]
    for _ in range(simulator.limit):
        agents = simulator.advance(agents, np.tile(choices, [beam, 1]))
        scripts = [[*script, choice] for script in scripts for choice in choices]
        if agents.solved.any():
            return scripts[int(agents.solved.argmax())]
        info = simulator.info(agents)
        poses = np.column_stack([info["position"] // 3, info["heading"] // 20])
        order = np.argsort(info["left"], kind="stable")
        _, first = np.unique(poses[order], axis=0, return_index=True)
        best = np.resize(order[np.sort(first)], beam)  # repeat from the best one if there are too few
        lanes = np.repeat(best, len(choices))
        scripts = [scripts[i] for i in best]
        state = type(agents.state)(*(tf.gather(x, lanes) for x in agents.state))
        agents = agents._replace(state=state, time=tf.gather(agents.time, lanes))
    raise AssertionError("no way was found")
