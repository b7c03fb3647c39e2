"""PLE games as a domain in plain Python: observation encoders, episodes and the domain itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from tfsm.abilities import Film
from tfsm.errors import TfsmError
from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.models.network import Network
from tfsm.render.video import RecordedFilm
from tfsm.rollouts import ExperienceReservoir, Policy, PolicyCompiler, pick_evenly, policy_network
from tfsm_domains.ple import PleOptions
from tfsm_domains.ple.games import GameInstance, LoadedGame, game_display, load_game

PADDING: Final = -1.0
"""Fills up short lists; no distance or screen position is negative."""


class GameEncoder(Protocol):
    """Turns the state of a game into an observation."""

    @property
    def template(self) -> np.ndarray:
        """An empty observation, for its shape and type."""
        ...

    def encode(self, play: GameInstance) -> np.ndarray:
        """Return the current observation."""
        ...


class PixelEncoder:
    """Observes the screen in grayscale.

    Args:
        side: pixels per side.
    """

    def __init__(self, side: int) -> None:
        self._side = side
        self.template: np.ndarray = np.zeros((side, side), np.uint8)
        """`[side, side]`"""

    def encode(self, play: GameInstance) -> np.ndarray:
        """Return the screen as `[side, side]`, uint8."""
        return play.grayscale(self._side)


class StateEncoder:
    """Observes the numbers of a game's state, in alphabetical order of their names.

    Args:
        name: the game's name, for messages.
        first: the state at the start.
        slots: how many numbers to keep of a list that may grow; a list that starts longer keeps its length.
        scale: multiplies every number.
    """

    def __init__(self, name: str, first: Any, *, slots: int, scale: float) -> None:
        self._name, self._scale = name, scale
        if first is None:
            raise self._error("has no state")
        self._lengths = {path: self._length(value, slots) for path, value in _leaves(first)}
        self.template: np.ndarray = np.zeros(sum(self._lengths.values()), np.float32)
        """`[numbers]`"""

    def encode(self, play: GameInstance) -> np.ndarray:
        """Return the numbers of the current state."""
        return self.row(play.state())

    def row(self, state: Any) -> np.ndarray:
        """Return a state as a vector of fixed length."""
        row, at = np.full_like(self.template, PADDING), 0
        leaves = dict(_leaves(state))
        if leaves.keys() != self._lengths.keys():
            raise self._error("has a state whose names change")
        for path, length in self._lengths.items():
            numbers = self._numbers(leaves[path])[:length]
            row[at : at + len(numbers)] = numbers * self._scale
            at += length
        return row

    def _length(self, value: Any, slots: int) -> int:
        length = len(self._numbers(value))
        return max(length, slots) if isinstance(value, list) else length

    def _numbers(self, value: Any) -> np.ndarray:
        try:
            return np.ravel(np.asarray(value, np.float32))
        except (TypeError, ValueError):
            raise self._error(f"has {value!r} in its state, which is not a number") from None

    def _error(self, why: str) -> TfsmError:
        return TfsmError(f"the game {self._name!r} {why}: use --set observation=pixels")


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _leaves(value[key], (*path, str(key)))
    else:
        yield path, value


class GameResults(NamedTuple):
    """The episodes of B genomes."""

    score: np.ndarray
    """`[B, episodes]`, NaN where an output was not finite."""
    frames: np.ndarray
    """`[B, episodes]`"""
    seen: np.ndarray
    """`[B, remembered, ...]`"""


def play_games(
    plays: Sequence[GameInstance],
    encoder: GameEncoder,
    policy: Policy,
    seeds: np.ndarray,
    options: PleOptions,
    watch: Callable[[GameInstance], None] | None = None,
) -> GameResults:
    """Play all episodes, the B games side by side.

    Args:
        plays: B games.
        encoder: turns game states into observations.
        policy: maps B observations to B outputs.
        seeds: `[B, 2]`, int32.
        options: number and length of the episodes, and how many observations to keep.
        watch: called after every frame of the first game.
    """
    score, frames = np.zeros((2, len(plays), options.episodes), np.float32)
    reservoirs: list[ExperienceReservoir[np.ndarray]] = [ExperienceReservoir(options.remembered) for _ in plays]
    seen = np.repeat(encoder.template[None], len(plays), axis=0)
    words = np.ascontiguousarray(seeds, np.int32).view(np.uint32)
    for episode in range(options.episodes):
        for play, seed in zip(plays, words, strict=True):
            play.start([*seed.tolist(), episode])
        active = set(range(len(plays)))
        while active:
            for b in sorted(active):
                seen[b] = encoder.encode(plays[b])
                if reservoirs[b].offer():
                    reservoirs[b].add(seen[b].copy())
            outputs = policy([seen[:, None]])[:, 0]
            finite = np.logical_and.reduce(np.isfinite(outputs), axis=-1)
            for b in sorted(active):
                play = plays[b]
                if finite[b]:
                    times = min(options.hold, options.frames - play.frames)
                    play.act(play.actions[int(outputs[b].argmax())], times, watch if b == 0 else None)
                if not finite[b] or play.over or play.frames >= options.frames:
                    score[b, episode] = play.score if finite[b] else np.nan
                    frames[b, episode] = play.frames
                    active.remove(b)
    return GameResults(score, frames, np.stack([pick_evenly(each.items, options.remembered) for each in reservoirs]))


class GamePool:
    """A game, with as many instances as were ever played at once.

    Args:
        options: the game and its observations.
    """

    def __init__(self, options: PleOptions) -> None:
        self.game: LoadedGame = load_game(options.game)
        self._plays: list[GameInstance] = []
        with game_display(self.game):
            (first,) = self.plays(1)
            first.start([0])
            self.actions = len(first.actions)
            self.encoder: GameEncoder = PixelEncoder(options.side)
            if options.observation == "state":
                scale = 1.0 / max(first.dims) if options.scaled else 1.0
                self.encoder = StateEncoder(options.game, first.state(), slots=options.slots, scale=scale)

    def plays(self, count: int) -> list[GameInstance]:
        """Return `count` games; `game_display` must be active."""
        while len(self._plays) < count:
            self._plays.append(GameInstance(self.game))
        return self._plays[:count]


@dataclass(frozen=True, kw_only=True)
class Ple(PleOptions):
    """Play a game. Fitness is the mean score; solved means that it reaches the user's threshold."""

    compiled: ClassVar[bool] = False

    @cached_property
    def pool(self) -> GamePool:
        """The game, loaded on first use, so that the domain can be listed and built without ple."""
        return GamePool(self)

    def network(self) -> keras.Model:
        """Return a small network with one output per key, and one for pressing no key."""
        shape = (self.side, self.side, 1) if self.observation == "pixels" else self.pool.encoder.template.shape
        return policy_network(shape, self.pool.actions, layers=self.layers, units=self.units)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let genomes `[B, P]` play one game each; behavior is the mean score and the mean number of frames."""
        with game_display(self.pool.game):
            plays = self.pool.plays(len(genomes))
            played = play_games(plays, self.pool.encoder, self._policy(network, genomes), np.asarray(seed), self)
        fitness, frames = played.score.mean(axis=1), played.frames.mean(axis=1)
        solved = fitness >= (np.inf if self.threshold is None else self.threshold)
        behavior = np.stack([np.nan_to_num(fitness), frames], axis=1)
        return Evaluation(fitness, solved, behavior, played.seen)

    def observe(self, experience: Nest) -> Nest:
        """Return the stored inputs `[B, I, ...]`; pixels are stored as uint8."""
        if self.observation == "pixels":
            return tf.cast(experience, tf.float32)[..., None] / 255.0
        return experience

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film the first episode of the first genome; the others are not shown."""
        with game_display(self.pool.game, leave=True):
            plays = self.pool.plays(1)
            film = RecordedFilm(plays[0].rate)
            once, policy = replace(self, episodes=1), self._policy(network, genomes[:1])
            play_games(
                plays,
                self.pool.encoder,
                policy,
                np.asarray(seed)[:1],
                once,
                watch=lambda game: film.add(game.screenshot()),
            )
            if not len(film):
                film.add(plays[0].screenshot())  # over before the first frame, or no finite output
        return film

    def __reduce__(self) -> Any:
        """Pickle the options alone: games and compiled policies cannot be pickled."""
        options = {option.name: getattr(self, option.name) for option in fields(PleOptions)}
        return partial(type(self), **options), ()

    @cached_property
    def _policies(self) -> PolicyCompiler:
        return PolicyCompiler(self.observe)

    def _policy(self, network: Network, genomes: Tensor) -> Policy:
        return self._policies.compile(network, genomes, [self.pool.encoder.template])
