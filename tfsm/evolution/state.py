"""The state of a group of runs: populations and records, in variables that are updated in place.

Every write to the state is a method of `State`. `Engine.tell` calls those that record evaluated individuals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.abilities import Population
from tfsm.errors import TfsmError
from tfsm.evolution.admission import COUNTS, LEVELS, TALLIES, Outcome, Records
from tfsm.interfaces import Evaluation, Nest, Tensor

TABLE_NAMES = {
    "intensity_scale": "strength",
    "run_intensity_scale": "control",
    "has_sensitivity": "measured",
    "selection_state": "memory",
}
"""Names of tables in checkpoint files that differ from the attributes' names; the file format is frozen."""


@dataclass(frozen=True)
class LazyTable:
    """A table whose rows are read when they are needed: a state may be as large as the memory."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    """`[L, ...]`, of `L` lanes."""
    row: Callable[[int], np.ndarray]
    """From an index among the lanes to its row."""

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self.row(index) for index in range(self.shape[0]))

    def take(self, indices: Sequence[int]) -> LazyTable:
        """Return some of the rows."""
        return LazyTable(self.dtype, (len(indices), *self.shape[1:]), lambda index: self.row(indices[index]))


class Column:
    """One record of all runs, `[L]`: a column of a table `[L, C]`, with the methods of a variable that are needed.

    Args:
        table: the variable.
        index: of the column.
        dtype: type of the column; the table's, or bool.
    """

    def __init__(self, table: tf.Variable, index: int, dtype: tf.DType) -> None:
        self._table, self._index, self.dtype = table, index, dtype
        self.shape = table.shape[:1]

    def numpy(self) -> np.ndarray:
        """Return the values of all lanes."""
        return self._table.numpy()[:, self._index].astype(self.dtype.as_numpy_dtype)

    def sparse_read(self, lanes: Tensor) -> Tensor:
        """Return the values of some lanes, `[W]`."""
        return tf.cast(self._table.sparse_read(lanes)[:, self._index], self.dtype)

    def gather_nd(self, place: Sequence[Sequence[int]]) -> Tensor:
        """Return the values of the lanes at `[W, 1]`."""
        return self.sparse_read([lane for (lane,) in place])

    def scatter_nd_update(self, place: Sequence[Sequence[int]], values: Tensor) -> None:
        """Overwrite the values of the lanes at `[W, 1]`."""
        values = tf.cast(values, self._table.dtype)
        self._table.scatter_nd_update([[lane, self._index] for (lane,) in place], values)


class State:
    """Populations and records of `runs` runs.

    A lane is the place of one run in this state: the run's index on the first axis of every variable. `W` lanes are
    read or written at once.

    Args:
        runs: number of runs to allocate.
        population: N.
        size: P.
        dtype: type of the genomes.
        template: what an evaluation returns for one genome, as `tf.TensorSpec`s.
        diagnostics: names of the operator's diagnostics.
        reuse: whether to keep each individual's sensitivity.
        behavior: whether to keep each individual's behavior.
        cases: whether to keep each individual's cases.
        selection_state: initial state of the selection scheme for one run.
    """

    def __init__(
        self,
        runs: int,
        population: int,
        size: int,
        dtype: tf.DType,
        template: Evaluation,
        diagnostics: Sequence[str],
        *,
        reuse: bool = False,
        behavior: bool = False,
        cases: bool = False,
        selection_state: Nest = (),
    ) -> None:
        def variable(shape: Sequence[int], kind: tf.DType) -> tf.Variable:
            return tf.Variable(tf.zeros(shape, kind), trainable=False)

        self.runs, self.population = runs, population
        self.genomes = variable([runs, population, size], dtype)
        self.fitness = variable([runs, population], tf.float32)
        self.experience: Nest = tf.nest.map_structure(
            lambda spec: variable([runs, population, *spec.shape], spec.dtype), template.experience
        )
        per_individual = [runs, population] if behavior else [0, 0]
        self.behavior = variable([*per_individual, *template.behavior.shape], template.behavior.dtype)
        self.cases = variable([runs, population, *template.cases.shape] if cases else [0, 0, 0], tf.float32)
        self._initial_selection_state = selection_state
        self.selection_state: Nest = tf.nest.map_structure(
            lambda x: variable([runs, *x.shape], x.dtype), selection_state
        )
        self.intensity_scale = variable([runs, population], tf.float32)
        """Factor of the intensity that each individual was made with, where intensities adapt."""
        self.run_intensity_scale = variable([runs], tf.float32)
        """Factor of the intensity for all children of a run."""
        per_individual = [runs, population] if reuse else [0, 0]
        self.sensitivity = variable([*per_individual, size], dtype)
        self.has_sensitivity = variable(per_individual, tf.bool)
        self.champion = variable([runs, size], dtype)
        names = (*LEVELS, *TALLIES, *diagnostics)
        self._counts = variable([runs, len(COUNTS)], tf.int32)
        self._levels = variable([runs, len(names)], tf.float32)

        def column(name: str, kind: tf.DType) -> Column:
            if name in COUNTS:
                return Column(self._counts, COUNTS.index(name), kind)
            return Column(self._levels, names.index(name), kind)

        self.champion_fitness = column("champion_fitness", tf.float32)
        self.best_fitness = column("best_fitness", tf.float32)
        self.solved = column("solved", tf.bool)
        self.evaluations = column("evaluations", tf.int32)
        self.solved_at = column("solved_at", tf.int32)
        """Evaluations to the first solution; 0 before."""
        self.baseline = column("baseline", tf.float32)
        """Median fitness of the initial population: what a random network gets."""
        self.tallies = {name: column(name, tf.float32) for name in names[len(LEVELS) :]}
        """What was counted since the last logged interval."""
        self.clear()

    @property
    def size_bytes(self) -> int:
        """Memory of all variables."""
        return sum(v.shape.num_elements() * v.dtype.size for v in self.tables().values())

    def tables(self) -> dict[str, tf.Variable | Column]:
        """Return all variables in use, by their names in checkpoint files: they determine the rest of the run."""
        nested = {"experience": self.experience, "selection_state": self.selection_state}
        own = {name: v for name, v in vars(self).items() if name not in (*nested, "_counts", "_levels")}
        named = {name: v for name, v in own.items() if isinstance(v, (tf.Variable, Column))}
        for name, nest in nested.items():
            prefix = TABLE_NAMES.get(name, name)
            named |= {f"{prefix}.{index}": leaf for index, leaf in enumerate(tf.nest.flatten(nest))}
        named |= {f"tallies.{name}": tally for name, tally in self.tallies.items()}
        return {TABLE_NAMES.get(name, name): table for name, table in named.items() if table.shape.num_elements()}

    # --- Reading

    def view(self, lanes: Tensor, needs: Collection[str] = ()) -> Population:
        """Return what a selection scheme sees of these runs; of behavior and cases only what it needs."""

        def read(table: tf.Variable, name: str) -> Tensor:
            if name in needs:
                return table.sparse_read(lanes)
            return tf.zeros([lanes.shape[0] or tf.shape(lanes)[0], 0, table.shape[-1]], table.dtype)

        selection_state = tf.nest.map_structure(lambda v: v.sparse_read(lanes), self.selection_state)
        fitness = self.fitness.sparse_read(lanes)
        return Population(fitness, read(self.behavior, "behavior"), read(self.cases, "cases"), selection_state)

    def individuals(self, lanes: Tensor, slots: Tensor) -> tuple[Tensor, Nest]:
        """Return the genomes `[W, P]` and experience `[W, ...]` of one individual per lane."""
        place = tf.stack([lanes, slots], axis=-1)
        return self.genomes.gather_nd(place), tf.nest.map_structure(lambda v: v.gather_nd(place), self.experience)

    def records(self, lanes: Tensor, *, adapts: bool = False) -> Records:
        """Return the records of these runs, with the intensity scale where it adapts."""
        scale = self.run_intensity_scale.sparse_read(lanes) if adapts else ()
        return Records(self._counts.sparse_read(lanes), self._levels.sparse_read(lanes), scale)

    def read_tables(self, lanes: Sequence[int]) -> dict[str, LazyTable]:
        """Return all tables of some lanes, by their names in checkpoint files; valid until the next write."""

        def rows(table: tf.Variable | Column) -> LazyTable:
            shape = (len(lanes), *table.shape[1:])
            return LazyTable(_numpy_dtype(table), shape, lambda index: table.gather_nd([[lanes[index]]]).numpy()[0])

        return {name: rows(table) for name, table in self.tables().items()}

    # --- Writing

    def clear(self) -> None:
        """Reset everything for another group of runs."""
        for table in (self.fitness, self._levels):
            table.assign(tf.fill(table.shape, float("-inf")))
        self._counts.assign(tf.zeros_like(self._counts))
        self.has_sensitivity.assign(tf.zeros_like(self.has_sensitivity))
        for table in (self.intensity_scale, self.run_intensity_scale):
            table.assign(tf.ones_like(table))
        tf.nest.map_structure(
            lambda v, first: v.assign(tf.broadcast_to(first, v.shape)),
            self.selection_state,
            self._initial_selection_state,
        )
        self.clear_tallies(range(self.runs))

    def clear_tallies(self, lanes: Iterable[int]) -> None:
        """Start a new logging interval of these lanes."""
        lanes = list(lanes)
        levels = self._levels.sparse_read(lanes)[:, : len(LEVELS)]
        cleared = tf.concat([levels, tf.zeros([len(lanes), len(self.tallies)])], axis=1)
        self._levels.scatter_nd_update(tf.constant(lanes, tf.int32, [len(lanes), 1]), cleared)

    def set_baseline(self, lanes: Sequence[int] | None = None) -> None:
        """Set the baseline of these lanes, or of all, to the median fitness of their populations."""
        lanes = range(self.runs) if lanes is None else lanes
        fitness = self.fitness.sparse_read(list(lanes)).numpy()
        finite = np.where(np.isfinite(fitness), fitness, np.nan)
        known = np.isfinite(fitness).any(axis=1)
        medians = np.full(len(lanes), -np.inf, np.float32)
        medians[known] = np.nanmedian(finite[known], axis=1)
        self.baseline.scatter_nd_update([[lane] for lane in lanes], medians)

    def restore_tables(self, tables: Mapping[str, LazyTable], lanes: Sequence[int]) -> None:
        """Overwrite lanes of a cleared state by the rows of tables `[L, ...]`; raise an error where they do not fit."""
        own = self.tables()
        for name in {*own, *tables}:
            given = (tables[name].dtype, tables[name].shape[1:]) if name in tables else "nothing"
            expected = (_numpy_dtype(own[name]), tuple(own[name].shape[1:])) if name in own else "nothing"
            if given != expected:
                raise TfsmError(f"checkpoint mismatch: {name} has {given}, expected {expected}")
        for name, rows in tables.items():
            for lane, row in zip(lanes, rows, strict=True):
                own[name].scatter_nd_update([[lane]], row[None])

    def store_sensitivities(self, place: Tensor, sensitivity: Tensor) -> None:
        """Keep sensitivities `[W, P]` of the individuals at (lane, slot) `[W, 2]`."""
        self.sensitivity.scatter_nd_update(place, sensitivity)

    def mark_sensitivities(self, place: Tensor) -> None:
        """Note that the sensitivities of the individuals at (lane, slot) `[W, 2]` are known."""
        self.has_sensitivity.scatter_nd_update(place, tf.ones_like(place[:, 0], tf.bool))

    def record(
        self,
        lanes: Tensor,
        outcome: Outcome,
        genomes: Tensor,
        evaluation: Evaluation,
        intensity_scale: Tensor | None = None,
    ) -> None:
        """Write what became of `K` individuals of each of `W` runs.

        Args:
            lanes: `[W]`.
            outcome: what became of them.
            genomes: the individuals, `[K * W, P]`.
            evaluation: their evaluation, `[K * W, ...]`.
            intensity_scale: factors of the intensity that they were made with, `[K * W]`; None: leave as is.
        """
        width = lanes.shape[0]
        turns = outcome.counted.shape[0] // width
        owners = tf.tile(lanes, [turns]) if turns > 1 else lanes  # [K * W]
        with after_evaluation(evaluation.fitness):
            entering = _gather_where(outcome.enters)
            self._insert(
                entering(owners),
                entering(outcome.slot),
                entering(genomes),
                tf.nest.map_structure(entering, evaluation._replace(fitness=outcome.fitness)),
                None if intensity_scale is None else entering(intensity_scale),
            )
            leading = _gather_where(outcome.leads)
            self.champion.scatter_nd_update(leading(owners)[:, None], leading(genomes))
            # An idle lane may be a second one of a run, and must not write its old records.
            counted = _gather_where(outcome.counted[:width] if turns > 1 else outcome.counted)
            place = counted(lanes)[:, None]

            def write(table: tf.Variable, rows: Tensor) -> None:
                table.scatter_nd_update(place, counted(rows))

            tf.nest.map_structure(write, self.selection_state, outcome.selection_state)
            write(self._counts, outcome.records.counts)
            write(self._levels, outcome.records.levels)
            if not isinstance(outcome.records.intensity_scale, tuple):
                write(self.run_intensity_scale, outcome.records.intensity_scale)

    def _insert(
        self, lanes: Tensor, slots: Tensor, genomes: Tensor, evaluation: Evaluation, intensity_scale: Tensor | None
    ) -> None:
        place = tf.stack([lanes, slots], axis=-1)
        self.genomes.scatter_nd_update(place, genomes)
        self.fitness.scatter_nd_update(place, evaluation.fitness)
        if self.behavior.shape[0]:
            self.behavior.scatter_nd_update(place, evaluation.behavior)
        if self.cases.shape[0]:
            self.cases.scatter_nd_update(place, evaluation.cases)
        if self.has_sensitivity.shape[0]:
            self.has_sensitivity.scatter_nd_update(place, tf.zeros_like(slots, tf.bool))
        tf.nest.map_structure(lambda v, new: v.scatter_nd_update(place, new), self.experience, evaluation.experience)
        if intensity_scale is not None:
            self.intensity_scale.scatter_nd_update(place, intensity_scale)


def after_evaluation(fitness: Tensor) -> AbstractContextManager[None]:
    """Run what follows only after the evaluation: if it fails, the state must not show that there was one."""
    return tf.control_dependencies([fitness])


def _gather_where(mask: Tensor) -> Callable[[Tensor], Tensor]:
    where = tf.where(mask)[:, 0]
    return lambda x: tf.gather(x, where)


def _numpy_dtype(table: tf.Variable | Column) -> np.dtype[Any]:
    return np.dtype(table.dtype.as_numpy_dtype)
