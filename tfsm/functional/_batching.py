"""Compile-once cache: pad, chunk, trace."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, NamedTuple, Protocol, cast, runtime_checkable

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import make_plan
from tfsm.evolution.variation import map_one_by_one, mutate_batch
from tfsm.interfaces import Child, Mutation, Nest, Tensor
from tfsm.kernels.sensitivity import divergence as divergence_of_rows
from tfsm.models.compatibility import check_differentiable
from tfsm.models.genome import check_model
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.options import validate
from tfsm.plugins.registry import build_part

MAX_CACHED: Final = 64
"""More than a program needs that has a few operators; fewer than it notices if it makes new ones all the time."""


class LruCache:
    """Keeps what was made for a key, and of more than `MOST` keys those that were used last.

    Things are made one at a time, whoever asks: two threads do not make the same one, nor trace one model at once.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}
        self._lock = RLock()
        self.misses = 0
        """How many things were made so far."""

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what is kept for a key, or make it."""
        with self._lock:
            found = self._kept.pop(key) if key in self._kept else self._new(make)
            self._kept[key] = found  # the last of all
            if len(self._kept) > MAX_CACHED:
                del self._kept[next(iter(self._kept))]
            return found

    def _new(self, make: Callable[[], Any]) -> Any:
        made = make()
        self.misses += 1
        return made

    def __len__(self) -> int:
        return len(self._kept)


@runtime_checkable
class SupportsSensitivity(Protocol):
    """An operator that measures a sensitivity."""

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard."""
        ...


def build_operator(mutation: str, options: Mapping[str, Any]) -> Mutation:
    """Return an operator by its name and options."""
    entry = load_plugins().mutations[mutation].with_options()
    if entry.options is not None:
        options = validate(entry.options, options, where=f"mutation {mutation!r}:")
    return cast(Mutation, build_part(entry, dict(options)))


def resolve_operator(kept: LruCache, mutation: str | Mutation, options: Mapping[str, Any]) -> Mutation:
    """Return an operator that can be found again: by its name and options, or the one that was handed over.

    Args:
        kept: operators that were asked for before.
        mutation: a name or an operator.
        options: those of an operator by name.
    """
    if isinstance(mutation, str):
        operator: Mutation = kept.get(
            f"{mutation} {sorted(options.items())}", lambda: build_operator(mutation, options)
        )
    else:
        operator = _check_operator(mutation, options)
    try:
        hash(operator)
    except TypeError:
        raise TfsmError(
            f"the operator {type(operator).__name__} is not hashable, so that what was compiled for it could not be "
            "found again: make it a frozen dataclass"
        ) from None
    return operator


def _check_operator(mutation: Any, options: Mapping[str, Any]) -> Mutation:
    if not callable(mutation) or isinstance(mutation, type):
        raise TfsmError(f"mutation: expected an operator's name, or an operator, got {mutation!r}")
    if options:
        names = ", ".join(options)
        raise TfsmError(f"{names}: options go with an operator's name; one that is ready made has its own")
    return cast(Mutation, mutation)


def require_sensitivity(operator: Mutation, mutation: str | Mutation) -> SupportsSensitivity:
    """Return the operator as one that measures a sensitivity, or say that it does not.

    Args:
        operator: the operator.
        mutation: what the caller calls it.
    """
    if not isinstance(operator, SupportsSensitivity):
        raise TfsmError(f"the mutation {mutation!r} measures no sensitivity: use sm-g-sum, sm-g-abs or sm-g-so")
    return operator


MAX_LANES = 256
"""Lanes of one call; more genomes take several, which bounds memory and how many widths are ever compiled."""


class ExperienceBatch(NamedTuple):
    """An experience."""

    inputs: list[Tensor]
    """In the model's order: `[1, N, ...]`, or `[B, N, ...]` where each genome has its own."""
    each: bool
    """Which of the two; with one genome that does not show."""


Body = Callable[[Sequence[Tensor], list[Tensor], Sequence[Tensor]], Any]
"""From what each lane has of its own, the inputs, and what all have in common."""


class BatchRunner:
    """Runs genomes of one network side by side.

    With XLA the lanes are a power of two, filled up by the last genome: what comes out of a lane depends neither on how
    many there are nor on who is in the others. Elsewhere their number is left open when a function is traced.

    Args:
        network: the network.
        compiled: whether to compile; a single call is over sooner without.
    """

    def __init__(self, network: Network, *, compiled: bool = True) -> None:
        self.network = network
        self.operators = LruCache()
        """Those that were asked for by name and options, since finding them takes longer than a call."""
        self.functions = LruCache()
        """What was compiled."""
        self._plan = make_plan(network, runs=1, population=1)
        self._compiled = compiled
        self._checked = LruCache()

    def mutate(
        self, operator: Mutation, genomes: np.ndarray, seen: ExperienceBatch, intensity: float, words: np.ndarray
    ) -> Child:
        """Return the children, as arrays, of genomes `[B, P]` with seeds `[B, 2]`; the operator must be hashable."""

        def children(own: Sequence[Tensor], inputs: list[Tensor], common: Sequence[Tensor]) -> Child:
            return mutate_batch(operator, self.network, own[0], inputs, common[0], own[1])

        if getattr(operator, "needs_gradient", False):
            self._check_differentiable(genomes, seen)
        strength = tf.constant(intensity, self.network.dtype)
        return cast(Child, self._run(("mutate", operator), children, (genomes, words), seen, (strength,)))

    def sensitivity(
        self, operator: SupportsSensitivity, genomes: np.ndarray, seen: ExperienceBatch, directions: np.ndarray
    ) -> np.ndarray:
        """Return the raw sensitivities `[B, P]` of genomes `[B, P]` along directions `[B, P]`."""

        def measured(own: Sequence[Tensor], inputs: list[Tensor], common: Sequence[Tensor]) -> Tensor:
            return operator.sensitivity(self.network, own[0], inputs, own[1])

        self._check_differentiable(genomes, seen)
        return cast(np.ndarray, self._run(("sensitivity", operator), measured, (genomes, directions), seen))

    def rows(self, genomes: np.ndarray, seen: ExperienceBatch) -> np.ndarray:
        """Return the output rows `[B, I, K]` of genomes `[B, P]`."""

        def rows(own: Sequence[Tensor], inputs: list[Tensor], common: Sequence[Tensor]) -> Tensor:
            return self.network.rows(own[0], inputs)

        return cast(np.ndarray, self._run("rows", rows, (genomes,), seen))

    def divergence(self, genomes: np.ndarray, others: np.ndarray, seen: ExperienceBatch) -> np.ndarray:
        """Return the divergence `[B]` of genomes `[B, P]` from others `[B, P]`, either of which may be `[1, P]`."""
        # One after the other, by the same function: equal genomes then have equal outputs, and a divergence of zero.
        first, second = (tf.constant(self.rows(own, seen)) for own in (genomes, others))
        found: np.ndarray = divergence_of_rows(first, second).numpy()
        return found

    def _check_differentiable(self, genomes: np.ndarray, seen: ExperienceBatch) -> None:
        """Refuse a network without a gradient: by the first genome, and once for inputs of one shape."""
        shapes = tuple(tuple(x.shape[1:]) for x in seen.inputs)
        inputs = [x[:1] for x in seen.inputs]
        self._checked.get(shapes, lambda: check_differentiable(self.network, tf.constant(genomes[:1]), inputs))

    def _run(
        self,
        name: Hashable,
        body: Body,
        own: Sequence[np.ndarray],
        seen: ExperienceBatch,
        common: Sequence[Tensor] = (),
    ) -> Any:
        count = len(own[0])
        if not count:  # the shape of nothing is that of something
            own = [np.zeros([1, *x.shape[1:]], x.dtype) for x in own]
        parts = []
        for start in range(0, max(1, count), MAX_LANES):
            lanes = min(MAX_LANES, max(1, count) - start)
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
                return map_one_by_one(lambda *lane: body(lane, seen, shared))(*mine)
            return map_one_by_one(lambda *lane: body(lane[: ends[0]], list(lane[ends[0] :]), shared))(*mine, *seen)

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


ATTRIBUTE: Final = "_tfsm_lanes"


@dataclass(frozen=True)
class CachedRunner:
    """Compiled functions, and the variables that they were compiled for."""

    variables: tuple[Any, ...]
    lanes: BatchRunner


def runner_for(model: keras.Model) -> BatchRunner:
    """Return what was compiled for a model, or make it anew if other variables are trainable than were."""
    check_model(model)
    variables = tuple(model.trainable_variables)
    # With the model itself, past Keras' own bookkeeping: what is compiled refers to the model, so that any table of
    # ours, weak or not, would keep both for ever. This way they are collected together.
    kept = vars(model).get(ATTRIBUTE)
    if kept is None or list(map(id, kept.variables)) != list(map(id, variables)):
        kept = CachedRunner(variables, BatchRunner(Network(model)))
        vars(model)[ATTRIBUTE] = kept
    return kept.lanes
