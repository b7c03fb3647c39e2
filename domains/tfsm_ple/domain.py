"""The games of the PyGame Learning Environment, as a domain in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from tfsm.contracts import Evaluation, Film, Nest, Tensor
from tfsm.models.network import Network
from tfsm.rollouts.asking import Asker, Decide
from tfsm.rollouts.film import PictureFilm
from tfsm.rollouts.networks import player
from tfsm_ple.loading import Arcade, load_arcade
from tfsm_ple.observing import Observer, Pixels, States
from tfsm_ple.options import PleOptions
from tfsm_ple.playing import Play
from tfsm_ple.rollout import play
from tfsm_ple.stage import stage


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
            film = PictureFilm(plays[0].rate)
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
