"""Episodes in Gymnasium environments: playing them side by side, recording experience and filming."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from threading import RLock
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from tfsm.errors import TfsmError
from tfsm.interfaces import Tensor
from tfsm.models.network import Network
from tfsm.render.canvas import headless_display
from tfsm.render.video import RecordedFilm
from tfsm.rollouts import ExperienceReservoir, Policy, PolicyCompiler, pick_evenly
from tfsm_domains.gym import GymOptions
from tfsm_domains.gym.env_pool import (
    EnvConfig,
    EnvPool,
    LocalEnvPool,
    ProcessEnvPool,
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
    match_inputs,
    normalize_by_bounds,
    normalize_by_samples,
    to_inputs,
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


def play_episodes(
    envs: EnvPool,
    encoder: ObservationEncoder,
    decoder: ActionDecoder,
    policy: Policy,
    seeds: np.ndarray,
    *,
    hold: int = 1,
    recorder: ExperienceRecorder | None = None,
) -> EpisodeResults:
    """Play all episodes side by side.

    Args:
        envs: the environments.
        encoder: turns observations into network inputs.
        decoder: turns network outputs into actions.
        policy: maps inputs to outputs.
        seeds: seeds of the episodes, `[B, E]`.
        hold: steps per action.
        recorder: receives the observations of every step.
    """
    count = seeds.size
    inputs = [np.zeros([*seeds.shape, *x.shape], x.dtype) for x in encoder.template.values()]
    flat = [part.reshape([count, *part.shape[2:]]) for part in inputs]  # views of the same memory
    encoder.encode_into(envs.reset(seeds.ravel().tolist()), flat, np.arange(count))
    total, steps, terminated = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, bool)
    active = np.ones(count, bool)
    while True:
        if recorder is not None:
            recorder.record(inputs, active.reshape(seeds.shape))
        outputs = policy(inputs).reshape([count, -1])
        finite = np.isfinite(outputs).all(axis=1)
        total[active & ~finite] = np.nan
        active &= finite
        indices = np.flatnonzero(active)
        if not len(indices):
            break
        results = envs.step(indices.tolist(), list(decoder.decode(outputs[indices])), hold)
        total[indices] += [result.reward for result in results]
        steps[indices] += [result.steps for result in results]
        terminated[indices] = [result.terminated for result in results]
        active[indices] = [not (result.terminated or result.truncated) for result in results]
        encoder.encode_into([result.observation for result in results], flat, indices)
    total[~np.isfinite(total)] = np.nan
    return EpisodeResults(*(x.reshape(seeds.shape) for x in (total, steps, terminated)))


RecordedStep = tuple[np.ndarray, list[np.ndarray]]
"""Which of a genome's episodes were active, `[E]`, and their observations, `[E, ...]` per input."""


class SpreadRecorder:
    """Keeps observations of every genome, evenly spread over all steps of all its episodes.

    Args:
        genomes: B.
        count: observations per genome.
    """

    def __init__(self, genomes: int, count: int) -> None:
        self._count = count
        # One reservoir each: what is kept of one genome must not depend on how long the others last.
        self._reservoirs: list[ExperienceReservoir[RecordedStep]] = [ExperienceReservoir(count) for _ in range(genomes)]

    def record(self, observations: Sequence[np.ndarray], active: np.ndarray) -> None:
        """Receive the observations of one step."""
        for b in np.flatnonzero(active.any(axis=1)).tolist():
            if self._reservoirs[b].offer():
                self._reservoirs[b].add((active[b].copy(), [part[b].copy() for part in observations]))

    def experience(self) -> list[np.ndarray]:
        """Return `[B, count, ...]`, one episode after the other."""
        picked = [pick_evenly(_by_episode(reservoir.items), self._count) for reservoir in self._reservoirs]
        parts = range(len(picked[0][0]))
        return [np.stack([np.stack([one[part] for one in genome]) for genome in picked]) for part in parts]


def _by_episode(steps: Sequence[RecordedStep]) -> list[list[np.ndarray]]:
    episodes = range(len(steps[0][0]))
    return [
        [part[episode] for part in observations]
        for episode in episodes
        for active, observations in steps
        if active[episode]
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
        self._env = make_env(config, warn=False, render=True)
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
            raise self._film_error(f"{describe_env_error(error)}{hint}") from error
        if frame.ndim != 3 or frame.shape[-1] != 3:
            raise self._film_error(f"it renders arrays of shape {frame.shape}, expected [height, width, 3]")
        self.film.add(frame.astype(np.uint8, copy=False))

    def _film_error(self, why: str) -> TfsmError:
        return TfsmError(f"the environment {self._name!r} cannot be filmed: {why}")


class EpisodeRunner:
    """Plays episodes in one environment, and closes its copies when it is garbage-collected.

    Args:
        options: the options of the domain.
    """

    def __init__(self, options: GymOptions) -> None:
        self._options = options
        self._config = EnvConfig(options.env, parse_env_options(options.env_options), options.steps)
        env = make_env(self._config)
        try:
            spec = registered_spec(env)
            self.encoder = ObservationEncoder(options.env, env.observation_space)
            self.decoder: ActionDecoder = build_action_decoder(options.env, env.action_space)
            self._normalize(env)
        finally:
            env.close()
        self.threshold = options.threshold
        """The fitness that counts as solved; None: never solved."""
        if self.threshold is None and spec is not None:
            self.threshold = spec.reward_threshold
        self._envs = _build_pool(options, self._config._replace(spec=spec))
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
        recorder = self._recorder(network, len(genomes))
        results = self._play(self._envs, network, genomes, seeds, recorder)
        experience = recorder.experience()
        return results, tuple(experience[i] for i in self._input_order(network))

    def returns(self, network: Network, genomes: Tensor, seeds: np.ndarray) -> np.ndarray:
        """Return the returns `[B, E]` of genomes `[B, P]` for seeds `[B, E]`, without recording experience."""
        return self._play(self._envs, network, genomes, seeds).total

    def film(self, network: Network, genome: Tensor, seed: int) -> RecordedFilm:
        """Film one episode of a genome `[1, P]`."""
        with headless_display():
            env = FilmingEnv(self._config)
            envs = LocalEnvPool(self._options.env, lambda: env)
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
        recorder: ExperienceRecorder | None = None,
    ) -> EpisodeResults:
        template, order = list(self.encoder.template.values()), self._input_order(network)
        policy = self._policies.compile(network, genomes, [template[i] for i in order], seeds.shape[1])
        with self._lock, quiet_gymnasium():
            return play_episodes(
                envs,
                self.encoder,
                self.decoder,
                lambda observations: policy([observations[i] for i in order]),
                seeds,
                hold=self._options.hold,
                recorder=recorder,
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
        elif self._options.normalize == "sampled":
            try:
                with quiet_gymnasium():
                    normalize_by_samples(self.encoder, env)
            except Exception as error:
                raise env_error(self._options.env, "step", error) from error


def _build_pool(options: GymOptions, config: EnvConfig) -> EnvPool:
    if options.vector == "async":
        return ProcessEnvPool(config)
    return LocalEnvPool(options.env, lambda: make_env(config, warn=False))
