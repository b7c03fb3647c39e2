"""Optional abilities of the plugin parts, which the engine and the commands look for.

A part has an ability if it has the methods of the protocol; it need not subclass it. What every part must have is in
`tfsm.interfaces`. Shapes are written as there; `D` is the length of a behavior, `C` the number of cases, and `T` a
number of recorded moments. Importing this module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

from tfsm.interfaces import Choice, Domain, Evaluation, Mutation, Nest, Tensor

if TYPE_CHECKING:
    from pathlib import Path

    import keras
    import numpy as np

    from tfsm.models.network import Network

__all__ = [
    "Admission",
    "Candidate",
    "Film",
    "Population",
    "SelectionContext",
    "StatefulSelection",
    "SupportsAnyModel",
    "SupportsBehaviorMap",
    "SupportsDistinctFrames",
    "SupportsFiles",
    "SupportsFilm",
    "SupportsPerformance",
    "SupportsPerturbation",
    "SupportsReuse",
    "SupportsRunningStatistics",
    "SupportsValidation",
]


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
class SupportsFilm(Domain, Protocol):
    """A domain that can show what an individual does.

    >>> from tfsm_domains.hard_maze.domain import HardMaze
    >>> from tfsm_domains.dataset.fitness_function import FitnessFunction
    >>> isinstance(HardMaze(), SupportsFilm), isinstance(FitnessFunction(function="math:sqrt"), SupportsFilm)
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
class SupportsRunningStatistics(Domain, Protocol):
    """A domain, written in plain Python, whose networks may have statistics of what they see among their weights.

    They are the scale and offset of a BatchNormalization layer called `running_normalization`. Mutations leave them
    alone; instead, a child has those of its parent, updated by what the parent saw. Since they are part of the genome,
    a result does not depend on the order of evaluations, and a saved champion has them.

    >>> from tfsm_domains.gym.domain import Gym
    >>> from tfsm_domains.parity.parity import Parity
    >>> isinstance(Gym(env="CartPole-v1"), SupportsRunningStatistics), isinstance(Parity(), SupportsRunningStatistics)
    (True, False)
    """

    def update_statistics(self, statistics: np.ndarray, experience: Nest) -> np.ndarray:
        """Return the statistics `[B, S]` of children, from those of their parents `[B, S]` and what these saw."""
        ...


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
