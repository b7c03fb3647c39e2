"""`MazeEnv` and `MazeVectorEnv`, the base classes of the maze environments, with rendering.

A `MazeSimulator` holds everything that is specific to one maze; equal simulators share their compiled step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium.vector.utils import batch_space

from tfsm.abilities import Film
from tfsm.errors import TfsmError, import_optional, suggestion
from tfsm.interfaces import Tensor
from tfsm.render.canvas import open_window


class Window:
    """A window that shows frames; it opens with the first one.

    Args:
        title: the window title.
        rate: maximum frames per second.
    """

    def __init__(self, title: str, rate: float) -> None:
        self._title, self._rate = title, rate
        self._screen: Any = None
        self._clock: Any = None

    def show(self, picture: np.ndarray) -> None:
        """Show a frame, and wait until the next one is due."""
        pygame = import_optional("pygame", extra="replay", purpose="a window")
        if self._screen is None:
            self._open(pygame, picture)
        self._screen.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(self._rate)

    def close(self) -> None:
        """Close the window if it is open."""
        if self._screen is not None:
            import_optional("pygame", extra="replay", purpose="a window").display.quit()
            self._screen = self._clock = None

    def _open(self, pygame: Any, picture: np.ndarray) -> None:
        try:
            self._screen = open_window(pygame, (picture.shape[1], picture.shape[0]))
        except pygame.error as error:
            raise TfsmError(
                f'cannot open a window ({error}); use render_mode="rgb_array" to render without one'
            ) from None
        pygame.display.set_caption(self._title)
        self._clock = pygame.time.Clock()

    def __getstate__(self) -> dict[str, Any]:
        """Copy the window as closed."""
        return {**self.__dict__, "_screen": None, "_clock": None}


MIN_LANES: Final = 2
"""XLA drops a batch axis of one and then sums in another order."""


SimulatorState = Any
"""The complete state of a simulator: a named tuple of tensors `[B, ...]`."""


class StepOutput(NamedTuple):
    """The observations and scores of B agents."""

    seen: Tensor
    """`[B, ...]`, as in the observation space."""
    score: Tensor
    """`[B]`; rewards are its changes."""
    solved: Tensor
    """`[B]`"""


class AgentBatch(NamedTuple):
    """B agents between two decisions."""

    state: SimulatorState
    time: Tensor
    """`[B]`, the number of decisions made; -1: the next step resets the agent, whatever the action."""
    seen: np.ndarray
    score: np.ndarray
    solved: np.ndarray


class MazeSimulator(ABC):
    """A maze as a vectorized simulator. Subclasses are frozen dataclasses, so that equal ones are compiled once."""

    hold: int
    """Film frames per decision."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """Decisions per episode."""

    @property
    @abstractmethod
    def frames(self) -> int:
        """Film frames per episode, without the first."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """Film frames per second."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """The return of a solved episode."""

    @abstractmethod
    def observations(self) -> gymnasium.spaces.Box:
        """Return the observation space of one agent."""

    @abstractmethod
    def actions(self) -> gymnasium.Space[Any]:
        """Return the action space of one agent."""

    @abstractmethod
    def idle(self, count: int) -> np.ndarray:
        """Return actions for `count` agents that do nothing."""

    @abstractmethod
    def check_actions(self, actions: Any, count: int) -> np.ndarray:
        """Validate the actions of `count` agents and convert them to the simulator's type."""

    @abstractmethod
    def begin(self, lanes: int) -> SimulatorState:
        """Return the state of agents at the start."""

    @abstractmethod
    def step(self, state: SimulatorState, time: Tensor, actions: Tensor) -> SimulatorState:
        """Return the state after a decision."""

    @abstractmethod
    def observe(self, state: SimulatorState) -> StepOutput:
        """Return the observations and scores of a state."""

    @abstractmethod
    def info(self, agents: AgentBatch) -> dict[str, np.ndarray]:
        """Return the info dict of an environment, `[B, ...]` per entry."""

    @abstractmethod
    def poses(self, agents: AgentBatch) -> np.ndarray:
        """Return the film poses since the previous decision: `[B, hold, D]`."""

    @abstractmethod
    def film(self, trail: np.ndarray, seen: np.ndarray) -> Film:
        """Return a film of one agent.

        Args:
            trail: `[1, frames + 1, D]`, poses.
            seen: `[frames + 1, ...]`, observations.
        """

    def start(self, lanes: int) -> AgentBatch:
        """Return agents before their first decision."""
        lanes = max(MIN_LANES, lanes)
        # By the same compiled program as all other steps: another may round differently.
        unstarted = AgentBatch(self.begin(lanes), tf.fill([lanes], -1), *[np.empty(0)] * 3)
        return self.advance(unstarted, self.idle(lanes))

    def advance(self, agents: AgentBatch, actions: np.ndarray) -> AgentBatch:
        """Apply one action per agent.

        Args:
            agents: the agents before the step.
            actions: `[B, ...]`, or fewer where there are fewer agents than lanes.
        """
        lanes = agents.time.shape[0]
        if len(actions) < lanes:
            actions = actions[np.minimum(np.arange(lanes), len(actions) - 1)]
        time, seen, score, solved, *state = _compiled(self, lanes)(agents.time, tf.constant(actions), *agents.state)
        return AgentBatch(type(agents.state)(*state), time, seen.numpy(), score.numpy(), solved.numpy())


@lru_cache(maxsize=32)
def _compiled(simulator: MazeSimulator, lanes: int) -> Callable[..., Any]:
    kind = type(simulator.begin(lanes))

    def decide(time: Tensor, actions: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        fresh = time < 0

        def chosen(start: Tensor, new: Tensor) -> Tensor:
            return tf.where(tf.reshape(fresh, [-1, *[1] * (new.shape.rank - 1)]), start, new)

        stepped = simulator.step(kind(*state), time, actions)
        after = kind(*(chosen(*both) for both in zip(simulator.begin(lanes), stepped, strict=True)))
        return time + 1, *simulator.observe(after), *after

    # A concrete function with flat arguments: looking up the signature and packing take longer than the simulation.
    example = (tf.fill([lanes], -1), simulator.idle(lanes), *simulator.begin(lanes))
    return tf.function(decide, jit_compile=True, autograph=False).get_concrete_function(
        *(tf.TensorSpec(x.shape, x.dtype) for x in example)
    )


class EpisodeRecording:
    """Records the trail of the first agent and its latest view, for rendering.

    Args:
        simulator: the simulator.
        agents: the agents at the start.
    """

    def __init__(self, simulator: MazeSimulator, agents: AgentBatch) -> None:
        self._simulator, self._frame = simulator, 0
        poses = simulator.poses(agents)
        self._trail = np.zeros([1, simulator.frames + 1, poses.shape[-1]])
        self._seen = agents.seen[0].copy()
        self._trail[0, 0] = poses[0, -1]

    @cached_property
    def _film(self) -> Film:
        # The film is a view of arrays that keep changing.
        return self._simulator.film(self._trail, np.broadcast_to(self._seen, [self._trail.shape[1], *self._seen.shape]))

    def begin(self, agents: AgentBatch) -> None:
        """Start a new episode."""
        self._frame = 0
        self._trail[0, 0] = self._simulator.poses(agents)[0, -1]
        self._seen[...] = agents.seen[0]

    def add(self, agents: AgentBatch) -> None:
        """Add one decision."""
        poses = self._simulator.poses(agents)[0]
        left = self._trail[0, self._frame + 1 :][: len(poses)]
        left[...] = poses[: len(left)]
        self._frame += len(left)
        self._seen[...] = agents.seen[0]

    def picture(self) -> np.ndarray:
        """Draw the current frame: `[height, width, 3]`, uint8."""
        return self._film.frame(self._frame)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the film: a canvas cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "_film"}


def render_metadata(rate: float) -> dict[str, Any]:
    """Return the metadata of an environment that renders `rate` frames per second."""
    return {"render_modes": ["human", "rgb_array"], "render_fps": rate}


class MazeEnv(gymnasium.Env[np.ndarray, Any]):
    """One agent in a simulator. Everything is deterministic, so the seed has no effect.

    Args:
        simulator: the simulator.
        render_mode: `human`, `rgb_array` or None.
    """

    metadata: dict[str, Any]

    def __init__(self, simulator: MazeSimulator, render_mode: str | None) -> None:
        modes = type(self).metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise TfsmError(f"no render mode named {render_mode!r}{suggestion(render_mode, modes)}")
        self.render_mode = render_mode
        self.metadata = render_metadata(simulator.rate / simulator.hold)
        self.observation_space, self.action_space = simulator.observations(), simulator.actions()
        self._simulator = simulator
        self._agents: AgentBatch | None = None
        self._over = False
        self._recording: EpisodeRecording | None = None
        self._window = Window("tfsm", self.metadata["render_fps"])

    @property
    def reward_threshold(self) -> float:
        """The return of a solved episode in this maze; the registered threshold is that of the default maze."""
        return self._simulator.threshold

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; there are no options."""
        super().reset(seed=seed)
        self._warn_if_cut_off()
        self._agents, self._over = self._simulator.start(1), False
        if self.render_mode is not None:
            if self._recording is None:
                self._recording = EpisodeRecording(self._simulator, self._agents)
            self._recording.begin(self._agents)
        return self._observe(self._agents)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take one step."""
        before = self._agents
        if before is None or self._over:
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is running")
        actions = self._simulator.check_actions(np.asarray(action)[None], 1)
        now = self._agents = self._simulator.advance(before, actions)
        terminated, truncated = bool(now.solved[0]), _steps(now) >= self._simulator.limit
        self._over = terminated or truncated
        if self._recording is not None:
            self._recording.add(now)
        seen, info = self._observe(now)
        return seen, float(now.score[0]) - float(before.score[0]), terminated, truncated, info

    def render(self) -> Any:
        """Return a frame if the mode is `rgb_array`; in mode `human`, `step` and `reset` already show it."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                "nothing is rendered without a render mode; pass render_mode when making the environment"
            )
        elif self._recording is None:
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is running")
        elif self.render_mode == "rgb_array":
            return self._recording.picture()
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        self._window.close()

    def _observe(self, agents: AgentBatch) -> tuple[np.ndarray, dict[str, Any]]:
        if self.render_mode == "human" and self._recording is not None:
            self._window.show(self._recording.picture())
        info = {
            key: value[0] if value.ndim > 1 else value[0].item() for key, value in self._simulator.info(agents).items()
        }
        return agents.seen[0].copy(), info

    def _warn_if_cut_off(self) -> None:
        """Warn if an episode was cut off by the limit registered for the default maze."""
        known = gymnasium.registry.get(self.spec.id) if self.spec is not None else None
        if known is not None and self._agents is not None and not self._over:
            warn_of_limit(_steps(self._agents), self._simulator.limit, known.max_episode_steps)


def _steps(agents: AgentBatch) -> int:
    return int(agents.time.numpy()[0])


def warn_of_limit(steps: int, limit: int, registered: int | None) -> None:
    """Warn if episodes end at the registered number of steps, before the maze's own limit."""
    if steps == registered and steps < limit:
        gymnasium.logger.warn(
            f"an episode of this maze has {limit} steps, but is cut off after {steps}, the limit registered for the "
            "default maze; make the environment with max_episode_steps=-1"
        )


class MazeVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, Any, np.ndarray]):
    """Independent agents, stepped together. An agent whose episode is over is reset by the next step.

    Args:
        simulator: the simulator.
        count: the number of agents.
        name: the registered name of the environment.
        most: maximum steps per episode; -1 or None: the simulator's own limit.
        render_mode: must be None.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": [],
        "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self, simulator: MazeSimulator, count: int, name: str, most: int | None, render_mode: str | None
    ) -> None:
        if render_mode is not None:
            raise TfsmError('vectorized environments are not rendered; use vectorization_mode="sync"')
        self.num_envs = count
        self.single_observation_space, self.single_action_space = simulator.observations(), simulator.actions()
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self._simulator, self._limit = simulator, simulator.limit
        if most is not None and most != -1:
            warn_of_limit(most, simulator.limit, gymnasium.spec(name).max_episode_steps)
            self._limit = min(most, simulator.limit)
        self._agents: AgentBatch | None = None
        self._over = np.zeros([count], bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all episodes; the seed has no effect, and there are no options."""
        super().reset(seed=seed)
        self._agents = self._simulator.start(self.num_envs)
        self._over = np.zeros([self.num_envs], bool)
        return self._observe(self._agents)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step per agent."""
        before, fresh, count = self._agents, self._over, self.num_envs
        if before is None:
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is running")
        checked = self._simulator.check_actions(actions, count)
        if fresh.any():
            time = before.time.numpy()
            time[:count][fresh] = -1
            before = before._replace(time=tf.constant(time))
        now = self._agents = self._simulator.advance(before, checked)
        rewards = np.where(fresh, 0.0, now.score[:count].astype(float) - before.score[:count])
        terminated = now.solved[:count] & ~fresh
        truncated = now.time.numpy()[:count] >= self._limit
        self._over = terminated | truncated
        seen, info = self._observe(now)
        return seen, rewards, terminated, truncated, info

    def _observe(self, agents: AgentBatch) -> tuple[np.ndarray, dict[str, Any]]:
        info: dict[str, Any] = {}
        for key, value in self._simulator.info(agents).items():
            info[key] = value[: self.num_envs]
            info[f"_{key}"] = np.ones([self.num_envs], bool)
        return agents.seen[: self.num_envs], info
