"""Functions of many genomes of one network, compiled for few widths and kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import tensorflow as tf

from tfsm.contracts import Child, Mutation, Tensor
from tfsm.evolution.mapping import mutated, one_by_one
from tfsm.evolution.plan import make_plan
from tfsm.functional.operators import Measuring
from tfsm.functional.recent import Recent
from tfsm.kernels.divergence import divergence as divergence_of_rows
from tfsm.models.differentiable import check_differentiable
from tfsm.models.network import Network

MOST = 256
"""Lanes of one call; more genomes take several, which bounds memory and how many widths are ever compiled."""


class Seen(NamedTuple):
    """An experience."""

    inputs: list[Tensor]
    """In the model's order: `[1, N, ...]`, or `[B, N, ...]` where each genome has its own."""
    each: bool
    """Which of the two; with one genome that does not show."""


Body = Callable[[Sequence[Tensor], list[Tensor], Sequence[Tensor]], Any]
"""From what each lane has of its own, the inputs, and what all have in common."""


class Lanes:
    """Runs genomes of one network side by side.

    With XLA the lanes are a power of two, filled up by the last genome: what comes out of a lane depends neither on how
    many there are nor on who is in the others. Elsewhere their number is left open when a function is traced.

    Args:
        network: the network.
        compiled: whether to compile; a single call is over sooner without.
    """

    def __init__(self, network: Network, *, compiled: bool = True) -> None:
        self.network = network
        self.operators = Recent()
        """Those that were asked for by name and options, since finding them takes longer than a call."""
        self.functions = Recent()
        """What was compiled."""
        self._plan = make_plan(network, runs=1, population=1)
        self._compiled = compiled
        self._checked = Recent()

    def mutated(
        self, operator: Mutation, genomes: np.ndarray, seen: Seen, intensity: float, words: np.ndarray
    ) -> Child:
        """Return the children, as arrays, of genomes `[B, P]` with seeds `[B, 2]`; the operator must be hashable."""

        def children(own: Sequence[Tensor], inputs: list[Tensor], common: Sequence[Tensor]) -> Child:
            return mutated(operator, self.network, own[0], inputs, common[0], own[1])

        if getattr(operator, "needs_gradient", False):
            self._check_differentiable(genomes, seen)
        strength = tf.constant(intensity, self.network.dtype)
        return cast(Child, self._run(("mutate", operator), children, (genomes, words), seen, (strength,)))

    def sensitivity(self, operator: Measuring, genomes: np.ndarray, seen: Seen, directions: np.ndarray) -> np.ndarray:
        """Return the raw sensitivities `[B, P]` of genomes `[B, P]` along directions `[B, P]`."""

        def measured(own: Sequence[Tensor], inputs: list[Tensor], common: Sequence[Tensor]) -> Tensor:
            return operator.sensitivity(self.network, own[0], inputs, own[1])

        self._check_differentiable(genomes, seen)
        return cast(np.ndarray, self._run(("sensitivity", operator), measured, (genomes, directions), seen))

    def rows(self, genomes: np.ndarray, seen: Seen) -> np.ndarray:
        """Return the output rows `[B, I, K]` of genomes `[B, P]`."""

        def rows(own: Sequence[Tensor], inputs: list[Tensor], common: Sequence[Tensor]) -> Tensor:
            return self.network.rows(own[0], inputs)

        return cast(np.ndarray, self._run("rows", rows, (genomes,), seen))

    def divergence(self, genomes: np.ndarray, others: np.ndarray, seen: Seen) -> np.ndarray:
        """Return the divergence `[B]` of genomes `[B, P]` from others `[B, P]`, either of which may be `[1, P]`."""
        # One after the other, by the same function: equal genomes then have equal outputs, and a divergence of zero.
        first, second = (tf.constant(self.rows(own, seen)) for own in (genomes, others))
        found: np.ndarray = divergence_of_rows(first, second).numpy()
        return found

    def _check_differentiable(self, genomes: np.ndarray, seen: Seen) -> None:
        """Refuse a network without a gradient: by the first genome, and once for inputs of one shape."""
        shapes = tuple(tuple(x.shape[1:]) for x in seen.inputs)
        inputs = [x[:1] for x in seen.inputs]
        self._checked.get(shapes, lambda: check_differentiable(self.network, tf.constant(genomes[:1]), inputs))

    def _run(
        self, name: Hashable, body: Body, own: Sequence[np.ndarray], seen: Seen, common: Sequence[Tensor] = ()
    ) -> Any:
        count = len(own[0])
        if not count:  # the shape of nothing is that of something
            own = [np.zeros([1, *x.shape[1:]], x.dtype) for x in own]
        parts = []
        for start in range(0, max(1, count), MOST):
            lanes = min(MOST, max(1, count) - start)
            place = start + np.minimum(np.arange(self._width(lanes)), lanes - 1)
            mine = [tf.constant(x[place]) for x in own]
            inputs = [tf.gather(x, place) for x in seen.inputs] if seen.each else seen.inputs
            call = self._function(name, body, mine, inputs, common, each=seen.each)
            found = call(*mine, *inputs, *common)
            parts.append(tf.nest.map_structure(lambda x: x.numpy()[: min(lanes, count)], found))  # noqa: B023
        return parts[0] if len(parts) == 1 else tf.nest.map_structure(lambda *x: np.concatenate(x), *parts)

    def _width(self, lanes: int) -> int:
        """Return how many lanes are run: with XLA a power of two, and never one alone, which it rounds differently."""
        if not (self._compiled and self._plan.jit):
            return lanes
        return max(self._plan.least_width, 1 << (lanes - 1).bit_length())

    def _function(
        self, name: Hashable, body: Body, own: list[Tensor], inputs: list[Tensor], common: Sequence[Tensor], each: bool
    ) -> Callable[..., Any]:
        ends = len(own), len(own) + len(inputs)

        def flat(*tensors: Tensor) -> Any:
            mine, seen, shared = tensors[: ends[0]], list(tensors[ends[0] : ends[1]]), tensors[ends[1] :]
            if not (self._compiled and self._plan.one_by_one):
                return body(mine, seen, shared)
            if not each:
                return one_by_one(lambda *lane: body(lane, seen, shared))(*mine)
            return one_by_one(lambda *lane: body(lane[: ends[0]], list(lane[ends[0] :]), shared))(*mine, *seen)

        if not self._compiled:
            return flat
        width = own[0].shape[0] if self._plan.jit else None
        key = (name, width, each, *((tuple(x.shape[1:]), x.dtype) for x in inputs))

        def traced() -> Callable[..., Any]:
            specs = [tf.TensorSpec([width, *x.shape[1:]], x.dtype) for x in own]
            specs += [tf.TensorSpec([width if each else 1, *x.shape[1:]], x.dtype) for x in inputs]
            specs += [tf.TensorSpec(x.shape, x.dtype) for x in common]
            # By hand: it saves the search for the right trace at every call, and TensorFlow, which counts by the line
            # of code, would warn of retracing where there is none.
            return tf.function(flat, jit_compile=self._plan.jit).get_concrete_function(*specs)

        return cast(Callable[..., Any], self.functions.get(key, traced))
