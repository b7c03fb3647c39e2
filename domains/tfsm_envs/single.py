"""An environment of one agent."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from tfsm.errors import TfsmError, suggestion
from tfsm_envs.recording import Recording
from tfsm_envs.window import Window
from tfsm_envs.worlds import Moment, World


def drawn_at(rate: float) -> dict[str, Any]:
    """Return the metadata of an environment that draws so many pictures a second."""
    return {"render_modes": ["human", "rgb_array"], "render_fps": rate}


class MazeEnv(gymnasium.Env[np.ndarray, Any]):
    """One agent in a world; nothing is left to chance, so a seed changes nothing.

    Args:
        world: where it is.
        render_mode: `human`, `rgb_array` or None.
    """

    metadata: dict[str, Any]

    def __init__(self, world: World, render_mode: str | None) -> None:
        modes = type(self).metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise TfsmError(f"no render mode named {render_mode!r}{suggestion(render_mode, modes)}")
        self.render_mode = render_mode
        self.metadata = drawn_at(world.rate / world.hold)
        self.observation_space, self.action_space = world.observations(), world.actions()
        self._world = world
        self._moment: Moment | None = None
        self._over = False
        self._recording: Recording | None = None
        self._window = Window("tfsm", self.metadata["render_fps"])

    @property
    def reward_threshold(self) -> float:
        """What a solved episode returns in this maze, as the registered one says of the default maze."""
        return self._world.threshold

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        self._check_whole()
        self._moment, self._over = self._world.start(1), False
        if self.render_mode is not None:
            if self._recording is None:
                self._recording = Recording(self._world, self._moment)
            self._recording.begin(self._moment)
        return self._told(self._moment)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Make a decision."""
        before = self._moment
        if before is None or self._over:
            raise gymnasium.error.ResetNeeded("call reset(): no episode is going on")
        actions = self._world.checked(np.asarray(action)[None], 1)
        now = self._moment = self._world.go(before, actions)
        terminated, truncated = bool(now.solved[0]), _steps(now) >= self._world.limit
        self._over = terminated or truncated
        if self._recording is not None:
            self._recording.add(now)
        seen, info = self._told(now)
        return seen, float(now.score[0]) - float(before.score[0]), terminated, truncated, info

    def render(self) -> Any:
        """Return a picture of the episode so far if the mode is `rgb_array`; a window shows it anyway."""
        if self.render_mode is None:
            gymnasium.logger.warn("nothing is drawn without a render mode: make the environment with one")
        elif self._recording is None:
            raise gymnasium.error.ResetNeeded("call reset(): no episode is going on")
        elif self.render_mode == "rgb_array":
            return self._recording.picture()
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        self._window.close()

    def _told(self, moment: Moment) -> tuple[np.ndarray, dict[str, Any]]:
        if self.render_mode == "human" and self._recording is not None:
            self._window.show(self._recording.picture())
        info = {key: value[0] if value.ndim > 1 else value[0].item() for key, value in self._world.info(moment).items()}
        return moment.seen[0].copy(), info

    def _check_whole(self) -> None:
        """Warn if an episode was cut off by what is registered for the default maze."""
        known = gymnasium.registry.get(self.spec.id) if self.spec is not None else None
        if known is not None and self._moment is not None and not self._over:
            warn_of_limit(_steps(self._moment), self._world.limit, known.max_episode_steps)


def _steps(moment: Moment) -> int:
    return int(moment.time.numpy()[0])


def warn_of_limit(steps: int, limit: int, registered: int | None) -> None:
    """Warn if episodes end after the registered number of steps, and should not."""
    if steps == registered and steps < limit:
        gymnasium.logger.warn(
            f"an episode of this maze has {limit} steps, but is cut off after {steps}, as is registered for the "
            "default maze: make the environment with max_episode_steps=-1"
        )
