"""Domain, rollout, observations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Evaluation, Film, Nest, Tensor
from tfsm.models.network import Network
from tfsm.render.video import RecordedFilm
from tfsm.rollouts import Asker, Decide, Memory, player, spread
from tfsm_domains.ple import PleOptions
from tfsm_domains.ple.games import Arcade, Play, load_arcade, stage

NOTHING: Final = -1.0
"""Stands where a list has no more numbers: no distance and no place on a screen is negative."""


class Observer(Protocol):
    """Looks at a game."""

    @property
    def blank(self) -> np.ndarray:
        """An observation of nothing, for its shape and type."""
        ...

    def see(self, play: Play) -> np.ndarray:
        """Return what there is to be seen now."""
        ...


class Pixels:
    """The screen in grey.

    Args:
        side: pixels of each side.
    """

    def __init__(self, side: int) -> None:
        self._side = side
        self.blank: np.ndarray = np.zeros((side, side), np.uint8)
        """`[side, side]`"""

    def see(self, play: Play) -> np.ndarray:
        """Return the screen: `[side, side]`, bytes."""
        return play.grey(self._side)


class States:
    """The numbers that a game says of itself, in the alphabetical order of their names.

    Args:
        name: the game's, for messages.
        first: what it says of itself at the start.
        slots: how many numbers to keep of a list, which may grow; one that starts longer keeps its length.
        scale: what every number is multiplied with.
    """

    def __init__(self, name: str, first: Any, *, slots: int, scale: float) -> None:
        self._name, self._scale = name, scale
        if first is None:
            raise self._refused("has no state")
        self._lengths = {path: self._length(value, slots) for path, value in _leaves(first)}
        self.blank: np.ndarray = np.zeros(sum(self._lengths.values()), np.float32)
        """`[numbers]`"""

    def see(self, play: Play) -> np.ndarray:
        """Return the state's numbers."""
        return self.row(play.state())

    def row(self, state: Any) -> np.ndarray:
        """Return a state as a row of always the same numbers."""
        row, at = np.full_like(self.blank, NOTHING), 0
        leaves = dict(_leaves(state))
        if leaves.keys() != self._lengths.keys():
            raise self._refused("has a state whose names change")
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
            raise self._refused(f"has {value!r} in its state, which is no number") from None

    def _refused(self, why: str) -> TfsmError:
        return TfsmError(f"the game {self._name!r} {why}: use --set observation=pixels")


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _leaves(value[key], (*path, str(key)))
    else:
        yield path, value


class Played(NamedTuple):
    """What came of it."""

    score: np.ndarray
    """`[B, episodes]`, NaN where an answer was no number."""
    frames: np.ndarray
    """`[B, episodes]`"""
    seen: np.ndarray
    """`[B, remembered, ...]`"""


def play(
    plays: Sequence[Play],
    observer: Observer,
    decide: Decide,
    seeds: np.ndarray,
    options: PleOptions,
    watch: Callable[[Play], None] | None = None,
) -> Played:
    """Play all episodes.

    Args:
        plays: B games.
        observer: what is seen of them.
        decide: who plays; B answers at a time.
        seeds: `[B, 2]`, int32.
        options: how long, how often, and how much to remember.
        watch: called after every frame of the first game.
    """
    score, frames = np.zeros((2, len(plays), options.episodes), np.float32)
    memories: list[Memory[np.ndarray]] = [Memory(options.remembered) for _ in plays]
    seen = np.repeat(observer.blank[None], len(plays), axis=0)
    words = np.ascontiguousarray(seeds, np.int32).view(np.uint32)
    for episode in range(options.episodes):
        for each, own in zip(plays, words, strict=True):
            each.start([*own.tolist(), episode])
        on = set(range(len(plays)))
        while on:
            for b in sorted(on):
                seen[b] = observer.see(plays[b])
                if memories[b].passes():
                    memories[b].keep(seen[b].copy())
            answers = decide([seen[:, None]])[:, 0]
            sound = np.logical_and.reduce(np.isfinite(answers), axis=-1)
            for b in sorted(on):
                each = plays[b]
                if sound[b]:
                    times = min(options.hold, options.frames - each.frames)
                    each.act(each.actions[int(answers[b].argmax())], times, watch if b == 0 else None)
                if not sound[b] or each.over or each.frames >= options.frames:
                    score[b, episode] = each.score if sound[b] else np.nan
                    frames[b, episode] = each.frames
                    on.remove(b)
    return Played(score, frames, np.stack([spread(memory.kept, options.remembered) for memory in memories]))


class Table:
    """A game, with as many copies of it as were ever played at once.

    Args:
        options: which game, and what is seen of it.
    """

    def __init__(self, options: PleOptions) -> None:
        self.arcade: Arcade = load_arcade(options.game)
        self._plays: list[Play] = []
        with stage(self.arcade):
            (first,) = self.plays(1)
            first.start([0])
            self.actions = len(first.actions)
            self.observer: Observer = Pixels(options.side)
            if options.observation == "state":
                scale = 1.0 / max(first.dims) if options.scaled else 1.0
                self.observer = States(options.game, first.state(), slots=options.slots, scale=scale)

    def plays(self, count: int) -> list[Play]:
        """Return so many games, on an open stage."""
        while len(self._plays) < count:
            self._plays.append(Play(self.arcade))
        return self._plays[:count]


@dataclass(frozen=True, kw_only=True)
class Ple(PleOptions):
    """Play a game; fitness is the mean score, solved is a score that the user thinks enough."""

    compiled: ClassVar[bool] = False

    @cached_property
    def table(self) -> Table:
        """The game, found when it is first needed: a domain can be listed and built without ple."""
        return Table(self)

    def network(self) -> keras.Model:
        """Return a small network with one output for each key, and one for no key."""
        shape = (self.side, self.side, 1) if self.observation == "pixels" else self.table.observer.blank.shape
        return player(shape, self.table.actions, layers=self.layers, units=self.units)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let genomes `[B, P]` play, each a game of its own; behavior is the mean score and number of frames."""
        with stage(self.table.arcade):
            plays = self.table.plays(len(genomes))
            played = play(plays, self.table.observer, self._decide(network, genomes), np.asarray(seed), self)
        fitness, frames = played.score.mean(axis=1), played.frames.mean(axis=1)
        solved = fitness >= (np.inf if self.threshold is None else self.threshold)
        behavior = np.stack([np.nan_to_num(fitness), frames], axis=1)
        return Evaluation(fitness, solved, behavior, played.seen)

    def observe(self, experience: Nest) -> Nest:
        """Return the inputs `[B, I, ...]` that were kept; pixels are kept as bytes."""
        if self.observation == "pixels":
            return tf.cast(experience, tf.float32)[..., None] / 255.0
        return experience

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film the first episode of the first genome; the others play games of their own, and are not shown."""
        with stage(self.table.arcade, leave=True):
            plays = self.table.plays(1)
            film = RecordedFilm(plays[0].rate)
            once, decide = replace(self, episodes=1), self._decide(network, genomes[:1])
            play(
                plays,
                self.table.observer,
                decide,
                np.asarray(seed)[:1],
                once,
                watch=lambda game: film.add(game.picture()),
            )
            if not len(film):
                film.add(plays[0].picture())  # over before it began, or nobody to play it
        return film

    def __reduce__(self) -> Any:
        """Be pickled by the options: games and what is compiled cannot be."""
        options = {option.name: getattr(self, option.name) for option in fields(PleOptions)}
        return partial(type(self), **options), ()

    @cached_property
    def _asker(self) -> Asker:
        return Asker(self.observe)

    def _decide(self, network: Network, genomes: Tensor) -> Decide:
        return self._asker.decide(network, genomes, [self.table.observer.blank])
