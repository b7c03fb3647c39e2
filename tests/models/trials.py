"""An architecture in float64, its plain Keras call, and the operators' children of some genomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.models.architectures import Case
from tests.models.architectures.case import policy
from tests.models.plain import genomes_of, run, stateful_layers
from tfsm.interfaces import Child, Tensor
from tfsm.models.network import Network
from tfsm_plugins.mutations.gradient import SafeMutationAbs, SafeMutationSecondOrder, SafeMutationSum
from tfsm_plugins.mutations.gradient_free import Control, SafeMutationRescale

LEAST = 1e-4
"""Stands in for sensitivities that are zero, or would be but for rounding: those of a bias that softmax takes out."""

_guards = {"zero": LEAST, "floor": LEAST}
OPERATORS: dict[str, Any] = {
    "control": Control(),
    "sm-r": SafeMutationRescale(),
    "sm-g-sum": SafeMutationSum(probes=0, **_guards),
    "sm-g-abs": SafeMutationAbs(probes=0, **_guards),
    "sm-g-so": SafeMutationSecondOrder(**_guards),
}


@dataclass(frozen=True)
class Trial:
    """A model of an architecture, in float64 where the architecture leaves that open."""

    case: Case
    model: keras.Model
    exact: keras.Model
    """The model itself; for one of lower precision, the same in float64."""
    network: Network
    genomes: np.ndarray
    """`[B, P]`"""

    @classmethod
    def of(cls, case: Case, count: int = 3) -> Trial:
        keras.utils.set_random_seed(5)
        with double():
            model = case.build()
            exact = model if case.exact is None else case.exact()
        for mine, theirs in zip(exact.variables, model.variables, strict=True):
            mine.assign(theirs.numpy().astype(mine.dtype))  # weights outside the genome must agree too
        if stateful_layers(model):
            model(doubled(case.inputs)[0])  # so that there is a state that could be lost
        network = Network(model)
        genomes = genomes_of(model, count).astype(network.dtype.as_numpy_dtype)
        return cls(case, model, exact, network, genomes)

    @property
    def seen(self) -> list[np.ndarray]:
        """The inputs `[N, ...]`."""
        return doubled(self.case.inputs)

    @property
    def inputs(self) -> list[Tensor]:
        """The inputs `[1, N, ...]`."""
        return [tf.constant(x)[None] for x in self.seen]

    def children(self, operator: Any) -> Callable[[np.ndarray, float, np.ndarray], Child]:
        """Return a function from genomes `[B, P]`, an intensity and seeds `[B, 2]` to children, traced once."""
        size, dtype = self.network.size, self.network.dtype

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, size], dtype),
                tf.TensorSpec([], dtype),
                tf.TensorSpec([None, 2], tf.int32),
            ],
            autograph=False,
        )
        def traced(genomes: Tensor, intensity: Tensor, seeds: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            found = operator(self.network, genomes, self.inputs, intensity, seeds)
            return (found.genome, found.diagnostics) if isinstance(found, Child) else (found, {})

        return lambda genomes, intensity, seeds: Child(*traced(genomes, tf.constant(intensity, dtype), seeds))


@contextmanager
def double() -> Iterator[None]:
    """Use float64 for everything created in the body, including inputs."""
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        with policy("float64"):
            yield
    finally:
        keras.config.set_floatx(before)


def doubled(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]


def rows_of(model: keras.Model) -> Callable[[np.ndarray, Sequence[np.ndarray]], np.ndarray]:
    """Return output rows `[I, K]` as a function of a genome and inputs, by the model's own call."""

    def rows(genome: np.ndarray, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return as_rows(run(model, genome, inputs))

    return rows


def as_rows(outputs: Sequence[np.ndarray]) -> np.ndarray:
    vectors = [output[:, None] if output.ndim == 1 else output for output in outputs]
    return np.concatenate([v.reshape(-1, v.shape[-1]).astype(np.float64) for v in vectors], axis=-1)


def some_weights(model: keras.Model, most: int = 10) -> list[int]:
    """Return some weights of the genome: of as many variables as there is room for, some at random."""
    sizes = [int(np.prod(v.shape)) for v in model.trainable_variables]
    drawn = np.random.default_rng(3)
    firsts = np.cumsum([0, *sizes[:-1]])
    own = [int(first + drawn.integers(size)) for first, size in zip(firsts, sizes, strict=True)]
    chosen = drawn.permutation(own)[:most]
    others = drawn.choice(sum(sizes), min(sum(sizes), max(2, most - len(chosen))), replace=False)
    return sorted({*map(int, chosen), *map(int, others)})
