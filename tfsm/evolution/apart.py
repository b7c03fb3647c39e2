"""Populations whose children are made by somebody else: from places in them to orders, and from what was bred back."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.evolution.breeding import Match
from tfsm.evolution.engine import Engine
from tfsm.evolution.orders import Bred, Individual, Order
from tfsm.evolution.traced import Traced


class Lanes:
    """The engine's populations, for individuals that come and go one by one.

    Args:
        engine: whose populations.
        first: the run in lane 0.
        beginners: how many first individuals each run has.
    """

    def __init__(self, engine: Engine, first: int, beginners: int) -> None:
        self._engine, self._first, self._beginners = engine, first, beginners
        self._away: dict[tuple[int, int], tuple[np.float32, np.float32]] = {}
        """Strength and parent's fitness of the children that are on their way."""
        self._diagnostics = engine.diagnostics
        self.narrow = min(2, engine.plan.width)
        """The narrowest batch. The least width may be less, but a batch of one is summed in another order."""
        self.compile_seconds = 0.0
        """What first calls took, nearly all of it compiling."""

    def orders(self, chosen: Sequence[tuple[int, int]]) -> list[Order]:
        """Return orders for these runs and numbers, all by the populations as they are now."""
        children = [who for who in chosen if who[1] >= self._beginners]
        step = self._engine.plan.width
        found = (order for start in range(0, len(children), step) for order in self._matched(children[start:][:step]))
        return [next(found) if number >= self._beginners else Order(run, number) for run, number in chosen]

    def settle(self, batch: Collection[Bred]) -> None:
        """Settle individuals of different runs, all of them first ones or all of them children."""
        if not batch:
            return
        some = list(batch)
        who = self._who([(bred.run, bred.number) for bred in some])
        genomes = self._filled([bred.genome for bred in some])
        found = [self._filled(leaves) for leaves in zip(*(bred.found for bred in some), strict=True)]
        if some[0].number < self._beginners:
            self._timed(self._engine.settle_first, who, genomes, *found)
            return
        told = [
            (
                *self._away.pop((bred.run, bred.number)),
                bred.moved,
                *(bred.diagnostics[name] for name in self._diagnostics),
            )
            for bred in some
        ]
        columns = tf.constant(np.array(self._fill(told), np.float32).T)
        self._timed(self._engine.settle, who, columns, genomes, *found)

    def broken(self, run: int, number: int) -> Bred:
        """Return somebody who could not be made: it has no fitness, and did nothing."""
        breeder = self._engine.breeder
        blank = tf.nest.map_structure(lambda s: np.zeros(s.shape, s.dtype.as_numpy_dtype), breeder.template)
        found = blank._replace(fitness=np.full_like(blank.fitness, np.nan))
        genome = np.zeros([breeder.network.size], breeder.network.dtype.as_numpy_dtype)
        return Bred(run, number, genome, tuple(tf.nest.flatten(found)), dict.fromkeys(self._diagnostics, 0.0))

    def forget(self, run: int) -> None:
        """Forget whoever is on the way for a run."""
        self._away = {who: kept for who, kept in self._away.items() if who[0] != run}

    def _matched(self, chosen: Sequence[tuple[int, int]]) -> Iterable[Order]:
        found = self._timed(self._engine.match, self._who(chosen))
        match: Match = tf.nest.map_structure(lambda x: x.numpy(), found)
        experience, *mates = (tf.nest.flatten(seen) for seen in (match.experience, *match.mates))
        for i, (run, number) in enumerate(chosen):
            self._away[run, number] = match.strength[i], match.rivals[i]
            yield Order(
                run,
                number,
                Individual(match.parents[i], tuple(leaf[i] for leaf in experience)),
                Individual(match.mates[0][i], tuple(leaf[i] for leaf in mates[1])) if mates else None,
                float(match.strength[i]),
            )

    def _width(self, count: int) -> int:
        """Return the lanes of a batch: two widths are compiled, for what comes alone and for many at once."""
        return self.narrow if count <= self.narrow else self._engine.plan.width

    def _who(self, chosen: Sequence[tuple[int, int]]) -> Tensor:
        """Return lanes, numbers, and which of them count: `[3, W]`."""
        rows = self._fill([(run - self._first, number, 1) for run, number in chosen])
        who = np.array(rows, np.int32).T
        who[2, len(chosen) :] = 0
        return tf.constant(who)

    def _filled(self, leaves: Sequence[Any]) -> Tensor:
        return tf.constant(np.stack(self._fill(leaves)))

    def _fill(self, some: Sequence[Any]) -> list[Any]:
        """Fill a batch up with its first one."""
        return [*some, *[some[0]] * (self._width(len(some)) - len(some))]

    def _timed(self, function: Traced, *tensors: Tensor) -> Any:
        traces, began = function.traces, time.perf_counter()
        found = function(*tensors)
        if function.traces > traces:
            self.compile_seconds += time.perf_counter() - began
        return found
