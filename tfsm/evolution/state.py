"""Everything that a group of runs in lock step remembers, in variables that are updated in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import tensorflow as tf

from tfsm.interfaces import Evaluation, Nest, Population, Tensor

TALLIES = ("children", "better", "neutral", "broken")
TABLE_NAMES = {"intensity_scale": "strength", "run_intensity_scale": "control", "is_measured": "measured"}
"""Names of tables in checkpoint files that differ from the attributes' names; the file format is frozen."""


class State:
    """Populations and records of `runs` runs.

    Args:
        runs: how many runs there is room for.
        population: N.
        size: P.
        dtype: the genomes' type.
        template: what an evaluation gives for one genome, as `tf.TensorSpec`s.
        diagnostics: the names of what the operator reports.
        reuse: whether to keep each individual's sensitivity.
        behavior: whether to keep what each individual did.
        cases: whether to keep how well it did in each case.
        memory: what the selection scheme remembers of one run at first.
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
        memory: Nest = (),
    ) -> None:
        def variable(shape: Sequence[int], kind: tf.DType) -> tf.Variable:
            return tf.Variable(tf.zeros(shape, kind), trainable=False)

        self.runs, self.population = runs, population
        self.genomes = variable([runs, population, size], dtype)
        self.fitness = variable([runs, population], tf.float32)
        self.experience: Nest = tf.nest.map_structure(
            lambda spec: variable([runs, population, *spec.shape], spec.dtype), template.experience
        )
        told = [runs, population] if behavior else [0, 0]
        self.behavior = variable([*told, *template.behavior.shape], template.behavior.dtype)
        reported = [runs, population, *template.cases.shape] if cases else [0, 0, 0]
        self.cases = variable(reported, tf.float32)
        self._first_memory = memory
        self.memory: Nest = tf.nest.map_structure(lambda x: variable([runs, *x.shape], x.dtype), memory)
        self.intensity_scale = variable([runs, population], tf.float32)
        """How many times the intensity each individual's children get, where intensities adapt."""
        self.run_intensity_scale = variable([runs], tf.float32)
        """How many times the intensity all children of a run get."""
        kept = [runs, population] if reuse else [0, 0]
        self.sensitivity = variable([*kept, size], dtype)
        self.is_measured = variable(kept, tf.bool)
        self.champion = variable([runs, size], dtype)
        self.champion_fitness = variable([runs], tf.float32)
        self.best_fitness = variable([runs], tf.float32)
        self.solved = variable([runs], tf.bool)
        self.evaluations = variable([runs], tf.int32)
        self.solved_at = variable([runs], tf.int32)
        """Evaluations to the first solution; 0 before."""
        self.baseline = variable([runs], tf.float32)
        self.tallies = {name: variable([runs], tf.float32) for name in (*TALLIES, *diagnostics)}
        self.clear()

    @property
    def size_bytes(self) -> int:
        """What all of it takes."""
        return sum(v.shape.num_elements() * v.dtype.size for v in self.tables().values())

    def clear(self) -> None:
        """Forget everything, ready for another group of runs."""
        for table in (self.fitness, self.champion_fitness, self.best_fitness, self.baseline):
            table.assign(tf.fill(table.shape, float("-inf")))
        self.solved.assign(tf.zeros_like(self.solved))
        self.evaluations.assign(tf.zeros_like(self.evaluations))
        self.solved_at.assign(tf.zeros_like(self.solved_at))
        self.is_measured.assign(tf.zeros_like(self.is_measured))
        for table in (self.intensity_scale, self.run_intensity_scale):
            table.assign(tf.ones_like(table))
        tf.nest.map_structure(
            lambda v, first: v.assign(tf.broadcast_to(first, v.shape)), self.memory, self._first_memory
        )
        self.clear_tallies(range(self.runs))

    def clear_tallies(self, lanes: Iterable[int]) -> None:
        """Begin a new logging interval of these lanes."""
        place = tf.constant([[lane] for lane in lanes], tf.int32)
        for tally in self.tallies.values():
            tally.scatter_nd_update(place, tf.zeros([len(place)]))

    def tables(self) -> dict[str, tf.Variable]:
        """Return everything by name, but for what is not in use: all of it decides what comes next."""
        nested = {"experience": self.experience, "memory": self.memory}
        named = {
            TABLE_NAMES.get(name, name): v
            for name, v in vars(self).items()
            if isinstance(v, tf.Variable) and name not in nested
        }
        for name, nest in nested.items():
            named |= {f"{name}.{place}": leaf for place, leaf in enumerate(tf.nest.flatten(nest))}
        named |= {f"tallies.{name}": tally for name, tally in self.tallies.items()}
        return {name: table for name, table in named.items() if table.shape.num_elements()}

    def set_baseline(self, lanes: Sequence[int] | None = None) -> None:
        """Remember the median initial fitness of these runs, or of all: what a random network gets."""
        lanes = range(self.runs) if lanes is None else lanes
        fitness = self.fitness.sparse_read(list(lanes)).numpy()
        finite = np.where(np.isfinite(fitness), fitness, np.nan)
        known = np.isfinite(fitness).any(axis=1)
        medians = np.full(len(lanes), -np.inf, np.float32)
        medians[known] = np.nanmedian(finite[known], axis=1)
        self.baseline.scatter_nd_update([[lane] for lane in lanes], medians)

    def view(self, lanes: Tensor, needs: Collection[str] = ()) -> Population:
        """Return what a selection scheme sees of these runs, of behavior and cases only what it needs."""

        def kept(table: tf.Variable, name: str) -> Tensor:
            if name in needs:
                return table.sparse_read(lanes)
            return tf.zeros([lanes.shape[0] or tf.shape(lanes)[0], 0, table.shape[-1]], table.dtype)

        memory = tf.nest.map_structure(lambda v: v.sparse_read(lanes), self.memory)
        fitness = self.fitness.sparse_read(lanes)
        return Population(fitness, kept(self.behavior, "behavior"), kept(self.cases, "cases"), memory)

    def individuals(self, lanes: Tensor, slots: Tensor) -> tuple[Tensor, Nest]:
        """Return the genomes `[W, P]` and experience `[W, ...]` of one individual of each run."""
        place = tf.stack([lanes, slots], axis=-1)
        return self.genomes.gather_nd(place), tf.nest.map_structure(lambda v: v.gather_nd(place), self.experience)

    def replace(self, lanes: Tensor, slots: Tensor, genomes: Tensor, found: Evaluation) -> None:
        """Put one individual, of which this was found, in its place in each of these runs."""
        place = tf.stack([lanes, slots], axis=-1)
        self.genomes.scatter_nd_update(place, genomes)
        self.fitness.scatter_nd_update(place, found.fitness)
        if self.behavior.shape[0]:
            self.behavior.scatter_nd_update(place, found.behavior)
        if self.cases.shape[0]:
            self.cases.scatter_nd_update(place, found.cases)
        if self.is_measured.shape[0]:
            self.is_measured.scatter_nd_update(place, tf.zeros_like(slots, tf.bool))
        tf.nest.map_structure(lambda v, new: v.scatter_nd_update(place, new), self.experience, found.experience)
