"""Ask and tell: evolve with a simulator of your own.

`Search` is one run of `tfsm run` without its domain: it draws, selects, mutates and replaces with the same parts and
the same seeds. You evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf

from tfsm.abilities import StatefulSelection
from tfsm.errors import TfsmError
from tfsm.evolution.async_worker import ChildBatcher, ChildResult
from tfsm.evolution.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from tfsm.evolution.compile_plan import TracedFunction, choose_compiler
from tfsm.evolution.engine import Engine
from tfsm.evolution.evaluation import Evaluator
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.selection import initial_population_size
from tfsm.evolution.state import LazyTable
from tfsm.evolution.variation import Offspring, derive_initial_seeds
from tfsm.functional import prepare_experience
from tfsm.interfaces import Evaluation, Mutation, Nest, Selection, Tensor
from tfsm.kernels.random import root_seed
from tfsm.models.genome import check_model
from tfsm.models.network import Network, build_network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.runs.build import plan_run, resolve_parts
from tfsm.settings import Settings

__all__ = ["Search"]

MAX_WIDTHS: Final = 4
"""Numbers of genomes per `ask` that are compiled as they are; others are rounded up to a power of two."""
_UNLIMITED: Final = 2**31 - 1
_EXPERIENCE: Final = "search.experience"


@dataclass(frozen=True, eq=False)
class ExternalDomain:
    """A domain that is evaluated elsewhere; it only knows what evaluations look like."""

    model: keras.Model
    example: Evaluation | None = field(default=None, repr=False)
    """Zeros in the shape of the evaluation of one genome, `[1, ...]`."""
    shared: Nest = field(default=None, repr=False)
    """The experience that all individuals share, `[1, I, ...]`; None if each has its own."""
    compiled: ClassVar[bool] = False

    def network(self) -> keras.Model:
        """Return the model."""
        return self.model

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Return the example: called once, to learn the shapes."""
        assert self.example is not None
        return self.example

    def observe(self, experience: Nest) -> Nest:
        """Return the network inputs `[B, I, ...]`, or `[1, I, ...]` if all see the same."""
        return experience if self.shared is None else self.shared


@dataclass(frozen=True)
class _Asked:
    """Genomes that were asked for and not told yet."""

    first: int
    """The number of the first one."""
    genomes: np.ndarray
    offspring: Offspring | None = None
    """What else is known of children; None for initial individuals."""


class Search:
    """An evolutionary search that asks you to evaluate genomes.

    The first genomes are the initial population. After that, `ask` mutates parents that the selection scheme chooses,
    and `tell` lets the children enter the population one after the other. `ask(1)` is the paper's steady state. A
    search does not end by itself: it goes on after a solution as long as you ask.

    Args:
        model: a built Keras model; it provides the architecture, and with `init="model"` the first weights.
        mutation: the operator's name, or an operator.
        intensity: the operator's intensity; its general default if None.
        divergence: how far the outputs of a child move on its parent's experience, instead of an intensity: a number,
            or a percentage of the variance of the parent's outputs, such as `"1%"`.
        experience: inputs `[I, ...]` that all individuals see; None if `tell` says what each of them saw.
        selection: the selection scheme's name, or a scheme.
        population: size of the population.
        seed: the random seed. A search is run 0 of this seed.
        mutated_layers: the layers to mutate, like `layers` of `tfsm.mutate`.
        config: a `tfsm.toml` to use instead of the nearest one.
        **options: settings and options of the operator, the scheme or the engine, as in `tfsm.evolve`: `size=3`,
            `adapt="self"`, `init="normal"`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> search = tfsm.Search(model, "control", intensity=0.2, population=10, size=3, seed=1)
    >>> while not search.solved and search.evaluations < 2000:
    ...     genomes = search.ask(8)
    ...     error = ((genomes - [1.0, -1.0, 0.5]) ** 2).sum(axis=1)
    ...     search.tell(-error, solved=error < 0.01)
    >>> search.solved
    True
    >>> bool(abs(search.best_model().layers[0].kernel.numpy()[0, 0] - 1.0) < 0.1)
    True
    """

    def __init__(
        self,
        model: keras.Model,
        mutation: str | Mutation = "sm-g-sum",
        intensity: float | None = None,
        *,
        divergence: float | str | None = None,
        experience: Any = None,
        selection: str | Selection | StatefulSelection | None = None,
        population: int | None = None,
        seed: int | None = None,
        mutated_layers: str | Sequence[str] | None = None,
        config: str | Path | None = None,
        **options: Any,
    ) -> None:
        check_model(model)
        overrides = {
            "intensity": intensity,
            "divergence": divergence,
            "seed": seed,
            "population": population,
            "mutated_layers": mutated_layers,
            "runs": 1,
            "evaluations": _UNLIMITED,
            "stop": "budget",
        }
        plugins, resolved = resolve_parts(
            load_plugins(), ExternalDomain(model), mutation, selection, overrides, options, config
        )
        self._settings: Settings = resolved.settings
        settings = self._settings
        if settings.offspring is not None:
            raise TfsmError("offspring: a search makes as many children at once as you ask for: ask(64)")
        self._model = model
        self._mutation: Mutation = build_part(plugins.mutations[settings.mutation], settings.mutation_options)
        self._selection = build_part(plugins.selections[settings.selection], settings.selection_options)
        self._initial_population = initial_population_size(self._selection, settings.population)
        self._initializer = Initializer(settings.init, settings.init_scale)
        self._network = build_network(model, settings.mutated_layers)
        self._needs: frozenset[str] = frozenset(getattr(self._selection, "needs", ()))
        self._needs_experience = (
            settings.adapt == "divergence"
            or settings.divergence is not None
            or getattr(self._mutation, "uses_experience", True)
        )
        self._shared: list[np.ndarray] | None = None
        if experience is not None:
            self._shared = [tensor.numpy() for tensor in prepare_experience(model, experience).inputs]
        elif not self._needs_experience:
            self._shared = [np.zeros([1, 1, *(n or 1 for n in x.shape[1:])], x.dtype) for x in model.inputs]
        self._draw = TracedFunction(self._draw_initial)
        self._root_seed = root_seed(settings.seed)
        self._engine: Engine | None = None
        self._batcher: ChildBatcher | None = None
        self._asked: _Asked | None = None
        self._widths: list[int] = []
        self._told = 0

    # --- What is known so far

    @property
    def evaluations(self) -> int:
        """Number of genomes that were evaluated."""
        return self._told

    @property
    def solved(self) -> bool:
        """Whether a genome solves the task."""
        return self._engine is not None and bool(self._engine.state.solved.numpy()[0])

    @property
    def solved_at(self) -> int | None:
        """Number of evaluations to the first solution, if there is one."""
        return int(self._engine.state.solved_at.numpy()[0]) if self._engine is not None and self.solved else None

    @property
    def best_fitness(self) -> float:
        """The highest fitness so far; minus infinity at the start."""
        return float("-inf") if self._engine is None else float(self._engine.state.best_fitness.numpy()[0])

    @property
    def best_genome(self) -> np.ndarray:
        """The champion `[P]`: the fittest genome that solves the task, or the fittest one if none does."""
        if self._engine is None or not np.isfinite(self.best_fitness):
            raise TfsmError("there is no best genome yet: tell the finite fitness of one first")
        champion: np.ndarray = self._engine.state.champion.numpy()[0]
        return champion

    def best_model(self) -> keras.Model:
        """Return a copy of the model with the weights of `best_genome`."""
        return self._network.child(self.best_genome)

    # --- Ask and tell

    def ask(self, count: int = 1) -> np.ndarray:
        """Return genomes `[count, P]` to evaluate: fewer where the initial population ends.

        All children have parents from the population as it is now. `tfsm.unflatten(model, genome)` turns a genome into
        weights; `tfsm.functional.outputs` runs many genomes at once.

        Args:
            count: number of genomes.
        """
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise TfsmError(f"ask: expected a whole number >= 1, got {count!r}")
        if self._asked is not None:
            raise TfsmError(f"ask: tell the fitness of the last {len(self._asked.genomes):,} genomes first")
        count = int(count)
        if self._told < self._initial_population:
            count = min(count, self._initial_population - self._told)
            genomes = self._draw(self._keys(count)).numpy()[:count]
            self._asked = _Asked(self._told, genomes)
        else:
            assert self._engine is not None
            if self._told == self._initial_population:
                self._engine.start([0])
            children: Offspring = tf.nest.map_structure(lambda x: x.numpy(), self._engine.breed(self._keys(count)))
            children = tf.nest.map_structure(lambda x: x[:count], children)
            self._asked = _Asked(self._told, children.genomes, children)
        copy: np.ndarray = self._asked.genomes.copy()
        return copy

    def tell(
        self,
        fitness: Any,
        *,
        experience: Any = None,
        behavior: Any = None,
        solved: Any = None,
        cases: Any = None,
    ) -> None:
        """Report the evaluation of all genomes that the last `ask` returned, in the same order.

        Args:
            fitness: `[n]`, higher is better. A genome whose fitness is not finite is broken: it never has children.
            experience: the inputs `[n, I, ...]` that each network saw, for operators that measure sensitivity; a list
                or dict of them for a model with several inputs. As many inputs for each genome, each time.
            behavior: `[n, D]`, for schemes that compare what individuals do.
            solved: `[n]`, whether each genome solves the task; none of them if None.
            cases: `[n, C]`, the result in each case, for schemes that compare case by case.
        """
        asked = self._asked
        if asked is None:
            raise TfsmError("tell: there is nothing to tell: call ask first")
        count = len(asked.genomes)
        evaluation = self._check(count, fitness, experience, behavior, solved, cases)
        engine = self._engine or self._start(tf.nest.map_structure(lambda x: np.zeros_like(x[:1]), evaluation))
        self._check_shapes(engine.variation.template, evaluation)
        batcher = self._batcher = self._batcher or ChildBatcher(engine, 0, self._initial_population)
        diagnostics: dict[str, np.ndarray] = {}
        divergence = None
        if asked.offspring is not None:
            children = asked.offspring
            diagnostics = dict(children.diagnostics)
            divergence = None if isinstance(children.divergence, tuple) else children.divergence
            batcher.expect((0, asked.first), children.intensity_scale, children.parent_fitness)
        leaves = tuple(tf.nest.flatten(evaluation))
        result = ChildResult(0, asked.first, asked.genomes, leaves, diagnostics, divergence)
        batcher.tell([result], turns=self._width(count))
        self._told += count
        self._asked = None

    # --- Files

    def save(self, path: str | Path) -> None:
        """Write everything that decides the future of the search to a file, atomically.

        Genomes that were asked for and not told are asked for again after loading.

        Args:
            path: the file.
        """
        tables = {} if self._engine is None else dict(self._engine.state.read_tables([0]))
        for index, shared in enumerate(self._shared or ()):
            tables[f"{_EXPERIENCE}.{index}"] = LazyTable(shared.dtype, shared.shape, lambda place, x=shared: x[place])  # type: ignore[misc]
        about = {"search": self._describe()}
        try:
            write_checkpoint(Path(path), Checkpoint(0, 1, self._told, tables=tables), about)
        except OSError as error:
            raise TfsmError(f"{path}: cannot be written: {error.strerror or error}") from None

    def load(self, path: str | Path) -> None:
        """Continue a search that was saved; this one must have been made with the same arguments.

        Args:
            path: the file.
        """
        checkpoint, about = read_checkpoint(Path(path))
        before, now = about.get("search"), self._describe()
        if not isinstance(before, Mapping):
            raise TfsmError(f"{path}: the checkpoint of a run, not of a search: tfsm run --resume continues it")
        changed = [key for key in now if before.get(key) != now[key]]
        if changed:
            key = changed[0]
            raise TfsmError(f"{path}: was saved with another {key}: {before.get(key)}, and not {now[key]}")
        tables = {name: table for name, table in checkpoint.tables.items() if not name.startswith(_EXPERIENCE)}
        saved = [np.stack(list(checkpoint.tables[name])) for name in checkpoint.tables if name.startswith(_EXPERIENCE)]
        shared = self._shared or []
        if len(saved) != len(shared) or not all(map(np.array_equal, saved, shared)):
            raise TfsmError(f"{path}: was saved with another experience")
        self._engine = self._batcher = self._asked = None
        self._told = checkpoint.evaluations_used
        if tables:
            engine = self._start(_read_example(tables))
            engine.state.restore_tables(tables, [0])

    def _describe(self) -> dict[str, Any]:
        """Return what a saved search must have in common with the one that loads it."""
        settings = self._settings.as_record()
        for name in ("domain", "engine", "observers", "evaluations", "runs", "checkpoint_every", "log_every"):
            settings.pop(name, None)
        return {**settings, "weights": self._network.size}

    # --- Construction and checks

    def _start(self, example: Evaluation) -> Engine:
        """Make the engine, now that it is known what evaluations look like."""
        shared = None if self._shared is None else [tf.constant(x) for x in self._shared]
        jit, _ = choose_compiler(self._network, self._settings.engine.get("compile", "auto"))
        evaluator = Evaluator(ExternalDomain(self._model, example, shared), self._network, jit=jit)
        prepared = plan_run(self._settings, evaluator, self._mutation, self._selection, self._initializer)
        self._engine = prepared.engine()
        self._engine.reset(0)
        return self._engine

    def _draw_initial(self, keys: Tensor) -> Tensor:
        draw_seed, _ = derive_initial_seeds(self._root_seed, keys[0], keys[1])
        return self._initializer.genomes(self._network, draw_seed)

    def _keys(self, count: int) -> Tensor:
        """Return lanes, numbers, and which of them are live, of the next individuals: `[3, B]`."""
        # Two at least: XLA drops a batch axis of one and then sums in another order.
        index = np.arange(max(2, self._width(count)), dtype=np.int32)
        live = index < count
        return tf.constant(
            np.stack([np.zeros_like(index), self._told + np.where(live, index, 0), live]).astype(np.int32)
        )

    def _width(self, count: int) -> int:
        """Return how many individuals to compile for: few widths, and seldom more than there are."""
        if count not in self._widths:
            wider = [width for width in self._widths if width >= count]
            if len(self._widths) >= MAX_WIDTHS:
                count = min(wider) if wider else 1 << (count - 1).bit_length()
            if count not in self._widths:
                self._widths.append(count)
        return count

    def _check(self, count: int, fitness: Any, experience: Any, behavior: Any, solved: Any, cases: Any) -> Evaluation:
        """Return the arguments of `tell` for `count` genomes as an evaluation; raise an error if it cannot be one."""
        values = _as_numbers(fitness, "fitness", (count,))
        healthy = np.isfinite(values)
        given = {"behavior": behavior, "cases": cases}
        arrays: dict[str, Any] = {"behavior": np.zeros([count, 0], np.float32), "cases": ()}
        for name in self._needs:
            if given[name] is None:
                raise TfsmError(f"tell: the selection scheme {self._settings.selection} needs {name}=")
            arrays[name] = _as_numbers(given[name], name, (count, None))
            if not np.isfinite(arrays[name][healthy]).all():
                raise TfsmError(f"tell: {name} has NaN or infinite values where the fitness is finite")
        solves = np.zeros([count], bool) if solved is None else np.asarray(solved)
        if solves.shape != (count,) or solves.dtype.kind not in "biu":
            raise TfsmError(f"tell: solved: expected [{count}] truth values, got {solves.dtype} {list(solves.shape)}")
        return Evaluation(
            values,
            solves.astype(bool),
            arrays["behavior"],
            self._check_experience(count, experience, healthy),
            arrays["cases"],
        )

    def _check_experience(self, count: int, experience: Any, healthy: np.ndarray) -> Nest:
        if self._shared is not None:
            if experience is not None and self._needs_experience:
                raise TfsmError("tell: experience= was given to Search, so that all genomes share it")
            return ()
        if experience is None:
            raise TfsmError(
                f"tell: the operator {self._settings.mutation} needs experience=, the inputs that each network saw; or "
                "give Search the inputs that all of them see"
            )

        def clean(part: Any) -> np.ndarray:
            array = np.array(part)
            if array.ndim < 2 or array.shape[0] != count:
                raise TfsmError(f"tell: experience: expected [{count}, I, ...], got {list(array.shape)}")
            array[~healthy] = 0  # what a broken network saw is never used
            return array

        if isinstance(experience, Mapping):
            experience = {name: clean(part) for name, part in experience.items()}
        elif isinstance(experience, tuple | list) and len(self._model.inputs) > 1:
            experience = tuple(clean(part) for part in experience)
        else:
            experience = clean(experience)
        return [tensor.numpy() for tensor in prepare_experience(self._model, experience, count, each=True).inputs]

    def _check_shapes(self, template: Evaluation, evaluation: Evaluation) -> None:
        for name in ("behavior", "cases", "experience"):
            expected = [list(spec.shape) for spec in tf.nest.flatten(getattr(template, name))]
            found = [list(leaf.shape[1:]) for leaf in tf.nest.flatten(getattr(evaluation, name))]
            if found != expected:
                raise TfsmError(f"tell: {name}: expected {expected} for each genome, as at first, got {found}")


def _as_numbers(values: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return values as float32, `None` in the shape being any length."""
    expected = ", ".join("D" if length is None else str(length) for length in shape)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise TfsmError(f"tell: {name}: not an array: {error}") from None
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits or array.dtype.kind not in "biuf":
        raise TfsmError(f"tell: {name}: expected numbers [{expected}], got {array.dtype} {list(array.shape)}")
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _read_example(tables: Mapping[str, LazyTable]) -> Evaluation:
    """Return zeros in the shape of one evaluation, from the tables `[1, N, ...]` of a saved search."""

    def zeros(name: str) -> np.ndarray:
        return np.zeros([1, *tables[name].shape[2:]], tables[name].dtype)

    experience = sorted(
        (name for name in tables if name.startswith("experience.")), key=lambda name: int(name.partition(".")[2])
    )
    return Evaluation(
        np.zeros([1], np.float32),
        np.zeros([1], bool),
        zeros("behavior") if "behavior" in tables else np.zeros([1, 0], np.float32),
        [zeros(name) for name in experience] or (),
        zeros("cases") if "cases" in tables else (),
    )
