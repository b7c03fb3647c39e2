"""A Gymnasium environment that fails on demand; it imports no TensorFlow, because worker processes import it.

The environment variable `FRAGILE_ENV` names a control file. While it exists, episodes of some seeds fail as it says.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

NAME = "tests/Fragile-v0"
KINDS = {
    "reset": "raises an exception in reset()",
    "step": "raises an exception in step()",
    "exit": "calls sys.exit(0)",
    "hang": "does not come back from step()",
    "nan": "observes NaN",
    "reward": "rewards with NaN",
    "shape": "observes arrays of another shape",
    "none": "rewards with None",
    "die": "calls os._exit(3)",
}
UNLUCKY = 0.97
"""The share of episodes that do not fail."""


class FragileEnv(gymnasium.Env[np.ndarray, Any]):
    """Match a hidden number; solved by luck."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._time, self._unlucky = 0, bool(self.np_random.uniform() > UNLUCKY)
        self._seen = self.np_random.normal(size=2).astype(np.float32)
        if self._failure() == "reset":
            raise RuntimeError("the simulator\n  is gone")
        return self._seen.copy(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._time += 1
        kind = self._failure()
        if kind == "step":
            raise RuntimeError("the simulator\n  is gone")
        if kind == "exit":
            sys.exit(0)
        if kind == "die":
            os._exit(3)
        while kind == "hang" and self._failure():
            time.sleep(0.05)
        seen: Any = {"nan": np.full(2, np.nan, np.float32), "shape": np.zeros(3)}.get(kind, self._seen.copy())
        reward: Any = {"reward": float("nan"), "none": None}.get(kind, -abs(float(action[0]) - self._seen.sum()))
        return seen, reward, self._time == 3, False, {}

    def _failure(self) -> str:
        file = Path(os.environ.get("FRAGILE_ENV", "")) if self._unlucky else None
        return file.read_text() if file is not None and file.is_file() else ""


def register() -> None:
    """Register the environment."""
    if NAME not in gymnasium.registry:
        gymnasium.register(NAME, FragileEnv)
