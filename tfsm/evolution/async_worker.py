"""Batches of children: the records that travel between the engine and its workers, and both ends of the way.

`ChildBatcher` is the engine's end: it asks for parents and tells results. `ChildWorker` is the other: it makes and
evaluates a batch. `ChildRequest` and `ChildResult` hold plain arrays only, so that they can be sent anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.evolution.compile_plan import TracedFunction
from tfsm.evolution.engine import Engine
from tfsm.evolution.variation import Parents, Variation, derive_seeds
from tfsm.interfaces import Evaluation, Tensor


@dataclass(frozen=True, eq=False)
class ChildRequest:
    """`n` individuals of a run to make and to evaluate, with consecutive numbers."""

    run: int
    number: int
    """Index of the evaluation of the first one within the run. Together with the run and the seed it determines all
    randomness."""
    count: int = 1
    """`n`."""
    parents: tuple[np.ndarray, ...] = field(default=(), repr=False)
    """The parents' genomes `[n, P]` and the leaves of their experience, in `tf.nest`'s order; then, for an operator
    that recombines, those of the second parents. Empty for initial individuals."""
    intensity_scale: np.ndarray | None = field(default=None, repr=False)
    """Factors of the intensity, `[n]`; None for initial individuals."""

    @property
    def key(self) -> tuple[int, int]:
        """Run and number."""
        return self.run, self.number

    def split(self) -> list[ChildRequest]:
        """Return requests for the single individuals."""
        return [
            replace(
                self,
                number=self.number + i,
                count=1,
                parents=tuple(leaf[i : i + 1] for leaf in self.parents),
                intensity_scale=None if self.intensity_scale is None else self.intensity_scale[i : i + 1],
            )
            for i in range(self.count)
        ]


@dataclass(frozen=True, eq=False)
class ChildResult:
    """`n` individuals of a run, made and evaluated."""

    run: int
    number: int
    genomes: np.ndarray = field(repr=False)
    """`[n, P]`"""
    evaluation: tuple[np.ndarray, ...] = field(repr=False)
    """The leaves of their evaluation, in `tf.nest`'s order: `[n, ...]`."""
    diagnostics: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    """The operator's diagnostics `[n]`, by name."""
    divergence: np.ndarray | None = field(default=None, repr=False)
    """`[n]`: how far their outputs are from their parents', where intensities adapt to that; below 0 where unknown."""
    failed: int = 0
    """How many of them could not be made."""

    @property
    def key(self) -> tuple[int, int]:
        """Run and number."""
        return self.run, self.number

    @property
    def count(self) -> int:
        """`n`."""
        return len(self.genomes)

    @property
    def solves(self) -> np.ndarray:
        """Which of them solve the task, `[n]`; a broken individual does not."""
        fitness, solved = self.evaluation[:2]
        return np.asarray(solved, bool) & np.isfinite(fitness)


def join_results(results: Sequence[ChildResult]) -> ChildResult:
    """Return the results of consecutive individuals of a run as one."""
    first = results[0]
    return ChildResult(
        first.run,
        first.number,
        np.concatenate([result.genomes for result in results]),
        tuple(np.concatenate(leaves) for leaves in zip(*(result.evaluation for result in results), strict=True)),
        {name: np.concatenate([result.diagnostics[name] for result in results]) for name in first.diagnostics},
        np.concatenate([_divergence(result) for result in results]),
        sum(result.failed for result in results),
    )


def _divergence(result: ChildResult) -> np.ndarray:
    return np.full([result.count], -1.0, np.float32) if result.divergence is None else result.divergence


class ChildBatcher:
    """Calls the engine's `ask` and `tell` with requests and results, as few times as possible.

    Args:
        engine: the populations.
        first_run: the run in lane 0.
        initial_population: number of initial individuals per run.
    """

    def __init__(self, engine: Engine, first_run: int, initial_population: int) -> None:
        self._engine, self._first_run, self._initial_population = engine, first_run, initial_population
        self._offspring = engine.batches.size
        self._in_flight: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        """Intensity scales and parents' fitness of the children in flight, by batch."""
        self._diagnostics = engine.diagnostics
        self.min_width = 1 if self._offspring > 1 else min(2, engine.plan.width)
        """The narrowest batch of runs. The least width may be less, but a single child is summed in another order."""
        self.compile_seconds = 0.0
        """Time of first calls, nearly all of it compiling."""

    def ask(self, keys: Sequence[tuple[int, int]], counts: Sequence[int]) -> list[ChildRequest]:
        """Return requests for batches of these runs, first numbers and sizes.

        All have parents from the populations as they are now.
        """
        spans = [(run, number, count) for (run, number), count in zip(keys, counts, strict=True)]
        children = [span for span in spans if span[1] >= self._initial_population]
        at_once = self._engine.plan.width if self._offspring == 1 else 1
        groups = (children[start : start + at_once] for start in range(0, len(children), at_once))
        requests = (request for group in groups for request in self._ask_batch(group))
        return [next(requests) if span[1] >= self._initial_population else ChildRequest(*span) for span in spans]

    def expect(self, key: tuple[int, int], intensity_scale: np.ndarray, parent_fitness: np.ndarray) -> None:
        """Note the intensity scales and the parents' fitness of a batch of children that was asked for elsewhere."""
        self._in_flight[key] = intensity_scale, parent_fitness

    def tell(self, results: Collection[ChildResult], turns: int | None = None) -> None:
        """Record batches of different runs, either all of them initial individuals or all of them children.

        Args:
            results: the batches.
            turns: `K`, the length that they are filled up to; None: the number of children that a run asks for at once.
        """
        if not results:
            return
        results = list(results)
        width, turns = self._width(len(results)), turns or self._offspring
        keys = np.zeros([3, turns, width], np.int32)
        for lane, result in enumerate([*results, *results[:1] * (width - len(results))]):
            keys[0, :, lane], keys[1, :, lane] = result.run - self._first_run, result.number
            keys[2, : result.count, lane] = lane < len(results)
        keys[1] += np.arange(turns, dtype=np.int32)[:, None]
        genomes = self._stack([result.genomes for result in results], turns)
        evaluation = [
            self._stack(leaves, turns) for leaves in zip(*(result.evaluation for result in results), strict=True)
        ]
        if results[0].number < self._initial_population:
            self._call(self._engine.tell_initial, tf.constant(keys), genomes, *evaluation)
            return
        rows = [
            np.stack(
                [
                    *self._in_flight.pop(result.key),
                    _divergence(result),
                    *(result.diagnostics[name] for name in self._diagnostics),
                ],
                axis=1,
            )
            for result in results
        ]
        numbers = tf.transpose(self._stack([row.astype(np.float32) for row in rows], turns))  # [3 + D, K * W]
        self._call(self._engine.tell, tf.constant(keys), numbers, genomes, *evaluation)

    def broken(self, run: int, number: int, count: int) -> ChildResult:
        """Return the result of individuals that could not be made: their fitness is not a number."""
        variation = self._engine.variation
        blank = tf.nest.map_structure(lambda s: np.zeros([count, *s.shape], s.dtype.as_numpy_dtype), variation.template)
        evaluation = blank._replace(fitness=np.full_like(blank.fitness, np.nan))
        genomes = np.zeros([count, variation.network.size], variation.network.dtype.as_numpy_dtype)
        diagnostics = {name: np.zeros([count], np.float32) for name in self._diagnostics}
        return ChildResult(run, number, genomes, tuple(tf.nest.flatten(evaluation)), diagnostics, failed=count)

    def forget(self, run: int) -> None:
        """Forget the children of a run that are in flight."""
        self._in_flight = {key: value for key, value in self._in_flight.items() if key[0] != run}

    def _ask_batch(self, spans: Sequence[tuple[int, int, int]]) -> Iterator[ChildRequest]:
        rows = [(run - self._first_run, number + i, 1) for run, number, count in spans for i in range(count)]
        width = self._width(len(rows)) if self._offspring == 1 else max(self.min_width, self._offspring)
        rows += [(*rows[0][:2], 0)] * (width - len(rows))
        asked = self._call(self._engine.ask, tf.constant(np.array(rows, np.int32).T))
        parents: Parents
        parents, fitness = tf.nest.map_structure(lambda x: x.numpy(), asked)
        leaves = tf.nest.flatten((parents.genomes, parents.experience, parents.mates))
        start = 0
        for run, number, count in spans:
            chosen = slice(start, start + count)
            scale = parents.intensity_scale[chosen]
            self.expect((run, number), scale, fitness[chosen])
            yield ChildRequest(run, number, count, tuple(leaf[chosen] for leaf in leaves), scale)
            start += count

    def _stack(self, batches: Sequence[np.ndarray], turns: int) -> Tensor:
        """Return batches `[n, ...]` of different runs as `[K * W, ...]`, filled up with copies."""
        width = self._width(len(batches))
        if width == 1 and len(batches[0]) == turns:
            return tf.constant(batches[0])
        stacked = np.empty([turns, width, *batches[0].shape[1:]], batches[0].dtype)
        for lane, batch in enumerate([*batches, *[batches[0]] * (width - len(batches))]):
            stacked[: len(batch), lane] = batch
            stacked[len(batch) :, lane] = batch[0]
        return tf.constant(stacked.reshape(turns * width, *stacked.shape[2:]))

    def _width(self, count: int) -> int:
        """Return the width of a batch. Two widths are compiled: for single runs, and for many."""
        return self.min_width if count <= self.min_width else self._engine.plan.width

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
        offspring: maximum number of individuals of a request.
    """

    def __init__(self, variation: Variation, offspring: int = 1) -> None:
        self._variation = variation
        # As narrow as the lock step may be, and no narrower: the last digits are then the same.
        self._width = max(variation.plan.least_width, offspring)
        self._initial, self._child = TracedFunction(self._make_initial), TracedFunction(self._make_child)

    def make(self, request: ChildRequest) -> ChildResult:
        """Make and evaluate individuals."""
        index = np.arange(self._width, dtype=np.int32)
        key = (
            tf.constant(np.full_like(index, request.run)),
            tf.constant(request.number + np.minimum(index, request.count - 1)),
            tf.constant(index < request.count),
        )
        if request.parents:
            made = self._child(*key, *(self._widen(leaf) for leaf in (request.intensity_scale, *request.parents)))
        else:
            made = self._initial(*key)
        genomes, evaluation, diagnostics, divergence = tf.nest.map_structure(lambda x: x[: request.count].numpy(), made)
        return ChildResult(
            run=request.run,
            number=request.number,
            genomes=genomes,
            evaluation=tuple(tf.nest.flatten(evaluation)),
            diagnostics=dict(diagnostics),
            divergence=divergence,
        )

    def _widen(self, leaf: Any) -> Tensor:
        """Fill a batch `[n, ...]` up with copies of its last row."""
        return tf.constant(np.concatenate([leaf, np.repeat(leaf[-1:], self._width - len(leaf), axis=0)]))

    def _make_initial(
        self, runs: Tensor, number: Tensor, live: Tensor
    ) -> tuple[Tensor, Evaluation, dict[str, Tensor], Tensor]:
        draw_seed, evaluate_seed = self._variation.initial_seeds(runs, number)
        genomes, evaluation = self._variation.make_initial(draw_seed, evaluate_seed, live)
        return genomes, evaluation, {}, _unknown_divergence(runs)

    def _make_child(
        self, runs: Tensor, number: Tensor, live: Tensor, scale: Tensor, *leaves: Tensor
    ) -> tuple[Tensor, Evaluation, dict[str, Tensor], Tensor]:
        variation = self._variation
        _, mutate_seed, evaluate_seed = derive_seeds(variation.root_seed, runs, number)
        individual = (0, variation.template.experience)
        (genomes, experience), *mates = tf.nest.pack_sequence_as([individual] * (1 + variation.recombines), leaves)
        parents = Parents(genomes, experience, mates[0] if mates else (), scale)
        child = variation.mutate(parents, mutate_seed)
        evaluation = variation.evaluate(child.genome, evaluate_seed, live)
        adapts = variation.adaptation.mode == "divergence"
        divergence = variation.divergence(parents, child.genome) if adapts else _unknown_divergence(runs)
        return child.genome, evaluation, dict(child.diagnostics), divergence


def _unknown_divergence(runs: Tensor) -> Tensor:
    return tf.fill(tf.shape(runs), -1.0)
