"""Taking pictures of an environment while it is stepped."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tfsm.errors import TfsmError
from tfsm.rollouts.film import PictureFilm
from tfsm_gym.loading import Recipe, make, reason

RATE: Final = 30.0
"""Frames a second, where an environment does not say."""
MODE: Final = "rgb_array"


class Camera:
    """An environment that is filmed.

    Args:
        recipe: how to make it.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._name = recipe.name
        self._env = make(recipe, told=False, render=True)
        if self._env.render_mode != MODE or MODE not in self._env.metadata.get("render_modes", [MODE]):
            self._env.close()
            raise self._blind("it has no pictures (its render modes lack 'rgb_array')")
        self.film = PictureFilm(self._env.metadata.get("render_fps") or RATE)

    def reset(self, *, seed: int) -> tuple[Any, Any]:
        """Begin an episode."""
        found = self._env.reset(seed=seed)
        self._take()
        return found[0], found[1]

    def step(self, action: Any) -> Any:
        """Act."""
        found = self._env.step(action)
        self._take()
        return found

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _take(self) -> None:
        try:
            picture = np.asarray(self._env.render())
        except Exception as error:
            hint = ": pip install 'tfsm[replay]'" if "pygame" in str(error).lower() else ""
            raise self._blind(f"{reason(error)}{hint}") from error
        if picture.ndim != 3 or picture.shape[-1] != 3:
            raise self._blind(f"it draws arrays of shape {picture.shape}, expected [height, width, 3]")
        self.film.add(picture.astype(np.uint8, copy=False))

    def _blind(self, why: str) -> TfsmError:
        return TfsmError(f"the environment {self._name!r} cannot be filmed: {why}")
