"""Runs arrays of genomes in batches, compiling each function once per model.

A *lane* is the place of one genome in a batch. Batches are padded to a few widths and split into chunks, and the
traced functions are cached with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, NamedTuple, Protocol, cast, runtime_checkable

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import make_plan, needs_autograph
from tfsm.evolution.divergence import DivergenceTarget
from tfsm.evolution.variation import map_one_by_one, mutate_batch
from tfsm.interfaces import Child, Mutation, Nest, Tensor
from tfsm.kernels.sensitivity import divergence as divergence_of_rows
from tfsm.models.genome import check_model
from tfsm.models.loading import check_differentiable
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.options import Divergence, option_names, validate
from tfsm.plugins.registry import build_part

MAX_CACHED: Final = 64
"""More than a program with a few operators needs, and few enough for one that keeps making new ones."""
MAX_LANES: Final = 256
"""Lanes per call. More genomes take several calls, which bounds the memory and the number of compiled widths."""
PAPER_GUARD: Final = frozenset({"zero", "floor"})
"""Options of the paper's guard; with one of them given, a divergence does not select the relative guard."""
CACHE_ATTRIBUTE: Final = "_tfsm_runner"


class LruCache:
    """Caches what was made for a key, up to `MAX_CACHED` keys; the least recently used one is dropped.

    Values are made under a lock: two threads neither make the same value twice nor trace one model at the same time.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._lock = RLock()
        self.misses = 0
        """Number of values made so far."""

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the cached value of a key, or make it."""
        with self._lock:
            if key in self._values:
                value = self._values.pop(key)
            else:
                value = make()
                self.misses += 1
            self._values[key] = value  # the most recently used one comes last
            if len(self._values) > MAX_CACHED:
                del self._values[next(iter(self._values))]
            return value

    def __len__(self) -> int:
        return len(self._values)


@runtime_checkable
class SupportsSensitivity(Protocol):
    """An operator that measures a sensitivity."""

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard."""
        ...


class Strength(NamedTuple):
    """How strongly to mutate."""

    value: float
    """The intensity; with a target, the divergence."""
    target: DivergenceTarget | None

    def __str__(self) -> str:
        return str(Divergence(self.value, self.target is not None and self.target.relative))


def build_operator(
    mutation: str | Mutation, options: Mapping[str, Any], target: DivergenceTarget | None = None
) -> Mutation:
    """Return an operator by name and options, by default with the guard that suits an intensity or a divergence.

    An operator that is given as an object is returned as it is.
    """
    if not isinstance(mutation, str):
        return _check_operator(mutation, options)
    entry = load_plugins().mutations[mutation].with_options()
    if entry.options is not None:
        options = validate(entry.options, options, where=f"mutation {mutation!r}:")
        if target is not None and "guard" in option_names(entry.options) and not PAPER_GUARD & options.keys():
            options = {"guard": "relative", **options}
    return cast(Mutation, build_part(entry, dict(options)))


def resolve_operator(
    cache: LruCache, mutation: str | Mutation, options: Mapping[str, Any], target: DivergenceTarget | None
) -> Mutation:
    """Return a hashable operator: the one given, or the one of this name and these options.

    Args:
        cache: the operators built so far.
        mutation: a name or an operator.
        options: options of an operator given by name.
        target: how its children are rescaled to a divergence; None for an intensity.
    """
    if isinstance(mutation, str):
        key = f"{mutation} {sorted(options.items())} {target}"
        operator: Mutation = cache.get(key, lambda: build_operator(mutation, options, target))
    else:
        operator = build_operator(mutation, options)
    try:
        hash(operator)
    except TypeError:
        raise TfsmError(
            f"the operator {type(operator).__name__} is not hashable, so its compiled functions cannot be cached: "
            "make it a frozen dataclass"
        ) from None
    return operator


def _check_operator(mutation: Any, options: Mapping[str, Any]) -> Mutation:
    if not callable(mutation) or isinstance(mutation, type):
        raise TfsmError(f"mutation: expected the name of an operator or an operator, got {mutation!r}")
    if options:
        names = ", ".join(options)
        raise TfsmError(f"{names}: options are for an operator given by name; an operator object has its own")
    return cast(Mutation, mutation)


def require_sensitivity(operator: Mutation, mutation: str | Mutation) -> SupportsSensitivity:
    """Return the operator if it measures a sensitivity, and raise an error otherwise.

    Args:
        operator: the operator.
        mutation: its name for the message.
    """
    if not isinstance(operator, SupportsSensitivity):
        raise TfsmError(f"the mutation {mutation!r} measures no sensitivity: use sm-g-sum, sm-g-abs or sm-g-so")
    return operator


class ExperienceBatch(NamedTuple):
    """The experience of a batch of genomes."""

    inputs: list[Tensor]
    """In the model's order of inputs: `[1, N, ...]`, or `[B, N, ...]` if each genome has its own."""
    each: bool
    """Whether each genome has its own, which the shape of a single genome's does not show."""


Body = Callable[[Sequence[Tensor], list[Tensor], Sequence[Tensor]], Any]
"""A function of the tensors per lane, the network's inputs, and the tensors that all lanes share."""


class BatchRunner:
    """Runs genomes of one network side by side.

    With XLA the number of lanes is a power of two, padded with the last genome: the result of a lane depends neither on
    the number of lanes nor on the other genomes. Without XLA the number of lanes is left open in the traced function.

    Args:
        network: the network.
        compiled: whether to compile; a single call is faster without.
    """

    def __init__(self, network: Network, *, compiled: bool = True) -> None:
        self.network = network
        self.operators = LruCache()
        """Operators by name and options: looking them up takes longer than a call."""
        self.functions = LruCache()
        """Traced functions."""
        self._plan = make_plan(network, runs=1, population=1)
        self._compiled = compiled
        self._differentiable = LruCache()

    def mutate(
        self, operator: Mutation, genomes: np.ndarray, seen: ExperienceBatch, strength: Strength, seeds: np.ndarray
    ) -> Child:
        """Return the children of genomes `[B, P]` with seeds `[B, 2]`, as arrays; the operator must be hashable.

        The diagnostic `finite` says whether the outputs of a child `[B]` are.
        """
        target = strength.target

        def body(lanes: Sequence[Tensor], inputs: list[Tensor], shared: Sequence[Tensor]) -> Child:
            child = mutate_batch(operator, self.network, lanes[0], inputs, shared[0], lanes[1], target=target)
            rows = self.network.rows(child.genome, inputs)
            finite = tf.reduce_all(tf.math.is_finite(rows), axis=[1, 2])
            return Child(child.genome, {**child.diagnostics, "finite": finite})

        if getattr(operator, "needs_gradient", False):
            self._check_differentiable(genomes, seen)
        value = tf.constant(strength.value, self.network.dtype)
        return cast(Child, self._run(("mutate", target), body, (genomes, seeds), seen, (value,), operator=operator))

    def sensitivity(
        self, operator: SupportsSensitivity, genomes: np.ndarray, seen: ExperienceBatch, directions: np.ndarray
    ) -> np.ndarray:
        """Return the raw sensitivities `[B, P]` of genomes `[B, P]` along directions `[B, P]`."""

        def body(lanes: Sequence[Tensor], inputs: list[Tensor], shared: Sequence[Tensor]) -> Tensor:
            return operator.sensitivity(self.network, lanes[0], inputs, lanes[1])

        self._check_differentiable(genomes, seen)
        return cast(np.ndarray, self._run("sensitivity", body, (genomes, directions), seen, operator=operator))

    def rows(self, genomes: np.ndarray, seen: ExperienceBatch) -> np.ndarray:
        """Return the output rows `[B, I, K]` of genomes `[B, P]`."""

        def body(lanes: Sequence[Tensor], inputs: list[Tensor], shared: Sequence[Tensor]) -> Tensor:
            return self.network.rows(lanes[0], inputs)

        return cast(np.ndarray, self._run("rows", body, (genomes,), seen))

    def divergence(self, genomes: np.ndarray, others: np.ndarray, seen: ExperienceBatch) -> np.ndarray:
        """Return the divergence `[B]` of genomes `[B, P]` from others `[B, P]`; either may be `[1, P]`."""
        # One after the other, by the same function: equal genomes then have equal outputs and a divergence of zero.
        first, second = (tf.constant(self.rows(batch, seen)) for batch in (genomes, others))
        result: np.ndarray = divergence_of_rows(first, second).numpy()
        return result

    def _check_differentiable(self, genomes: np.ndarray, seen: ExperienceBatch) -> None:
        """Raise an error for a network without a gradient; checked with the first genome, once per input shape."""
        shapes = tuple(tuple(x.shape[1:]) for x in seen.inputs)
        inputs = [x[:1] for x in seen.inputs]
        self._differentiable.get(shapes, lambda: check_differentiable(self.network, tf.constant(genomes[:1]), inputs))

    def _run(
        self,
        name: Hashable,
        body: Body,
        arrays: Sequence[np.ndarray],
        seen: ExperienceBatch,
        shared: Sequence[Tensor] = (),
        operator: object | None = None,
    ) -> Any:
        count = len(arrays[0])
        if not count:  # run one lane of zeros to find the shape of an empty result
            arrays = [np.zeros([1, *x.shape[1:]], x.dtype) for x in arrays]
        parts = []
        for start in range(0, max(1, count), MAX_LANES):
            used = min(MAX_LANES, max(1, count) - start)
            index = start + np.minimum(np.arange(self._width(used)), used - 1)
            lanes = [tf.constant(x[index]) for x in arrays]
            inputs = [tf.gather(x, index) for x in seen.inputs] if seen.each else seen.inputs
            function = self._function(name, body, lanes, inputs, shared, seen.each, operator)
            result = function(*lanes, *inputs, *shared)
            parts.append(tf.nest.map_structure(lambda x: x.numpy()[: min(used, count)], result))  # noqa: B023
        return parts[0] if len(parts) == 1 else tf.nest.map_structure(lambda *x: np.concatenate(x), *parts)

    def _width(self, lanes: int) -> int:
        """Return the padded width: with XLA a power of two, and at least two, since XLA rounds one lane differently."""
        if not (self._compiled and self._plan.jit):
            return lanes
        return max(self._plan.least_width, 1 << (lanes - 1).bit_length())

    def _function(
        self,
        name: Hashable,
        body: Body,
        lanes: list[Tensor],
        inputs: list[Tensor],
        shared: Sequence[Tensor],
        each: bool,
        operator: object | None,
    ) -> Callable[..., Any]:
        ends = len(lanes), len(lanes) + len(inputs)
        autograph = operator is not None and needs_autograph(operator)

        def flat(*tensors: Tensor) -> Any:
            own, seen, common = tensors[: ends[0]], list(tensors[ends[0] : ends[1]]), tensors[ends[1] :]
            if not (self._compiled and self._plan.one_by_one):
                return body(own, seen, common)
            if not each:
                return map_one_by_one(lambda *lane: body(lane, seen, common), autograph)(*own)
            function = map_one_by_one(lambda *lane: body(lane[: ends[0]], list(lane[ends[0] :]), common), autograph)
            return function(*own, *seen)

        if not self._compiled:
            return flat
        width = lanes[0].shape[0] if self._plan.jit else None
        key = (name, operator, width, each, *((tuple(x.shape[1:]), x.dtype) for x in inputs))

        def trace() -> Callable[..., Any]:
            specs = [tf.TensorSpec([width, *x.shape[1:]], x.dtype) for x in lanes]
            specs += [tf.TensorSpec([width if each else 1, *x.shape[1:]], x.dtype) for x in inputs]
            specs += [tf.TensorSpec(x.shape, x.dtype) for x in shared]
            # A concrete function saves the search for the right trace on each call. It also avoids a warning about
            # retracing that does not happen: TensorFlow counts traces by the line of code.
            return tf.function(flat, jit_compile=self._plan.jit, autograph=autograph).get_concrete_function(*specs)

        return cast(Callable[..., Any], self.functions.get(key, trace))


@dataclass(frozen=True)
class CachedRunner:
    """A runner, and the variables that it was made for."""

    variables: tuple[Any, ...]
    runner: BatchRunner


def runner_for(model: keras.Model) -> BatchRunner:
    """Return the model's cached runner, or a new one if other variables are trainable now."""
    check_model(model)
    variables = tuple(model.trainable_variables)
    # Stored in the model itself, bypassing Keras' attribute tracking. Compiled functions refer to the model, so any
    # table of ours, weak or not, would keep both alive forever. This way they are collected together.
    cached = vars(model).get(CACHE_ATTRIBUTE)
    if cached is None or list(map(id, cached.variables)) != list(map(id, variables)):
        cached = CachedRunner(variables, BatchRunner(Network(model)))
        vars(model)[CACHE_ATTRIBUTE] = cached
    return cached.runner
