"""The games of the PyGame Learning Environment, as a domain in plain Python."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow as tf

from tfsm.contracts import Evaluation, Film, Nest, Tensor
from tfsm.models.network import Network
from tfsm_ple.film import GameFilm
from tfsm_ple.loading import Arcade, load_arcade
from tfsm_ple.networks import convolutional, dense
from tfsm_ple.observing import Observer, Pixels, States
from tfsm_ple.options import PleOptions
from tfsm_ple.playing import Play
from tfsm_ple.rollout import Decide, play
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
        hidden = {"layers": self.layers, "units": self.units}
        if self.observation == "pixels":
            return convolutional(self.side, self.table.actions, **hidden)
        return dense(self.table.observer.blank.size, self.table.actions, **hidden)

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
            film = GameFilm(plays[0])
            once, decide = replace(self, episodes=1), self._decide(network, genomes[:1])
            play(plays, self.table.observer, decide, np.asarray(seed)[:1], once, watch=film.add)
            if not len(film):
                film.add(plays[0])  # over before it began, or nobody to play it
        return film

    def __reduce__(self) -> Any:
        """Be pickled by the options: games and what is compiled cannot be."""
        options = {option.name: getattr(self, option.name) for option in fields(PleOptions)}
        return partial(type(self), **options), ()

    def _decide(self, network: Network, genomes: Tensor) -> Decide:
        count = len(genomes)
        # Compiled anew for every width: a power of two bounds how often, and XLA sums in another order for one alone.
        width = max(2, 1 << (count - 1).bit_length())
        own = tf.constant(np.asarray(genomes)[np.minimum(np.arange(width), count - 1)], network.dtype)
        answers = self._compiled(network, width)
        wide = np.repeat(self.table.observer.blank[None], width, axis=0)

        def decide(seen: np.ndarray) -> np.ndarray:
            wide[:count] = seen
            return answers(own, tf.constant(wide)).numpy()[:count]

        return decide

    @cached_property
    def _known(self) -> WeakKeyDictionary[Network, dict[int, Callable[[Tensor, Tensor], Tensor]]]:
        return WeakKeyDictionary()

    def _compiled(self, network: Network, width: int) -> Callable[[Tensor, Tensor], Tensor]:
        known = self._known.setdefault(network, {})
        if width not in known:
            # The network outlives what is compiled of it, not the other way round.
            ask = weakref.proxy(network)

            def answers(own: Tensor, seen: Tensor) -> Tensor:
                return ask.rows(own, self.observe(seen[:, None]))[:, 0]

            # By XLA: elsewhere the last digits of a number depend on its place in a batch, and a game would go another
            # way alone than among others.
            function = tf.function(answers, jit_compile=True, autograph=False)
            blank = self.table.observer.blank
            # One shape only, and so without the search for it at every call, which takes longer than a small network.
            known[width] = function.get_concrete_function(
                tf.TensorSpec([width, network.size], network.dtype), tf.TensorSpec([width, *blank.shape], blank.dtype)
            )
        return known[width]
