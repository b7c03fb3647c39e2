"""Episodes, memory, camera."""

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
from tfsm.rollouts import Asker, Decide, Memory, spread
from tfsm_domains.gym import GymOptions
from tfsm_domains.gym.env_pool import (
    Elsewhere,
    Environments,
    Here,
    Recipe,
    failed,
    make,
    parsed,
    quiet,
    reason,
    registered,
)
from tfsm_domains.gym.spaces import Actor, Reader, actor_for, by_bounds, by_samples, order, shown


class Watching(Protocol):
    """Somebody who is shown what is seen at every step."""

    def see(self, seen: Sequence[np.ndarray], on: np.ndarray) -> None:
        """Look at `[B, E, ...]`; only where `on`, `[B, E]`, it is of this step."""
        ...


class Played(NamedTuple):
    """What came of B genomes' E episodes each."""

    total: np.ndarray
    """`[B, E]`, the sum of rewards; NaN where an output or a reward was no number."""
    steps: np.ndarray
    """`[B, E]`"""
    terminated: np.ndarray
    """`[B, E]`, bool: whether the environment came to an end, and not only the time."""


def play(
    environments: Environments,
    reader: Reader,
    actor: Actor,
    decide: Decide,
    seeds: np.ndarray,
    *,
    hold: int = 1,
    watching: Watching | None = None,
) -> Played:
    """Play episodes, all side by side.

    Args:
        environments: where.
        reader: what is seen of them.
        actor: how answers are read.
        decide: who acts.
        seeds: of the episodes, `[B, E]`.
        hold: steps that each action is held for.
        watching: shown what is seen.
    """
    count = seeds.size
    seen = [np.zeros([*seeds.shape, *x.shape], x.dtype) for x in reader.blank.values()]
    flat = [part.reshape([count, *part.shape[2:]]) for part in seen]  # the same numbers
    reader.see(environments.reset(seeds.ravel().tolist()), flat, np.arange(count))
    total, steps, terminated = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, bool)
    on = np.ones(count, bool)
    while True:
        if watching is not None:
            watching.see(seen, on.reshape(seeds.shape))
        answers = decide(seen).reshape([count, -1])
        sound = np.isfinite(answers).all(axis=1)
        total[on & ~sound] = np.nan
        on &= sound
        going = np.flatnonzero(on)
        if not len(going):
            break
        found = environments.step(going.tolist(), list(actor.act(answers[going])), hold)
        total[going] += [stepped.reward for stepped in found]
        steps[going] += [stepped.steps for stepped in found]
        terminated[going] = [stepped.terminated for stepped in found]
        on[going] = [not (stepped.terminated or stepped.truncated) for stepped in found]
        reader.see([stepped.observation for stepped in found], flat, going)
    total[~np.isfinite(total)] = np.nan
    return Played(*(x.reshape(seeds.shape) for x in (total, steps, terminated)))


Moment = tuple[np.ndarray, list[np.ndarray]]
"""Which of a genome's episodes were on, `[E]`, and what was seen in them, `[E, ...]`."""


class Recall(Watching, Protocol):
    """Somebody who watches and remembers."""

    def all(self) -> list[np.ndarray]:
        """Return what is remembered, `[B, ...]` for each of the inputs."""
        ...


class Moments:
    """Some observations of every genome, evenly spread over all steps of all its episodes.

    Args:
        genomes: B.
        count: how many of each.
    """

    def __init__(self, genomes: int, count: int) -> None:
        self._count = count
        # Each by its own clock: what is kept of one genome does not depend on how long others go on.
        self._memories: list[Memory[Moment]] = [Memory(count) for _ in range(genomes)]

    def see(self, seen: Sequence[np.ndarray], on: np.ndarray) -> None:
        """Look at what is seen now."""
        for b in np.flatnonzero(on.any(axis=1)).tolist():
            if self._memories[b].passes():
                self._memories[b].keep((on[b].copy(), [part[b].copy() for part in seen]))

    def all(self) -> list[np.ndarray]:
        """Return `[B, count, ...]`, one episode after the other."""
        chosen = [spread(_in_order(memory.kept), self._count) for memory in self._memories]
        parts = range(len(chosen[0][0]))
        return [np.stack([np.stack([one[part] for one in own]) for own in chosen]) for part in parts]


def _in_order(moments: Sequence[Moment]) -> list[list[np.ndarray]]:
    episodes = range(len(moments[0][0]))
    return [[part[episode] for part in seen] for episode in episodes for on, seen in moments if on[episode]]


class Beginning:
    """The first steps of every genome's first episode, for networks that take sequences.

    Args:
        count: T, how many; where the episode was shorter, the last is there again and again.
    """

    def __init__(self, count: int) -> None:
        self._count, self._step = count, 0
        self._kept: list[np.ndarray] = []

    def see(self, seen: Sequence[np.ndarray], on: np.ndarray) -> None:
        """Look at what is seen now."""
        if not self._kept:
            self._kept = [np.repeat(part[:, :1, None], self._count, axis=2) for part in seen]
        if self._step < self._count:
            for kept, part in zip(self._kept, seen, strict=True):
                # From here on to the end: what comes later overwrites it.
                kept[on[:, 0], 0, self._step :] = part[on[:, 0], 0, None]
        self._step += 1

    def all(self) -> list[np.ndarray]:
        """Return `[B, 1, T, ...]`."""
        return self._kept


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
        self.film = RecordedFilm(self._env.metadata.get("render_fps") or RATE)

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


class World:
    """Where episodes are played; it closes its environments when it goes away.

    Args:
        options: which environment, and how.
    """

    def __init__(self, options: GymOptions) -> None:
        self._options = options
        self._recipe = Recipe(options.env, parsed(options.env_options), options.steps)
        env = make(self._recipe)
        try:
            spec = registered(env)
            self.reader = Reader(options.env, env.observation_space)
            self.actor: Actor = actor_for(options.env, env.action_space)
            self._normalize(env)
        finally:
            env.close()
        self.threshold = options.threshold
        """The fitness that is solved; None: nothing is."""
        if self.threshold is None and spec is not None:
            self.threshold = spec.reward_threshold
        self._environments = _environments(options, self._recipe._replace(spec=spec))
        weakref.finalize(self, self._environments.close)
        self._asker = Asker(shown)
        self._one_at_a_time = RLock()

    def play(self, network: Network, genomes: Tensor, seeds: np.ndarray) -> tuple[Played, tuple[np.ndarray, ...]]:
        """Let genomes `[B, P]` play episodes with seeds `[B, E]`.

        Returns:
            What came of it, and what is remembered, `[B, ...]` for each of the network's inputs.
        """
        recall = self._recall(network, len(genomes))
        played = self._play(self._environments, network, genomes, seeds, recall)
        kept = recall.all()
        return played, tuple(kept[i] for i in self._order(network))

    def more(self, network: Network, genomes: Tensor, seeds: np.ndarray) -> np.ndarray:
        """Return the sums of rewards `[B, E]` of genomes `[B, P]` in episodes with seeds `[B, E]`; nothing is kept."""
        return self._play(self._environments, network, genomes, seeds).total

    def film(self, network: Network, genome: Tensor, seed: int) -> RecordedFilm:
        """Film one episode of a genome `[1, P]`."""
        with headless_display():
            camera = Camera(self._recipe)
            stage = Here(self._options.env, lambda: camera)
            try:
                self._play(stage, network, genome, np.array([[seed]]))
            finally:
                stage.close()
        return camera.film

    def _play(
        self,
        environments: Environments,
        network: Network,
        genomes: Tensor,
        seeds: np.ndarray,
        recall: Recall | None = None,
    ) -> Played:
        blank, places = list(self.reader.blank.values()), self._order(network)
        ask = self._asker.decide(network, genomes, [blank[i] for i in places], seeds.shape[1])
        with self._one_at_a_time, quiet():
            return play(
                environments,
                self.reader,
                self.actor,
                lambda seen: ask([seen[i] for i in places]),
                seeds,
                hold=self._options.hold,
                watching=recall,
            )

    def _order(self, network: Network) -> list[int]:
        return order(network.model, list(self.reader.blank), self._options.env)

    def _recall(self, network: Network, genomes: int) -> Recall:
        blank, count = list(self.reader.blank.values()), self._options.remembered
        if not self._asker.over_time(network, [blank[i] for i in self._order(network)]):
            return Moments(genomes, count)
        # Sequences of the length that the network takes, if it takes no other.
        return Beginning(network.model.inputs[0].shape[1] or count)

    def _normalize(self, env: Any) -> None:
        if self._options.normalize == "bounds":
            by_bounds(self.reader)
        elif self._options.normalize == "sampled":
            try:
                with quiet():
                    by_samples(self.reader, env)
            except Exception as error:
                raise failed(self._options.env, "step", error) from error


def _environments(options: GymOptions, recipe: Recipe) -> Environments:
    if options.vector == "async":
        return Elsewhere(recipe)
    return Here(options.env, lambda: make(recipe, told=False))
