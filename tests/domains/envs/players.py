"""Episodes played in an environment, and who plays them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfsm_hardmaze.breadcrumb import Field
from tfsm_hardmaze.robot import LIMIT

IDS = ("tfsm/HardMaze-v0", "tfsm/TopdownMaze-v0", "tfsm/FirstPersonMaze-v0")


@dataclass
class Episode:
    """What an environment said, from the reset to the end."""

    seen: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False

    @property
    def total(self) -> float:
        return math.fsum(self.rewards)


def played(env: Any, decide: Callable[[np.ndarray, dict[str, Any]], Any]) -> Episode:
    """Play until the episode is over."""
    seen, info = env.reset()
    episode = Episode([seen], [], [info])
    while not (episode.terminated or episode.truncated):
        seen, reward, episode.terminated, episode.truncated, info = env.step(decide(seen, info))
        episode.seen.append(seen)
        episode.rewards.append(reward)
        episode.infos.append(info)
    return episode


def scripted(actions: Iterable[Any], idle: Any) -> Callable[[np.ndarray, dict[str, Any]], Any]:
    """Return who does what a script says, and nothing after it."""
    left = iter(actions)
    return lambda seen, info: next(left, idle)


def guided(way: Field) -> Callable[[np.ndarray, dict[str, Any]], np.ndarray]:
    """Return who knows the way: turns towards a place that is some way nearer to the goal, and slows down to turn."""

    def decide(seen: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        x, y = _nearer(way, info["position"], 12.0) - info["position"]
        off = (math.degrees(math.atan2(y, x)) - info["heading"] + 180.0) % 360.0 - 180.0
        turn, speed = np.clip(off / 12.0, -LIMIT, LIMIT), 2.0 if abs(off) < 20.0 else 0.0
        return np.array([turn, speed], np.float32) / (2.0 * LIMIT) + np.float32(0.5)

    return decide


def _nearer(way: Field, position: np.ndarray, distance: float) -> np.ndarray:
    """Follow the breadcrumbs from grid point to grid point."""
    place = np.round((position - way.origin) / way.spacing).astype(int)
    beside = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)])
    for _ in range(round(distance / way.spacing)):
        around = place + beside
        free = way.free[tuple(around.T)]
        place = around[np.where(free, way.length[tuple(around.T)], np.inf).argmin()]
    return way.origin + place * way.spacing
