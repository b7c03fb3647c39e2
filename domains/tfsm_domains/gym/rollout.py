"""Episodes in Gymnasium environments: playing them side by side, recording experience and filming."""

from __future__ import annotations

import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from threading import RLock
from typing import Any, Final, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Nest, Tensor
from tfsm.models.network import STATISTICS, Network
from tfsm.render.canvas import headless_display
from tfsm.render.video import RecordedFilm
from tfsm.rollouts import Policy, PolicyCompiler, pick_evenly
from tfsm_domains.gym import GymOptions
from tfsm_domains.gym.env_pool import EnvPool, LocalEnvPool, ProcessEnvPool, RenderedEnv
from tfsm_domains.gym.environment import (
    EnvConfig,
    Preprocessing,
    describe_env_error,
    env_error,
    make_env,
    parse_env_options,
    quiet_gymnasium,
    registered_spec,
)
from tfsm_domains.gym.spaces import (
    ActionDecoder,
    ObservationEncoder,
    build_action_decoder,
    list_texts,
    normalize_by_bounds,
    normalize_by_samples,
)


class ExperienceRecorder(Protocol):
    """Receives the observations of every step and keeps some of them."""

    def record(self, observations: Sequence[np.ndarray], active: np.ndarray) -> None:
        """Receive `[B, E, ...]` per input; only entries where `active`, `[B, E]`, are of this step."""
        ...

    def experience(self) -> list[np.ndarray]:
        """Return the kept observations, `[B, ...]` per input."""
        ...


class EpisodeResults(NamedTuple):
    """The results of E episodes for each of B genomes."""

    total: np.ndarray
    """`[B, E]`, the sum of rewards; NaN where an output or a reward was not finite."""
    steps: np.ndarray
    """`[B, E]`"""
    terminated: np.ndarray
    """`[B, E]`, bool: whether the environment terminated, as opposed to running out of time."""


class Part(NamedTuple):
    """Some of the genomes, all of whose episodes take their steps together."""

    genomes: slice
    policy: Policy
    """Maps their inputs to outputs."""
    recorder: ExperienceRecorder | None = None
    """Receives their observations."""


def play_episodes(
    envs: EnvPool,
    template: Sequence[np.ndarray],
    decoder: ActionDecoder,
    parts: Sequence[Part],
    seeds: np.ndarray,
    *,
    hold: int = 1,
    normalize: Callable[[list[np.ndarray]], list[np.ndarray]] = lambda observed: observed,
) -> EpisodeResults:
    """Play all episodes side by side.

    Args:
        envs: the environments.
        template: an observation, one array per network input.
        decoder: turns network outputs into actions.
        parts: all of the genomes. Parts take turns, so that one is simulated while another one decides.
        seeds: seeds of the episodes, `[B, E]`.
        hold: steps per action.
        normalize: applied to all observations.
    """
    total, steps, terminated = np.zeros(seeds.shape), np.zeros(seeds.shape, np.int64), np.zeros(seeds.shape, bool)
    results = EpisodeResults(total, steps, terminated)
    numbers = np.arange(seeds.size).reshape(seeds.shape)
    first = normalize(envs.reset(seeds.ravel().tolist()))

    def play(part: Part) -> Iterator[bool]:
        """Play the episodes of a part, and yield whenever it has started a step."""
        own = numbers[part.genomes]
        total, steps, terminated = (array[part.genomes].reshape(-1) for array in results)  # views
        flat = [observed[own.ravel()].astype(x.dtype, copy=False) for observed, x in zip(first, template, strict=True)]
        inputs = [array.reshape([*own.shape, *array.shape[1:]]) for array in flat]  # views, too
        active = np.ones(own.size, bool)
        while True:
            seeing = active.reshape(own.shape).copy()
            outputs = part.policy(inputs).reshape([own.size, -1])
            finite = np.isfinite(outputs).all(axis=1)
            total[active & ~finite] = np.nan
            active &= finite
            indices = np.flatnonzero(active)
            if len(indices):
                envs.start_step(own.ravel()[indices], decoder.decode(outputs[indices]), hold)
            if part.recorder is not None:  # while processes take the step
                part.recorder.record(inputs, seeing)
            if not len(indices):
                break
            yield True
            stepped = envs.finish_step()
            total[indices] += stepped.reward
            steps[indices] += stepped.steps
            terminated[indices] = stepped.terminated
            active[indices] = ~(stepped.terminated | stepped.truncated)
            for array, observed in zip(flat, normalize(stepped.observations), strict=True):
                array[indices] = observed

    playing = deque(play(part) for part in parts)
    while playing:
        part = playing.popleft()
        if next(part, False):
            playing.append(part)
    total[~np.isfinite(total)] = np.nan
    return results


class SpreadRecorder:
    """Keeps observations of every genome, evenly spread over all steps of all its episodes.

    A genome keeps every step at first. When it has kept twice as many as asked for, it drops every second one, and
    keeps every second step from then on. What is kept of one genome does not depend on how long the others last.

    Args:
        genomes: B.
        count: observations per genome.
    """

    def __init__(self, genomes: int, count: int) -> None:
        self._count = count
        # Of genomes that are still playing, the same steps are kept.
        self._step, self._every, self._length = 0, 1, 0
        self._lengths = np.zeros(genomes, np.int64)
        self._kept: list[np.ndarray] = []  # active [B, S, E], then [B, S, E, ...] per input

    def record(self, observations: Sequence[np.ndarray], active: np.ndarray) -> None:
        """Receive the observations of one step."""
        rows = np.flatnonzero(active.any(axis=1))
        offered, self._step = self._step, self._step + 1
        if offered % self._every or not len(rows):
            return
        parts = [active, *observations]
        if not self._kept or self._length == self._kept[0].shape[1]:
            self._grow(parts)
        for kept, part in zip(self._kept, parts, strict=True):
            kept[rows, self._length] = part[rows]
        self._length += 1
        self._lengths[rows] = self._length
        if self._length == 2 * self._count:
            self._every, self._length = 2 * self._every, self._count
            self._lengths[rows] = self._length
            for kept in self._kept:
                kept[rows, : self._count] = kept[rows, ::2]

    def experience(self) -> list[np.ndarray]:
        """Return `[B, count, ...]`, one episode after the other."""
        active, *parts = self._kept
        picked = [
            pick_evenly(
                [(e, s) for e in range(active.shape[2]) for s in np.flatnonzero(active[b, :length, e])], self._count
            )
            for b, length in enumerate(self._lengths.tolist())
        ]
        return [np.stack([np.stack([part[b, s, e] for e, s in one]) for b, one in enumerate(picked)]) for part in parts]

    def _grow(self, parts: Sequence[np.ndarray]) -> None:
        """Make room for more steps."""
        if not self._kept:
            self._kept = [np.zeros([len(part), 0, *part.shape[1:]], part.dtype) for part in parts]
        more = min(max(16, self._length), 2 * self._count - self._length)
        self._kept = [
            np.concatenate([kept, np.zeros([len(kept), more, *kept.shape[2:]], kept.dtype)], axis=1)
            for kept in self._kept
        ]


class SequenceRecorder:
    """Keeps the first steps of every genome's first episode, for networks that take sequences.

    Args:
        count: T, the number of steps; the last observation of a shorter episode is repeated.
    """

    def __init__(self, count: int) -> None:
        self._count, self._step = count, 0
        self._sequences: list[np.ndarray] = []

    def record(self, observations: Sequence[np.ndarray], active: np.ndarray) -> None:
        """Receive the observations of one step."""
        if not self._sequences:
            self._sequences = [np.repeat(part[:, :1, None], self._count, axis=2) for part in observations]
        if self._step < self._count:
            for sequence, part in zip(self._sequences, observations, strict=True):
                # Fill up to the end; later steps overwrite the rest.
                sequence[active[:, 0], 0, self._step :] = part[active[:, 0], 0, None]
        self._step += 1

    def experience(self) -> list[np.ndarray]:
        """Return `[B, 1, T, ...]`."""
        return self._sequences


RATE: Final = 30.0
"""Frames per second of environments that do not declare a rate."""
MODE: Final = "rgb_array"


class FilmingEnv:
    """An environment that adds every frame to a film.

    Args:
        config: how to make the environment.
    """

    def __init__(self, config: EnvConfig) -> None:
        self._name = config.name
        if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
            os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo's default needs a display
        is_mujoco = "mujoco" in str(getattr(config.spec, "entry_point", "")).lower()
        self._env: Any = RenderedEnv(config) if is_mujoco else make_env(config, render=True)
        if self._env.render_mode != MODE or MODE not in self._env.metadata.get("render_modes", [MODE]):
            self._env.close()
            raise self._film_error("it has no render mode 'rgb_array'")
        self.film = RecordedFilm(self._env.metadata.get("render_fps") or RATE)

    def reset(self, *, seed: int) -> tuple[Any, Any]:
        """Start an episode."""
        observation, info = self._env.reset(seed=seed)
        self._add_frame()
        return observation, info

    def step(self, action: Any) -> Any:
        """Take one step."""
        result = self._env.step(action)
        self._add_frame()
        return result

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _add_frame(self) -> None:
        try:
            frame = np.asarray(self._env.render())
        except Exception as error:
            hint = ": pip install 'tfsm[replay]'" if "pygame" in str(error).lower() else ""
            if isinstance(self._env, RenderedEnv):
                hint = f" (MUJOCO_GL={os.environ.get('MUJOCO_GL', '')}; others are egl, osmesa and glfw)"
            why = str(error) if isinstance(error, TfsmError) else describe_env_error(error)
            raise self._film_error(f"{why}{hint}") from error
        if frame.ndim != 3 or frame.shape[-1] != 3:
            raise self._film_error(f"it renders arrays of shape {frame.shape}, expected [height, width, 3]")
        self.film.add(frame.astype(np.uint8, copy=False))

    def _film_error(self, why: str) -> TfsmError:
        return TfsmError(f"the environment {self._name!r} cannot be filmed: {why}")


MIN_DIVIDED: Final = 16
"""Episodes from which on they are divided into parts; two calls of a network take longer than one."""


class EpisodeRunner:
    """Plays episodes in one environment, and closes its copies when it is garbage-collected.

    Args:
        options: the options of the domain.
    """

    def __init__(self, options: GymOptions) -> None:
        self._options = options
        asked = Preprocessing(
            text=options.text != "drop",
            sticky=options.sticky,
            frame_skip=options.frame_skip,
            grayscale=options.grayscale,
            resize=options.resize,
            stack=options.stack,
            clip_reward=options.clip_reward,
        )
        config = EnvConfig(options.env, parse_env_options(options.env_options), options.steps, preprocessing=asked)
        self.notes: list[str] = []
        """What the user should know before a run."""
        env = make_env(config, notify=self.notes.append)
        self.notes[:] = [f"{options.env}: {note}" for note in self.notes]
        try:
            spec = registered_spec(env)
            self._config = config._replace(spec=spec)
            space = env.observation_space
            self.encoder = ObservationEncoder(
                options.env, space, words=options.text == "words", flatten=options.flatten
            )
            if options.text == "drop" and (names := ", ".join(list_texts(env.unwrapped.observation_space))):
                self.notes.append(f"{options.env}: text is not observed: {names}; --set text=words encodes its words")
            self.decoder: ActionDecoder = build_action_decoder(options.env, env.action_space)
            self._normalize(env)
        finally:
            env.close()
        self.threshold = options.threshold
        """The fitness that counts as solved; None: never solved."""
        if self.threshold is None and spec is not None:
            self.threshold = spec.reward_threshold
        self._envs = self._build_pool()
        weakref.finalize(self, self._envs.close)
        self._policies = PolicyCompiler(to_inputs)
        self._lock = RLock()

    def play(
        self, network: Network, genomes: Tensor, seeds: np.ndarray
    ) -> tuple[EpisodeResults, tuple[np.ndarray, ...]]:
        """Let genomes `[B, P]` play episodes with seeds `[B, E]`.

        Returns:
            The results, and the recorded experience, `[B, ...]` per network input.
        """
        recorders: list[ExperienceRecorder] = []

        def record(count: int) -> ExperienceRecorder:
            recorders.append(self._recorder(network, count))
            return recorders[-1]

        results = self._play(self._envs, network, genomes, seeds, record)
        experience = [np.concatenate(one) for one in zip(*(part.experience() for part in recorders), strict=True)]
        return results, tuple(experience[i] for i in self._input_order(network))

    def returns(self, network: Network, genomes: Tensor, seeds: np.ndarray) -> np.ndarray:
        """Return the returns `[B, E]` of genomes `[B, P]` for seeds `[B, E]`, without recording experience."""
        return self._play(self._envs, network, genomes, seeds).total

    def film(self, network: Network, genome: Tensor, seed: int) -> RecordedFilm:
        """Film one episode of a genome `[1, P]`."""
        with headless_display():
            env = FilmingEnv(self._config)
            envs = LocalEnvPool(self._options.env, self.encoder, lambda: env)
            try:
                self._play(envs, network, genome, np.array([[seed]]))
            finally:
                envs.close()
        return env.film

    def _play(
        self,
        envs: EnvPool,
        network: Network,
        genomes: Tensor,
        seeds: np.ndarray,
        record: Callable[[int], ExperienceRecorder | None] = lambda genomes: None,
    ) -> EpisodeResults:
        template, order = list(self.encoder.template.values()), self._input_order(network)
        count, own = len(genomes), has_normalization(network.model)
        turns = min(envs.steps_ahead if seeds.size >= MIN_DIVIDED else 1, count)
        ends = [count * turn // turns for turn in range(turns + 1)]

        def make_part(first: int, end: int) -> Part:
            policy = self._policies.compile(network, genomes[first:end], [template[i] for i in order], seeds.shape[1])
            return Part(slice(first, end), lambda observed: policy([observed[i] for i in order]), record(end - first))

        with self._lock, quiet_gymnasium():
            return play_episodes(
                envs,
                template,
                self.decoder,
                [make_part(first, end) for first, end in pairwise(ends)],
                seeds,
                hold=self._options.hold,
                normalize=(lambda observed: observed) if own else self.encoder.normalize_vectors,
            )

    def _input_order(self, network: Network) -> list[int]:
        return match_inputs(network.model, list(self.encoder.template), self._options.env)

    def _recorder(self, network: Network, genomes: int) -> ExperienceRecorder:
        template, count = list(self.encoder.template.values()), self._options.remembered
        if not self._policies.takes_sequences(network, [template[i] for i in self._input_order(network)]):
            return SpreadRecorder(genomes, count)
        # Some networks only take sequences of one length.
        return SequenceRecorder(network.model.inputs[0].shape[1] or count)

    def _normalize(self, env: Any) -> None:
        if self._options.normalize == "bounds":
            normalize_by_bounds(self.encoder)
        elif self._options.normalize in ("sampled", "running"):
            try:
                with quiet_gymnasium():
                    normalize_by_samples(self.encoder, env, self._options.normalize_samples)
            except Exception as error:
                raise env_error(self._options.env, "step", error) from error

    def _build_pool(self) -> EnvPool:
        if self._options.vector == "async":
            action = self.decoder.decode(np.zeros([1, self.decoder.outputs], np.float32))[0]
            return ProcessEnvPool(self._config, self.encoder, np.asarray(action))
        config = self._config  # not the runner itself, which ends when nothing refers to it
        return LocalEnvPool(self._options.env, self.encoder, lambda: make_env(config))


def to_inputs(experience: Nest) -> Nest:
    """Return network inputs: images are stored as uint8 and scaled to [0, 1]."""
    return tf.nest.map_structure(_to_float, experience)


def _to_float(x: Tensor) -> Tensor:
    return tf.cast(x, tf.float32) / 255.0 if x.dtype == tf.uint8 else x


def match_inputs(model: keras.Model, names: Sequence[str], env: str) -> list[int]:
    """Return the index into `names` for each of the model's inputs; several inputs are matched by name."""
    if len(names) == 1:
        return [0]
    if not getattr(model, "inputs", None):
        raise TfsmError(f"{env!r} has the inputs {', '.join(names)}, but a subclassed model does not name its inputs")
    inputs = sorted(model.input) if isinstance(model.input, dict) else [tensor.name for tensor in model.inputs]
    if sorted(inputs) != sorted(names):
        raise TfsmError(f"the model's inputs are {', '.join(inputs)}, but those of {env!r} are {', '.join(names)}")
    return [list(names).index(name) for name in inputs]


NORMALIZATION: Final = "normalize"
"""Name of the layer with which a network normalizes its observations itself."""


def normalization_layer(encoder: ObservationEncoder, normalize: str) -> list[keras.layers.Layer]:
    """Return the layer that normalizes the vector of observations; none if it is not normalized."""
    if not encoder.is_normalized:
        return []
    if normalize == "running":  # its scale and offset are set by `set_statistics`; it does nothing else
        return [keras.layers.BatchNormalization(epsilon=0.0, name=STATISTICS)]
    scale = encoder.scale.astype(np.float64)
    offset = -encoder.shift * scale
    return [keras.layers.Rescaling(scale.tolist(), offset.tolist(), name=NORMALIZATION)]


def has_normalization(model: keras.Model) -> bool:
    """Return whether a network normalizes its observations itself."""
    return any(layer.name in (NORMALIZATION, STATISTICS) for layer in model.layers)


def set_statistics(model: keras.Model, encoder: ObservationEncoder) -> keras.Model:
    """Set the scale and offset of the layer that normalizes by running statistics, where a network has one."""
    for layer in model.layers:
        if layer.name == STATISTICS:
            layer.gamma.assign(encoder.scale)
            layer.beta.assign(-encoder.shift * encoder.scale)
    return model
