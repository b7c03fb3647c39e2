"""The contracts between the engine and its parts: operators, domains, selection schemes and observers.

Importing this module imports no TensorFlow. `B` is the number of genomes at once, `P` the number of weights,
`I` the number of experiences, `N` the size of a population.
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
    "SupportsBehaviorMap",
    "SupportsFiles",
    "SupportsFilm",
    "SupportsPerformance",
    "SupportsReuse",
    "Tensor",
]

Tensor: TypeAlias = Any
"""A `tf.Tensor`; TensorFlow ships no type stubs worth checking against."""

Nest: TypeAlias = Any
"""A tensor, or a tuple, list or dict of them."""

Init: TypeAlias = Literal["xavier-normal", "xavier-uniform", "xavier-biased", "normal", "uniform", "model"]
"""How the initial genomes are drawn."""
Adapt: TypeAlias = Literal["none", "self", "divergence"]
"""How the mutation intensity adapts during a run."""
Stop: TypeAlias = Literal["solved", "budget"]
"""Whether a run ends with its first solution or with its budget."""
Failures: TypeAlias = Literal["stop", "broken"]
"""Whether a failed evaluation ends the experiment or counts as a broken individual."""
Compile: TypeAlias = Literal["auto", "xla", "graph"]
"""How the evolution step is compiled."""


class Child(NamedTuple):
    """A mutated genome, with what the operator has to say about how it went."""

    genome: Tensor
    diagnostics: Mapping[str, Tensor]
    """Scalars by name (`[B]` from a batched operator); their means are logged with the metrics."""


class Evaluation(NamedTuple):
    """What a domain found out about `B` genomes."""

    fitness: Tensor
    """`[B]`, higher is better. Not finite: broken, and the genome gets no descendants."""
    solved: Tensor
    """`[B]`, bool."""
    behavior: Tensor
    """`[B, D]`: what the individual did, as `D` numbers."""
    experience: Nest = ()
    """What each individual saw, compactly: tensors `[B, ...]`, or `()` where all see the same."""
    cases: Tensor = ()
    """`[B, C]`: how well it did in each of `C` cases, higher is better; `()` where a domain does not say."""


class Choice(NamedTuple):
    """Who becomes the parent, and whose place the child takes: indices into the population."""

    parent: Tensor
    replaced: Tensor


@runtime_checkable
class Mutation(Protocol):
    """A frozen dataclass of options and a pure, traceable function from a parent to a child.

    Written for one genome: the engine maps it over a batch. An operator made of functions that broadcast over
    leading axes (all of `tfsm.kernels` do) sets `batched = True` and gets `[B, ...]` at once, which is faster.
    Randomness comes from `seed` alone. An operator that differentiates the network says so by `needs_gradient = True`;
    a network without a gradient is then refused before the run. One that recombines says so by `mates = True`, and is
    given a second parent by the keywords `mate`, and `mate_experience` for what that one saw.

    `intensity` is one number; a batched operator gets `[B, 1]` where individuals have their own.
    """

    batched: ClassVar[bool] = False
    """Whether it takes many genomes at once. Like `needs_gradient`, False where an operator does not say."""

    def __call__(
        self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor
    ) -> Tensor | Child:
        """Return the child of a parent `[P]` that saw `experience`, tensors `[I, ...]`."""
        ...


@runtime_checkable
class SupportsReuse(Mutation, Protocol):
    """An operator that divides noise by a sensitivity, which the engine may keep for a parent's next child."""

    def reusable(self, network: Network, available: int) -> bool:
        """Say whether the sensitivity is the same for every child of a parent that had so many experiences."""
        ...

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard."""
        ...

    def child(self, network: Network, parent: Tensor, sensitivity: Tensor, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child that a call would, from a sensitivity that is known already."""
        ...


@runtime_checkable
class Domain(Protocol):
    """A frozen dataclass of options that says its network and evaluates genomes of it."""

    compiled: ClassVar[bool] = True
    """Whether `evaluate` is TensorFlow code, to be compiled with the loop, or plain Python."""

    def network(self) -> keras.Model:
        """Return the default network, built."""
        ...

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]` with seeds `[B, 2]`."""
        ...

    def observe(self, experience: Nest) -> Nest:
        """Turn experience back into network inputs `[B, I, ...]`, or `[1, I, ...]` where all see the same."""
        ...


class Film(Protocol):
    """What an individual did, to be looked at."""

    @property
    def rate(self) -> float:
        """Frames a second."""
        ...

    def __len__(self) -> int:
        """Return the number of frames."""
        ...

    def frame(self, index: int) -> np.ndarray:
        """Draw a frame: `[height, width, 3]`, bytes."""
        ...

    def still(self) -> np.ndarray:
        """Draw all of it in one picture."""
        ...


@runtime_checkable
class SupportsFilm(Domain, Protocol):
    """A domain that can be looked at."""

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film genomes `[B, P]` with seeds `[B, 2]`: the first is followed, what the others do is drawn beside it."""
        ...


@runtime_checkable
class SupportsBehaviorMap(Domain, Protocol):
    """A domain whose behavior is worth keeping, because it can be drawn."""

    behavior_names: ClassVar[tuple[str, ...]]
    """What the `D` numbers are."""

    def picture(self, evaluations: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        """Draw what populations `[T, N, D]` did after so many evaluations `[T]`: `[height, width, 3]`, bytes."""
        ...


@runtime_checkable
class SupportsFiles(Domain, Protocol):
    """A domain some of whose options name files, which are kept with a run."""

    def files(self) -> Mapping[str, Path]:
        """Return the files in use, by the name of the option."""
        ...


@runtime_checkable
class SupportsPerformance(Domain, Protocol):
    """A domain with a number that says in its own terms how well somebody did, where fitness is meant for selection."""

    performance_name: ClassVar[str]
    """What is counted, such as "sequences right"."""

    def performance(self, evaluation: Evaluation) -> Tensor:
        """Return the number `[B]`: 0 where nothing was achieved, and higher is better."""
        ...


@runtime_checkable
class Selection(Protocol):
    """Chooses the parent and who is replaced; like an operator it may set `batched`."""

    batched: ClassVar[bool] = False

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose from a population's fitness `[N]`."""
        ...

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Say whether a child of this fitness enters in place of one of that fitness."""
        ...


class Population(NamedTuple):
    """What a scheme that looks at more than fitness is shown of `B` populations."""

    fitness: Tensor
    """`[B, N]`; minus infinity where nobody is, or somebody broken."""
    behavior: Tensor
    """`[B, N, D]`; `[B, 0, D]` unless the scheme needs it. So are cases."""
    cases: Tensor
    """`[B, N, C]`"""
    state: Nest
    """The scheme's state: tensors `[B, ...]`."""


class Candidate(NamedTuple):
    """Somebody who was just evaluated, in each of `B` populations."""

    fitness: Tensor
    """`[B]`; minus infinity: broken."""
    behavior: Tensor
    """`[B, D]`"""
    cases: Tensor
    """`[B, C]`"""
    slot: Tensor
    """`[B]`: the place that was chosen for it. Of the first ones: 0, 1, and so on."""


class Admission(NamedTuple):
    """Whether somebody enters a population, and where."""

    slot: Tensor
    """`[B]`: whose place it takes."""
    accepted: Tensor
    """`[B]`, bool. Nobody broken enters, whatever is said here."""
    state: Nest
    """The scheme's new state."""


class SelectionContext(NamedTuple):
    """What a scheme is told before the runs."""

    domain: str
    """The domain's name, for messages."""
    population: int
    """N."""
    behavior: int
    """D."""
    cases: int
    """C; 0: the domain reports none."""
    bounds: tuple[tuple[float, float], ...] | None
    """The least and the most that each number of a behavior can be, if the domain says so."""


@runtime_checkable
class StatefulSelection(Protocol):
    """A selection scheme that looks at more than fitness, or remembers; always for `B` populations at once."""

    needs: ClassVar[tuple[str, ...]]
    """What is to be kept of individuals for it to see: `behavior`, `cases`."""

    def init(self, context: SelectionContext) -> Nest:
        """Return the initial state of one run, tensors without a batch axis; raise a `TfsmError` if it cannot work."""
        ...

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Choose the parent, and a place for the child, with seeds `[B, 2]`."""
        ...

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Let a child in or not, and remember what is worth it."""
        ...


class Observer:
    """Receives the events of an experiment. Subclass it and override the methods you need; the others do nothing.

    Runs evolve side by side, so their events interleave; `run` counts from 0. Do not modify what you receive: all
    observers get the same objects. The loop waits for each method to return. An observer that raises is reported once
    and receives nothing more; the run continues.
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
