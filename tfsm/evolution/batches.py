"""Which children of a run are asked for at once (`--offspring`), and when a run is logged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from tfsm.abilities import StatefulSelection
from tfsm.evolution.selection import generation_size, initial_population_size
from tfsm.interfaces import Selection, Tensor

MAX_LANES: Final = 512
"""Width of a batch up to which a whole generation is asked for at once; a wider one takes more memory for nothing."""


@dataclass(frozen=True)
class Batches:
    """The batches of children that a run asks for: `size` children each, counted from the first child on.

    >>> [Batches(4, initial_population=10).end(number) for number in (10, 14, 15)]
    [14, 18, 18]
    >>> [Batches(4, initial_population=10, generation=6).end(number) for number in (10, 14, 16)]
    [14, 16, 20]
    """

    size: int = 1
    """`K`."""
    initial_population: int = 0
    """Number of individuals before the first child. They may be divided anywhere."""
    generation: int | None = None
    """Children per generation, of a scheme whose parents stay the same until the generation is complete. All batches
    within a generation give the same result, so that a batch may end anywhere. None: a batch is complete, or cut off
    by the budget."""

    def end(self, number: int) -> int:
        """Return the number after the last child of the batch that a child belongs to."""
        index = number - self.initial_population
        if self.generation is None:
            return number + self.size - index % self.size
        index %= self.generation
        return number + min(self.size - index % self.size, self.generation - index)

    def ends(self, number: Tensor) -> Tensor:
        """Return the same for a tensor of numbers."""
        index = number - self.initial_population
        if self.generation is None:
            return number + self.size - index % self.size
        index %= self.generation
        return number + tf.minimum(self.size - index % self.size, self.generation - index)

    def cut(self, budget: int) -> int:
        """Return the first number of the batch that a budget cuts off; the budget itself if there is none."""
        if self.generation is not None or budget <= self.initial_population:
            return budget
        return budget - (budget - self.initial_population) % self.size

    def count(self, first: int, bound: int) -> int:
        """Return the number of batches of the individuals from `first` up to `bound`."""
        if first < self.initial_population or self.generation is None:
            return -(-(bound - first) // self.size)
        count = 0
        while first < bound:
            first, count = self.end(first), count + 1
        return count

    def advance(self, first: int, count: int, bound: int) -> int:
        """Return the number after `count` batches from `first` on, at most `bound`."""
        if first < self.initial_population or self.generation is None:
            return min(first + count * self.size, bound)
        for _ in range(count):
            first = self.end(first)
        return min(first, bound)


def plan_batches(
    selection: Selection | StatefulSelection,
    population: int,
    offspring: int | None,
    *,
    lanes: int = 1,
    adapts_to_divergence: bool = False,
) -> Batches:
    """Return the batches of children that runs ask for.

    Args:
        selection: the selection scheme.
        population: N.
        offspring: children per batch. None: one, or a generation where the scheme has generations.
        lanes: number of runs in lock step.
        adapts_to_divergence: whether the intensity of a run changes with every child. Children of one batch share it,
            so that it matters where a batch ends.
    """
    generation = None
    if offspring is None and not adapts_to_divergence:
        generation = generation_size(selection, population)
    if generation is not None:
        portions = -(-generation * lanes // MAX_LANES)
        offspring = -(-generation // portions)
    return Batches(offspring or 1, initial_population_size(selection, population), generation)


@dataclass(frozen=True)
class LogIntervals:
    """The regular ends of a run's logging intervals; the end of the run is another one.

    An interval ends with the batch of children that reaches a multiple of `every`.

    >>> intervals = LogIntervals(20, Batches(initial_population=40))
    >>> [number for number in range(0, 101, 10) if number in intervals]
    [60, 80, 100]
    >>> list(intervals.until(85))
    [60, 80]
    >>> list(LogIntervals(20, Batches(8, initial_population=40)).until(110))
    [64, 80, 104]
    """

    every: int
    """Evaluations between two of them."""
    batches: Batches
    """The batches of children. Before the initial population is evaluated there are no children to log."""

    def __contains__(self, evaluations: int) -> bool:
        multiple = evaluations // self.every * self.every
        return evaluations > self.batches.initial_population and evaluations == self._end(multiple)

    def after(self, evaluations: int) -> int:
        """Return the first one after that many evaluations."""
        multiple = evaluations // self.every * self.every
        while (end := self._end(multiple)) <= max(evaluations, self.batches.initial_population):
            multiple += self.every
        return end

    def until(self, evaluations: int) -> Iterator[int]:
        """Yield those up to that many evaluations."""
        end = self.after(self.batches.initial_population)
        while end <= evaluations:
            yield end
            end = self.after(end)

    def _end(self, multiple: int) -> int:
        if multiple <= self.batches.initial_population or self.batches.generation is not None:
            return multiple
        return self.batches.end(multiple - 1)
