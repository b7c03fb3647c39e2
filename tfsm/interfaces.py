"""Interfaces of the plugin parts: mutation operators, domains, selection schemes and observers.

This is all that a part must have. What it may have beyond that is in `tfsm.abilities`.

Shapes are written with `B`, the number of genomes in a batch; `P`, the number of weights; `I`, the number of
experiences; `N`, the size of a population. Importing this module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import keras

    from tfsm.evolution.observers import CheckpointInfo, ExperimentInfo, Interval, Progress, RunResult, Status
    from tfsm.models.network import Network

__all__ = [
    "Child",
    "Choice",
    "Domain",
    "Evaluation",
    "Mutation",
    "Nest",
    "Observer",
    "Selection",
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
"""How the initial genomes are drawn."""
Adapt: TypeAlias = Literal["none", "self", "divergence"]
"""How the mutation intensity adapts during a run."""
Stop: TypeAlias = Literal["solved", "budget"]
"""Whether a run ends with its first solution or with its budget."""
Failures: TypeAlias = Literal["stop", "broken"]
"""Whether a failed evaluation ends the experiment or counts as a broken individual."""
Compile: TypeAlias = Literal["auto", "xla", "graph"]
"""How the evolution step is compiled."""


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
