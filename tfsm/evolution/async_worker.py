"""Single children: the records that travel between the engine and its workers, and both ends of the way.

`ChildBatcher` is the engine's end: it asks for parents and tells results, in batches. `ChildWorker` is the other: it
makes and evaluates one child. `ChildRequest` and `ChildResult` hold plain arrays only, so that they can be sent
anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.evolution.compile_plan import TracedFunction
from tfsm.evolution.engine import Engine
from tfsm.evolution.variation import Parents, Variation, derive_seeds
from tfsm.interfaces import Evaluation, Tensor


@dataclass(frozen=True, eq=False)
class ChildRequest:
    """One individual to make and to evaluate."""

    run: int
    number: int
    """Index of the evaluation within the run. Together with the run and the seed it determines all randomness."""
    parents: tuple[np.ndarray, ...] = field(default=(), repr=False)
    """The parent's genome `[P]` and the leaves of its experience, in `tf.nest`'s order; then, for an operator that
    recombines, those of the second parent. Empty for an initial individual."""
    intensity_scale: float = 1.0
    """Factor of the intensity."""

    @property
    def key(self) -> tuple[int, int]:
        """Run and number."""
        return self.run, self.number


@dataclass(frozen=True, eq=False)
class ChildResult:
    """One individual, made and evaluated."""

    run: int
    number: int
    genome: np.ndarray = field(repr=False)
    """`[P]`"""
    evaluation: tuple[np.ndarray, ...] = field(repr=False)
    """The leaves of its evaluation, in `tf.nest`'s order, without a batch axis."""
    diagnostics: Mapping[str, float] = field(default_factory=dict, repr=False)
    """The operator's diagnostics, by name."""
    divergence: float = -1.0
    """How far its outputs are from its parent's, where intensities adapt to that; below 0 where unknown."""

    @property
    def key(self) -> tuple[int, int]:
        """Run and number."""
        return self.run, self.number

    @property
    def solves(self) -> bool:
        """Whether it solves the task; a broken individual does not."""
        fitness, solved = self.evaluation[:2]
        return bool(solved) and bool(np.isfinite(fitness))


class ChildBatcher:
    """Calls the engine's `ask` and `tell` with requests and results, as few times as possible.

    Args:
        engine: the populations.
        first_run: the run in lane 0.
        initial_population: number of initial individuals per run.
    """

    def __init__(self, engine: Engine, first_run: int, initial_population: int) -> None:
        self._engine, self._first_run, self._initial_population = engine, first_run, initial_population
        self._in_flight: dict[tuple[int, int], tuple[np.float32, np.float32]] = {}
        """Intensity scale and parent's fitness of the children in flight."""
        self._diagnostics = engine.diagnostics
        self.min_width = min(2, engine.plan.width)
        """The narrowest batch. The least width may be less, but a batch of one is summed in another order."""
        self.compile_seconds = 0.0
        """Time of first calls, nearly all of it compiling."""

    def ask(self, keys: Sequence[tuple[int, int]]) -> list[ChildRequest]:
        """Return requests for these runs and numbers, all with parents from the populations as they are now."""
        children = [key for key in keys if key[1] >= self._initial_population]
        width = self._engine.plan.width
        batches = (children[start : start + width] for start in range(0, len(children), width))
        requests = (request for batch in batches for request in self._ask_batch(batch))
        return [next(requests) if key[1] >= self._initial_population else ChildRequest(*key) for key in keys]

    def tell(self, results: Collection[ChildResult]) -> None:
        """Record individuals of different runs, either all of them initial ones or all of them children."""
        if not results:
            return
        results = list(results)
        keys = self._pack_keys([result.key for result in results])
        genomes = self._stack([result.genome for result in results])
        evaluation = [self._stack(leaves) for leaves in zip(*(result.evaluation for result in results), strict=True)]
        if results[0].number < self._initial_population:
            self._call(self._engine.tell_initial, keys, genomes, *evaluation)
            return
        numbers = [
            (
                *self._in_flight.pop(result.key),
                result.divergence,
                *(result.diagnostics[name] for name in self._diagnostics),
            )
            for result in results
        ]
        columns = tf.constant(np.array(self._pad(numbers), np.float32).T)
        self._call(self._engine.tell, keys, columns, genomes, *evaluation)

    def broken(self, run: int, number: int) -> ChildResult:
        """Return the result of an individual that could not be made: its fitness is not a number."""
        variation = self._engine.variation
        blank = tf.nest.map_structure(lambda s: np.zeros(s.shape, s.dtype.as_numpy_dtype), variation.template)
        evaluation = blank._replace(fitness=np.full_like(blank.fitness, np.nan))
        genome = np.zeros([variation.network.size], variation.network.dtype.as_numpy_dtype)
        diagnostics = dict.fromkeys(self._diagnostics, 0.0)
        return ChildResult(run, number, genome, tuple(tf.nest.flatten(evaluation)), diagnostics)

    def forget(self, run: int) -> None:
        """Forget the children of a run that are in flight."""
        self._in_flight = {key: value for key, value in self._in_flight.items() if key[0] != run}

    def _ask_batch(self, keys: Sequence[tuple[int, int]]) -> Iterator[ChildRequest]:
        asked = self._call(self._engine.ask, self._pack_keys(keys))
        parents: Parents
        parents, fitness = tf.nest.map_structure(lambda x: x.numpy(), asked)
        leaves = tf.nest.flatten((parents.genomes, parents.experience, parents.mates))
        for i, key in enumerate(keys):
            scale = parents.intensity_scale[i]
            self._in_flight[key] = scale, fitness[i]
            yield ChildRequest(*key, parents=tuple(leaf[i] for leaf in leaves), intensity_scale=float(scale))

    def _pack_keys(self, keys: Sequence[tuple[int, int]]) -> Tensor:
        """Return lanes, numbers, and which of them are live: `[3, W]`."""
        rows = self._pad([(run - self._first_run, number, 1) for run, number in keys])
        packed = np.array(rows, np.int32).T
        packed[2, len(keys) :] = 0
        return tf.constant(packed)

    def _stack(self, leaves: Sequence[Any]) -> Tensor:
        return tf.constant(np.stack(self._pad(leaves)))

    def _pad(self, items: Sequence[Any]) -> list[Any]:
        """Fill a batch up with its first item. Two widths are compiled: for single individuals, and for many."""
        width = self.min_width if len(items) <= self.min_width else self._engine.plan.width
        return [*items, *[items[0]] * (width - len(items))]

    def _call(self, function: TracedFunction, *tensors: Tensor) -> Any:
        traces, began = function.traces, time.perf_counter()
        result = function(*tensors)
        if function.traces > traces:
            self.compile_seconds += time.perf_counter() - began
        return result


class ChildWorker:
    """Makes and evaluates what is requested.

    Args:
        variation: how to make it; planned for one run, so that nothing wider is traced or evaluated.
    """

    def __init__(self, variation: Variation) -> None:
        self._variation = variation
        # As narrow as the lock step may be, and no narrower: the last digits are then the same.
        self._width = variation.plan.least_width
        self._live = tf.range(self._width) < 1
        self._initial, self._child = TracedFunction(self._make_initial), TracedFunction(self._make_child)

    def make(self, request: ChildRequest) -> ChildResult:
        """Make and evaluate an individual."""
        key = self._widen(np.int32(request.run)), self._widen(np.int32(request.number))
        if request.parents:
            parents = [self._widen(leaf) for leaf in request.parents]
            made = self._child(*key, self._widen(np.float32(request.intensity_scale)), *parents)
        else:
            made = self._initial(*key)
        genome, evaluation, diagnostics, divergence = tf.nest.map_structure(lambda x: x[0].numpy(), made)
        return ChildResult(
            run=request.run,
            number=request.number,
            genome=genome,
            evaluation=tuple(tf.nest.flatten(evaluation)),
            diagnostics={name: float(value) for name, value in diagnostics.items()},
            divergence=float(divergence),
        )

    def _widen(self, leaf: Any) -> Tensor:
        return tf.constant(np.repeat(np.asarray(leaf)[None], self._width, axis=0))

    def _make_initial(self, runs: Tensor, number: Tensor) -> tuple[Tensor, Evaluation, dict[str, Tensor], Tensor]:
        draw_seed, evaluate_seed = self._variation.initial_seeds(runs, number)
        genomes, evaluation = self._variation.make_initial(draw_seed, evaluate_seed, self._live)
        return genomes, evaluation, {}, _unknown_divergence(runs)

    def _make_child(
        self, runs: Tensor, number: Tensor, scale: Tensor, *leaves: Tensor
    ) -> tuple[Tensor, Evaluation, dict[str, Tensor], Tensor]:
        variation = self._variation
        _, mutate_seed, evaluate_seed = derive_seeds(variation.root_seed, runs, number)
        individual = (0, variation.template.experience)
        (genomes, experience), *mates = tf.nest.pack_sequence_as([individual] * (1 + variation.recombines), leaves)
        parents = Parents(genomes, experience, mates[0] if mates else (), scale)
        child = variation.mutate(parents, mutate_seed)
        evaluation = variation.evaluate(child.genome, evaluate_seed, self._live)
        adapts = variation.adaptation.mode == "divergence"
        divergence = variation.divergence(parents, child.genome) if adapts else _unknown_divergence(runs)
        return child.genome, evaluation, dict(child.diagnostics), divergence


def _unknown_divergence(runs: Tensor) -> Tensor:
    return tf.fill(tf.shape(runs), -1.0)
