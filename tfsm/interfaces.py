"""Interfaces of the plugin parts: mutation operators, domains, selection schemes and observers.

Shapes are written with `B`, the number of genomes in a batch; `P`, the number of weights; `I`, the number of
experiences; `N`, the size of a population. Importing this module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    import keras
    import numpy as np

    from tfsm.evolution.observers import CheckpointInfo, ExperimentInfo, Interval, Progress, RunResult, Status
    from tfsm.models.network import Network

__all__ = [
    "Adapt",
    "Admission",
    "Candidate",
    "Child",
    "Choice",
    "Compile",
    "Domain",
    "Evaluation",
    "Failures",
    "Film",
    "Init",
    "Mutation",
    "Nest",
    "Observer",
    "Population",
    "Selection",
    "SelectionContext",
    "StatefulSelection",
    "Stop",
    "SupportsAnyModel",
    "SupportsBehaviorMap",
    "SupportsDistinctFrames",
    "SupportsFiles",
    "SupportsFilm",
    "SupportsPerformance",
    "SupportsPerturbation",
    "SupportsReuse",
    "SupportsValidation",
    "Tensor",
]

Tensor: TypeAlias = Any
"""A `tf.Tensor`; TensorFlow ships no type stubs worth checking against.

>>> from tfsm.interfaces import Tensor
>>> def norm(genome: Tensor) -> Tensor:
...     return (genome**2).sum() ** 0.5
"""

Nest: TypeAlias = Any
"""A tensor, or a tuple, list or dict of them.

>>> from tfsm.interfaces import Nest
>>> experience: Nest = {"position": [[0.0, 1.0]], "heading": [[0.5]]}
"""

Init: TypeAlias = Literal[
    "xavier-normal", "xavier-uniform", "xavier-biased", "xavier-pytorch", "normal", "uniform", "model"
]
"""How the initial genomes are drawn.

>>> from typing import get_args
>>> "xavier-normal" in get_args(Init)
True
"""
Adapt: TypeAlias = Literal["none", "self", "divergence"]
"""How the mutation intensity adapts during a run.

>>> from typing import get_args
>>> get_args(Adapt)
('none', 'self', 'divergence')
"""
Stop: TypeAlias = Literal["solved", "budget"]
"""Whether a run ends with its first solution or with its budget.

>>> from typing import get_args
>>> get_args(Stop)
('solved', 'budget')
"""
Failures: TypeAlias = Literal["stop", "broken"]
"""Whether a failed evaluation ends the experiment or counts as a broken individual.

>>> from typing import get_args
>>> get_args(Failures)
('stop', 'broken')
"""
Compile: TypeAlias = Literal["auto", "xla", "graph"]
"""How the evolution step is compiled.

>>> from typing import get_args
>>> get_args(Compile)
('auto', 'xla', 'graph')
"""


@runtime_checkable
class Mutation(Protocol):
    """A mutation operator: a frozen dataclass of options and a pure, traceable function from parent to child.

    `seed` is the only source of randomness. An operator is written for one genome, and the engine maps it over a batch.
    One whose functions broadcast over leading axes, as all of `tfsm.kernels` do, sets `batched = True` and receives
    `[B, ...]` at once, which is faster. More class attributes are optional: with `needs_gradient = True` a network
    without a gradient is refused before the run; with `mates = True` the call also receives a second parent as the
    keyword arguments `mate` and `mate_experience`; with `uses_experience = False` it also works where no experience was
    recorded or told; with `targets_divergence = True` the intensity is itself a target divergence, and receives the
    one that the user asks for.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class PlainNoise:
    ...     batched = True
    ...     def __call__(self, network, parent, experience, intensity, seed):
    ...         return parent + intensity * network.noise(seed)
    >>> isinstance(PlainNoise(), Mutation)
    True
    """

    batched: ClassVar[bool] = False

    def __call__(
        self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor
    ) -> Tensor | Child:
        """Return the child of a parent `[P]`.

        Args:
            network: runs genomes; see `tfsm.models.network.Network`.
            parent: `[P]`.
            experience: the inputs that the parent saw, tensors `[I, ...]`.
            intensity: a scalar; `[B, 1]` for a batched operator where individuals have their own.
            seed: `[2]`.
        """
        ...


class Child(NamedTuple):
    """A mutated genome with diagnostics, for an operator that has something to report.

    >>> import numpy as np, tfsm
    >>> child = tfsm.Child(np.zeros(3), {"step_length": np.float32(0.5)})
    >>> child.genome.shape, list(child.diagnostics)
    ((3,), ['step_length'])
    """

    genome: Tensor
    diagnostics: Mapping[str, Tensor]
    """Scalars by name (`[B]` from a batched operator); their means are logged with the metrics."""


@runtime_checkable
class SupportsPerturbation(Mutation, Protocol):
    """An operator that adds its intensity times a perturbation to the parent.

    If the user asks for a divergence, this perturbation is rescaled to it. Any other operator is called with a small
    intensity, and the change that it makes is rescaled.

    >>> from tfsm_plugins.mutations.crossover import SafeCrossover
    >>> from tfsm_plugins.mutations.gradient_free import Control
    >>> isinstance(Control(), SupportsPerturbation), isinstance(SafeCrossover(), SupportsPerturbation)
    (True, False)
    """

    def perturb(self, network: Network, parent: Tensor, experience: Nest, seed: Tensor) -> Tensor:
        """Return the perturbation of a parent `[P]` at an intensity of one; its length does not matter."""
        ...


@runtime_checkable
class SupportsReuse(Mutation, Protocol):
    """A batched operator with a sensitivity that the engine may cache for a parent's next child.

    >>> from tfsm_plugins.mutations.gradient_free import Control
    >>> from tfsm_plugins.mutations.gradient import SafeMutationSum
    >>> isinstance(SafeMutationSum(), SupportsReuse), isinstance(Control(), SupportsReuse)
    (True, False)
    """

    def reusable(self, network: Network, available: int) -> bool:
        """Return whether all children of a parent with `available` experiences share one sensitivity."""
        ...

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard."""
        ...

    def child(self, network: Network, parent: Tensor, sensitivity: Tensor, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the same child as a call would, from a known sensitivity."""
        ...

    def perturb_known(self, network: Network, sensitivity: Tensor, seed: Tensor) -> Tensor:
        """Return the same perturbation `[B, P]` as `perturb` would, from a known sensitivity."""
        ...


@runtime_checkable
class Domain(Protocol):
    """A task: a frozen dataclass of options that provides a network and evaluates genomes of it.

    >>> from dataclasses import dataclass
    >>> import keras, tensorflow as tf, tfsm
    >>> @dataclass(frozen=True)
    ... class Doubling:  # the output should be twice the input
    ...     compiled = True
    ...     def network(self):
    ...         return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    ...     def evaluate(self, network, genomes, seed):
    ...         seen = self.observe(())
    ...         error = tf.reduce_mean((network.rows(genomes, seen) - 2 * seen) ** 2, axis=[1, 2])
    ...         return tfsm.Evaluation(-error, error < 0.01, error[:, None])
    ...     def observe(self, experience):
    ...         return tf.constant([[[0.0], [1.0], [2.0]]])  # [1, I, 1]: all genomes see the same
    >>> isinstance(Doubling(), Domain)
    True
    """

    compiled: ClassVar[bool] = True
    """Whether `evaluate` is TensorFlow code, compiled together with the loop, or plain Python."""

    def network(self) -> keras.Model:
        """Return the default network, built."""
        ...

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]` with seeds `[B, 2]`."""
        ...

    def observe(self, experience: Nest) -> Nest:
        """Turn experience back into network inputs `[B, I, ...]`, or `[1, I, ...]` if all genomes see the same."""
        ...


class Evaluation(NamedTuple):
    """The result of evaluating `B` genomes.

    >>> import numpy as np, tfsm
    >>> error = np.array([0.5, 0.001])
    >>> result = tfsm.Evaluation(fitness=-error, solved=error < 0.01, behavior=error[:, None])
    >>> result.solved, result.experience
    (array([False,  True]), ())
    """

    fitness: Tensor
    """`[B]`, higher is better. A genome whose fitness is not finite is broken and gets no descendants."""
    solved: Tensor
    """`[B]`, bool."""
    behavior: Tensor
    """`[B, D]`: what each individual did, as `D` numbers."""
    experience: Nest = ()
    """What each individual saw, in compact form: tensors `[B, ...]`, or `()` if all see the same."""
    cases: Tensor = ()
    """`[B, C]`: the result in each of `C` cases, higher is better; `()` if the domain reports none."""


@runtime_checkable
class SupportsFilm(Domain, Protocol):
    """A domain that can show what an individual does.

    >>> from tfsm_domains.hard_maze.domain import HardMaze
    >>> from tfsm_domains.parity.parity import Parity
    >>> isinstance(HardMaze(), SupportsFilm), isinstance(Parity(), SupportsFilm)
    (True, False)
    """

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film genomes `[B, P]` with seeds `[B, 2]`: follow the first one and draw the others beside it."""
        ...


class Film(Protocol):
    """A recorded episode, drawn frame by frame.

    >>> import numpy as np
    >>> class Flash:  # ten frames, from black to white
    ...     rate = 5.0
    ...     def __len__(self):
    ...         return 10
    ...     def frame(self, index):
    ...         return np.full([4, 4, 3], 28 * index, np.uint8)
    ...     def still(self):
    ...         return self.frame(9)
    >>> film: Film = Flash()
    >>> len(film) / film.rate  # seconds
    2.0
    """

    @property
    def rate(self) -> float:
        """Frames per second."""
        ...

    def __len__(self) -> int:
        """Return the number of frames."""
        ...

    def frame(self, index: int) -> np.ndarray:
        """Draw a frame: `[height, width, 3]`, bytes."""
        ...

    def still(self) -> np.ndarray:
        """Draw the whole episode as one picture."""
        ...


@runtime_checkable
class SupportsBehaviorMap(Domain, Protocol):
    """A domain that can draw the behavior of a population, so that runs record it.

    >>> from tfsm_domains.hard_maze.domain import HardMaze
    >>> HardMaze().behavior_names
    ('x', 'y')
    """

    behavior_names: ClassVar[tuple[str, ...]]
    """The names of the `D` numbers."""

    def picture(self, evaluations: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        """Draw populations `[T, N, D]` recorded after `[T]` evaluations: `[height, width, 3]`, bytes."""
        ...


@runtime_checkable
class SupportsFiles(Domain, Protocol):
    """A domain with options that name files; a run directory stores copies of them.

    >>> from tfsm_domains.hard_maze.domain import HardMaze
    >>> isinstance(HardMaze(), SupportsFiles), HardMaze().files()
    (True, {})
    """

    def files(self) -> Mapping[str, Path]:
        """Return the files in use by option name."""
        ...


@runtime_checkable
class SupportsDistinctFrames(Domain, Protocol):
    """A domain whose individuals often see the same frame again.

    >>> from tfsm_domains.pixel_maze.first_person import FirstPersonMaze
    >>> isinstance(FirstPersonMaze(), SupportsDistinctFrames)
    True
    """

    def observe_distinct(self, experience: Nest) -> Nest:
        """Return what `observe` returns for one individual `[1, ...]`, as `IndexedFrames` without equal frames.

        It is only called in plain graphs, not under XLA: the number of frames may depend on the experience.
        """
        ...


@runtime_checkable
class SupportsPerformance(Domain, Protocol):
    """A domain that measures success in its own units, where fitness is meant for selection only.

    >>> from tfsm_domains.parity.parity import Parity
    >>> Parity().performance_name
    'sequences right'
    """

    performance_name: ClassVar[str]
    """What is counted, such as "sequences right"."""

    def performance(self, evaluation: Evaluation) -> Tensor:
        """Return the performance `[B]`: 0 if nothing was achieved, and higher is better."""
        ...


@runtime_checkable
class SupportsAnyModel(Domain, Protocol):
    """A domain that adapts to the user's model, instead of expecting the shapes of its default network.

    >>> import keras
    >>> from tfsm_domains.dataset.fitness_function import FitnessFunction
    >>> domain = FitnessFunction(function="math:sqrt")
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> isinstance(domain, SupportsAnyModel), isinstance(domain.for_model(model), Domain)
    (True, True)
    """

    def for_model(self, model: keras.Model) -> Domain:
        """Return the domain for a built model; raise a `TfsmError` if the model does not fit."""
        ...


@runtime_checkable
class SupportsValidation(Domain, Protocol):
    """A domain with data that selection does not use; runs log how their champions do on it.

    >>> import numpy as np
    >>> from tfsm_domains.dataset.domain import Dataset
    >>> from tfsm_domains.parity.parity import Parity
    >>> np.savez("ones.npz", x=np.ones([8, 2]), y=np.ones(8), x_validation=np.ones([4, 2]), y_validation=np.ones(4))
    >>> isinstance(Dataset(data="ones.npz"), SupportsValidation), isinstance(Parity(), SupportsValidation)
    (True, False)
    """

    def validate(self, network: Network, genomes: Tensor) -> Mapping[str, Tensor]:
        """Return measurements `[B]` of genomes `[B, P]` by name; none if there is no such data."""
        ...


@runtime_checkable
class Selection(Protocol):
    """A selection scheme that sees fitness only; like an operator it may set `batched`.

    >>> from dataclasses import dataclass
    >>> import tensorflow as tf, tfsm
    >>> @dataclass(frozen=True)
    ... class Greedy:  # the best individual is the parent, the worst is replaced
    ...     batched = True
    ...     def choose(self, fitness, seed):
    ...         return tfsm.Choice(tf.argmax(fitness, axis=-1), tf.argmin(fitness, axis=-1))
    ...     def accepts(self, child, replaced):
    ...         return child > replaced
    >>> isinstance(Greedy(), Selection), int(Greedy().choose([0.1, 0.9, 0.5], (0, 0)).parent)
    (True, 1)
    """

    batched: ClassVar[bool] = False

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose from a population's fitness `[N]`."""
        ...

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Return whether a child with fitness `child` replaces an individual with fitness `replaced`."""
        ...


class Choice(NamedTuple):
    """The parent and the individual that the child replaces: indices into the population.

    >>> import tfsm
    >>> tfsm.Choice(parent=3, replaced=7)
    Choice(parent=3, replaced=7)
    """

    parent: Tensor
    replaced: Tensor


@runtime_checkable
class StatefulSelection(Protocol):
    """A selection scheme with a state, or one that sees more than fitness; always for `B` populations at once.

    A scheme with generations may define `generation(population)`, the number of children per generation, if a
    generation's parents stay the same until all of its children are admitted. Its children are then made together. It
    is faster if it also defines `admit_generation(population, candidates, counted)`, which does for those of children
    `[K, B]` that are `counted` what `select` and `admit` do one by one, without random numbers: it returns their slots
    and which are accepted, `[K, B]`, and the last state. A batch never exceeds a generation.

    >>> from tfsm_plugins.selections.novelty import Novelty
    >>> isinstance(Novelty(), StatefulSelection), Novelty.needs
    (True, ('behavior',))
    """

    needs: ClassVar[tuple[str, ...]]
    """What the engine stores per individual for this scheme: `behavior`, `cases`."""

    def init(self, context: SelectionContext) -> Nest:
        """Return the initial state of one run, tensors without a batch axis; raise a `TfsmError` if it cannot work."""
        ...

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Choose the parent and the child's slot, with seeds `[B, 2]`."""
        ...

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Decide whether an evaluated child enters the population, and update the state."""
        ...


class SelectionContext(NamedTuple):
    """What a stateful scheme knows before the runs start.

    >>> from tfsm_plugins.selections.map_elites import MapElites
    >>> context = SelectionContext("maze", population=100, behavior=2, cases=0, bounds=((0.0, 1.0), (0.0, 1.0)))
    >>> state = MapElites().init(context)
    >>> MapElites().cell_centers(state).shape
    (100, 2)
    """

    domain: str
    """The domain's name, for messages."""
    population: int
    """`N`."""
    behavior: int
    """`D`."""
    cases: int
    """`C`; 0 if the domain reports none."""
    bounds: tuple[tuple[float, float], ...] | None
    """Minimum and maximum of each behavior number, if the domain declares them."""


class Population(NamedTuple):
    """`B` populations as a stateful scheme sees them.

    >>> import numpy as np
    >>> population = Population(np.zeros([2, 5]), np.zeros([2, 5, 3]), np.zeros([2, 0, 1]), state=())
    >>> population.behavior.shape  # 2 populations of 5 individuals with 3 numbers each; the scheme needs no cases
    (2, 5, 3)
    """

    fitness: Tensor
    """`[B, N]`; minus infinity for an empty slot or a broken individual."""
    behavior: Tensor
    """`[B, N, D]`; `[B, 0, D]` unless the scheme needs it."""
    cases: Tensor
    """`[B, N, C]`; `[B, 0, C]` unless the scheme needs it."""
    state: Nest
    """The scheme's state: tensors `[B, ...]`."""


class Candidate(NamedTuple):
    """A newly evaluated individual in each of `B` populations.

    >>> import numpy as np
    >>> candidate = Candidate(np.array([0.5, -np.inf]), np.zeros([2, 3]), np.zeros([2, 0]), slot=np.array([4, 1]))
    >>> np.isfinite(candidate.fitness)  # the second one is broken
    array([ True, False])
    """

    fitness: Tensor
    """`[B]`; minus infinity if it is broken."""
    behavior: Tensor
    """`[B, D]`"""
    cases: Tensor
    """`[B, C]`"""
    slot: Tensor
    """`[B]`: the slot that `select` chose for it; 0, 1, ... for the initial population."""


class Admission(NamedTuple):
    """Whether a candidate enters its population, and where.

    >>> import numpy as np
    >>> admission = Admission(slot=np.array([4, 1]), accepted=np.array([True, False]), state=())
    >>> admission.slot[admission.accepted]
    array([4])
    """

    slot: Tensor
    """`[B]`: the slot that it takes."""
    accepted: Tensor
    """`[B]`, bool. A broken candidate never enters, whatever this says."""
    state: Nest
    """The scheme's new state."""


class Observer:
    """Receives the events of an experiment. Subclass it and override the methods you need; the others do nothing.

    Runs evolve side by side, so their events interleave; `run` counts from 0. Do not modify what you receive: all
    observers get the same objects. The loop waits for each method to return. An observer that raises is reported once
    and receives nothing more; the run continues.

    >>> import tfsm
    >>> class Ends(tfsm.Observer):
    ...     def on_run_end(self, result):
    ...         print("run", result.run, "ended after", result.evaluations, "evaluations")
    >>> result = tfsm.evolve("simple-easy", mutation="control", evaluations=20, observers=[Ends()])
    run 0 ended after 20 evaluations
    """

    def on_experiment_start(self, experiment: ExperimentInfo) -> None:
        """Called once, before the first evaluation."""

    def on_progress(self, progress: Progress) -> None:
        """Called a few times per second with the state of all runs together."""

    def on_run_start(self, run: int) -> None:
        """Called before a run is started or resumed."""

    def on_interval(self, interval: Interval) -> None:
        """Called for each run at the end of a logging interval, and of the run."""

    def on_checkpoint(self, checkpoint: CheckpointInfo) -> None:
        """Called after a checkpoint was written."""

    def on_run_end(self, result: RunResult) -> None:
        """Called when a run has ended, with its champion already in the run directory."""

    def on_experiment_end(self, status: Status) -> None:
        """Called last, when the run directory is complete."""
