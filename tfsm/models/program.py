"""Decides how each layer of a model runs B genomes at once, and runs the model.

A layer is `native` if a rule runs it, `folded` if it has no weights in the genome, so that the genomes count as more
examples, or `mapped` over the genomes with `tf.vectorized_map`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Tensor
from tfsm.kernels.experience import IndexedFrames
from tfsm.models.rules import Rule, rule_for
from tfsm.models.weights import PerExampleGradients, RecurrentStates, Weights, accepts_training, call_folded


@dataclass(frozen=True)
class IndexedActivations:
    """`IndexedFrames` inside a network: each genome has its own table of activations."""

    table: Tensor
    """`[B, V, ...]`, or `[1, V, ...]` while they are the same for all genomes."""
    index: Tensor
    """`[B, N, T]`, or `[1, N, T]`."""

    @classmethod
    def of(cls, frames: IndexedFrames) -> IndexedActivations:
        """Return the frames as the activations before the first layer."""
        return cls(frames.table[None], frames.index)

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the dense sequences."""
        return self.index.shape.concatenate(self.table.shape[2:])

    def to_dense(self, weights: Weights) -> Tensor:
        """Return the sequences as a dense tensor `[B, N, T, ...]`."""
        if self.table.shape[0] == 1:
            return tf.gather(self.table[0], self.index)
        return tf.gather(self.table, weights.widen(self.index), batch_dims=1)


def is_time_distributed(operation: Any) -> bool:
    """Return whether a layer does the same at each time."""
    return type(operation) is keras.layers.TimeDistributed


def run_at_each_time(
    layer: Any, weights: Weights, x: Tensor | IndexedActivations, inner: Callable[[Tensor], Tensor]
) -> Any:
    """Run a layer at each time of x `[B, N, T, ...]` by `inner`, which runs it on examples `[B, N, ...]`."""
    if isinstance(x, IndexedActivations):
        cached = None if weights.states is None else weights.states.tables.get(id(layer))
        table = inner(x.table) if cached is None else cached
        if weights.states is not None:
            weights.states.tables[id(layer)] = table
        return IndexedActivations(table, x.index)
    lanes, examples, times = (x.shape[i] if x.shape[i] is not None else tf.shape(x)[i] for i in range(3))
    outputs = inner(tf.reshape(x, [lanes, examples * times, *x.shape[3:]]))
    return tf.reshape(outputs, [outputs.shape[0] or tf.shape(outputs)[0], examples, times, *outputs.shape[2:]])


def to_dense_arguments(arguments: Any, weights: Weights) -> Any:
    """Make indexed activations dense, for layers that see more than one time."""
    return tf.nest.map_structure(lambda x: x.to_dense(weights) if isinstance(x, IndexedActivations) else x, arguments)


@dataclass(frozen=True)
class LayerPlan:
    """How one layer runs."""

    name: str
    kind: str
    """The layer's class."""
    mode: str
    """`native`, `folded` or `mapped`."""
    reason: str = ""
    """Why a layer is mapped."""
    has_per_example_gradients: bool = True
    """Whether per-example gradients are available without copies of the weights; True for a layer without weights."""


class Program:
    """Runs a model's layers with B genomes at once.

    Args:
        model: a built Keras model.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self.whole_model_reason = _explain_whole(model)
        self.layers = (
            tuple(_plan_layers(model))
            if not self.whole_model_reason
            else (LayerPlan(model.name, _kind(model), "mapped", self.whole_model_reason, False),)
        )
        _check_stateless(model, self.layers)

    @property
    def native(self) -> bool:
        """Whether no layer is mapped."""
        return all(plan.mode != "mapped" for plan in self.layers)

    @property
    def has_per_example_gradients(self) -> bool:
        """Whether per-example gradients are available for all layers without copies of the weights."""
        return all(plan.has_per_example_gradients for plan in self.layers)

    @property
    def convolutional(self) -> bool:
        """Whether there are convolutions, which run faster as a plain graph; those of a ConvLSTM do not count."""
        return self.uses("Conv1D", "Conv2D", "Conv3D")

    def uses(self, *kinds: str) -> bool:
        """Return whether there is a layer of one of these classes."""
        return any(plan.kind in kinds for plan in self.layers)

    def has_long_sequences(self) -> bool:
        """Return whether a recurrent layer has sequences of unknown length, or too long for XLA to be faster."""
        for layer in self.model._flatten_layers():
            rule = rule_for(layer)
            if rule is not None and rule.max_xla_steps is not None:
                times = _sequence_length(layer)
                if times is None or times > rule.max_xla_steps:
                    return True
        return False

    def reason_against_xla(self) -> str:
        """Return why the network should run as a plain graph; empty if XLA is the better choice."""
        mapped = [plan for plan in self.layers if plan.mode == "mapped"]
        if mapped:
            return f"{mapped[0].name} is mapped ({mapped[0].reason})"
        if self.convolutional:
            return "convolutions are faster as a plain graph"
        return "long sequences run in a loop" if self.has_long_sequences() else ""

    def run(
        self,
        values: Sequence[Tensor],
        inputs: Sequence[Tensor | IndexedFrames],
        per_example: PerExampleGradients | None = None,
        states: RecurrentStates | None = None,
    ) -> list[Tensor]:
        """Return the outputs `[B, N, ...]` for the variables' values `[B, ...]` and the inputs in the model's order."""
        weights = Weights(self.model.trainable_variables, values, per_example, states, plain_graph=self.convolutional)
        inputs = [self._index(x, per_example) if isinstance(x, IndexedFrames) else x for x in inputs]
        if self.whole_model_reason:
            structure = getattr(self.model, "input", None)
            packed = inputs[0] if len(inputs) == 1 else list(inputs)
            if isinstance(structure, (dict, tuple)):
                packed = tf.nest.pack_sequence_as(structure, list(inputs))
            result = _run_mapped(self.model, weights, (packed,), {})
        else:
            result = _run_model(self.model, weights, list(inputs))
        return [weights.widen(output) for output in tf.nest.flatten(to_dense_arguments(result, weights))]

    def operations(self) -> list[Any]:
        """Return the layers and operations in the order in which they run, including those of nested models."""
        return _operations(self.model)

    def _index(self, frames: IndexedFrames, per_example: PerExampleGradients | None) -> Tensor | IndexedActivations:
        # The gradient of an entry is summed over all examples that see it, so per-example gradients need dense frames.
        return (
            frames.to_dense()
            if self.whole_model_reason or (per_example is not None and frames.shape[1] != 1)
            else IndexedActivations.of(frames)
        )


def _run_model(model: keras.Model, weights: Weights, inputs: list[Tensor]) -> Any:
    if isinstance(model, keras.Sequential):
        (x,) = inputs
        for layer in model.layers:
            x = _apply(layer, weights, (x,), {})
        return x
    ready = [_add_last_axis(x, expected.shape) for x, expected in zip(inputs, model.inputs, strict=True)]
    # Constants of the graph, as in `x * tf.constant(...)`, have no genome axis.
    held = {id(leaf) for node in _nodes(model) for leaf in _arguments(node) if tf.is_tensor(leaf)}
    return model._run_through_graph(
        ready, operation_fn=lambda op: lambda *args, **kwargs: _apply(op, weights, args, kwargs, held)
    )


def _apply(
    operation: Any, weights: Weights, args: tuple[Any, ...], kwargs: dict[str, Any], held: Container[int] = ()
) -> Any:
    if _is_graph(operation):
        return _run_model(operation, weights, tf.nest.flatten((args, _without_defaults(kwargs))))
    if is_time_distributed(operation) and _has_one_input(args, kwargs):
        return run_at_each_time(operation, weights, args[0], lambda x: _apply(operation.layer, weights, (x,), {}))
    args, kwargs = to_dense_arguments((args, kwargs), weights)
    mode, _ = _choose_mode(operation)
    if mode == "native":
        rule = rule_for(operation)
        assert rule is not None
        if _has_one_input(args, kwargs):
            return rule.run(operation, weights, args[0])
        if _has_initial_state(rule, args, kwargs):
            return rule.run(operation, weights, args[0], tuple(tf.nest.flatten(kwargs["initial_state"])))
    if mode != "folded":
        return _run_mapped(operation, weights, args, kwargs, held)
    if not isinstance(operation, keras.layers.Layer):
        return call_folded(operation, args, kwargs, held)
    if accepts_training(operation.call):
        kwargs = {**kwargs, "training": False}
    return call_folded(_freeze(operation), args, kwargs, held)


def _freeze(layer: Any) -> Callable[..., Any]:
    """Return a layer without weights as a function that does not change its variables (counters, seeds)."""
    if not layer.non_trainable_variables:
        return layer
    fixed = [tf.convert_to_tensor(variable.value) for variable in layer.non_trainable_variables]
    return lambda *args, **kwargs: layer.stateless_call([], fixed, *args, **kwargs)[0]


def _run_mapped(
    layer: Any, weights: Weights, args: tuple[Any, ...], kwargs: dict[str, Any], held: Container[int] = ()
) -> Any:
    values = [weights.widen(weights.of(variable)) for variable in layer.trainable_variables]
    fixed = [tf.convert_to_tensor(variable.value) for variable in layer.non_trainable_variables]
    if accepts_training(layer.call):
        kwargs = {**kwargs, "training": False}
    leaves = tf.nest.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if tf.is_tensor(leaf) and id(leaf) not in held]
    wide = [weights.widen(leaves[i]) for i in places]
    # A mask loses its number of examples if the number of genomes is unknown; take that of the other tensors.
    examples = next((x.shape[1] for x in wide if x.shape[1] is not None), None)
    wide = [tf.ensure_shape(x, [None, examples, *x.shape[2:]]) if x.dtype == tf.bool else x for x in wide]
    unknown = not isinstance(weights.lanes, int)
    if unknown:
        # Add a lane and drop it again: TensorFlow cannot map a bias over a number of genomes that turns out to be 1.
        values, wide = ([tf.concat([x, x[-1:]], axis=0) for x in kind] for kind in (values, wide))

    def run_lane(arguments: tuple[list[Tensor], list[Tensor]]) -> Any:
        lane_values, tensors = arguments
        filled = dict(enumerate(leaves)) | dict(zip(places, tensors, strict=True))
        lane_args, lane_kwargs = tf.nest.pack_sequence_as((args, kwargs), list(filled.values()))
        return layer.stateless_call(lane_values, fixed, *lane_args, **lane_kwargs)[0]

    outputs = tf.vectorized_map(run_lane, (values, wide))
    return tf.nest.map_structure(lambda x: x[:-1], outputs) if unknown else outputs


def _has_one_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call has one tensor and nothing else, such as a mask, that a rule would ignore."""
    return len(args) == 1 and not _without_defaults(kwargs)


def _has_initial_state(rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call has one tensor and an initial state, and the rule accepts it."""
    return rule.accepts_initial_state and len(args) == 1 and set(_without_defaults(kwargs)) == {"initial_state"}


def _without_defaults(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "training" and value is not None}


def _nodes(model: Any) -> list[Any]:
    by_depth = {} if isinstance(model, keras.Sequential) else model._nodes_by_depth
    return [node for nodes in by_depth.values() for node in nodes]


def _arguments(node: Any) -> list[Any]:
    return tf.nest.flatten((node.arguments.args, node.arguments.kwargs))


def _choose_mode_in(model: Any, operation: Any) -> tuple[str, str]:
    mode, reason = _choose_mode(operation)
    rule = rule_for(operation)
    if (
        mode == "native"
        and rule is not None
        and not all(
            _has_one_input(call.args, call.kwargs) or _has_initial_state(rule, call.args, call.kwargs)
            for call in _calls(model, operation)
        )
    ):
        return "mapped", "it is called with more than its input"
    return mode, reason


def _always_has_one_input(model: Any, operation: Any) -> bool:
    return all(_has_one_input(call.args, call.kwargs) for call in _calls(model, operation))


def _calls(model: Any, operation: Any) -> list[Any]:
    return [node.arguments for node in _nodes(model) if node.operation is operation]


def _choose_mode(operation: Any) -> tuple[str, str]:
    rule = rule_for(operation)
    if not getattr(operation, "trainable_variables", None):
        if getattr(operation, "stateful", False) and rule is not None and not rule.explain_unsupported(operation):
            return "native", ""  # a plain call would start from its stored state, and change it
        if _may_be_random(operation):
            return "mapped", "it may draw random numbers, which must be the same for all genomes"
        return "folded", ""
    if rule is None:
        return "mapped", f"no rule for {_kind(operation)}"
    reason = rule.explain_unsupported(operation)
    return ("mapped", reason) if reason else ("native", "")


def _may_be_random(operation: Any) -> bool:
    """Return whether a layer may be random in inference; those of Keras are random in training only."""
    return bool(getattr(operation, "_seed_generators", None)) and not type(operation).__module__.startswith("keras.")


def _reports_gradients(operation: Any, mode: str) -> bool:
    rule = rule_for(operation)
    return not getattr(operation, "trainable_variables", None) or (
        mode == "native" and rule is not None and rule.reports_gradients(operation)
    )


def _operations(model: Any) -> list[Any]:
    operations: list[Any] = []
    for operation in model.layers if isinstance(model, keras.Sequential) else model.operations:
        if not isinstance(operation, keras.layers.InputLayer):
            operations += _operations(operation) if _is_graph(operation) else [operation]
    return operations


def _plan_layers(model: Any) -> list[LayerPlan]:
    plans: list[LayerPlan] = []
    for operation in model.layers if isinstance(model, keras.Sequential) else model.operations:
        if isinstance(operation, keras.layers.InputLayer):
            continue
        if _is_graph(operation):
            plans += _plan_layers(operation)
        elif is_time_distributed(operation) and _always_has_one_input(model, operation):
            plans += _plan_inner(operation.layer)
        else:
            mode, reason = _choose_mode_in(model, operation)
            gradients = _reports_gradients(operation, mode)
            plans.append(LayerPlan(operation.name, _kind(operation), mode, reason, gradients))
    return plans


def _plan_inner(layer: Any) -> list[LayerPlan]:
    if _is_graph(layer):
        return _plan_layers(layer)
    mode, reason = _choose_mode(layer)
    return [LayerPlan(layer.name, _kind(layer), mode, reason, _reports_gradients(layer, mode))]


def _explain_whole(model: keras.Model) -> str:
    """Return why a model cannot run layer by layer; empty if it can."""
    if not _is_graph(model):
        return "a subclassed model shows what it does only when called"
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Masking) or getattr(layer, "mask_zero", False):
            return f"{layer.name} makes a mask"
    return ""


def _check_stateless(model: keras.Model, plans: tuple[LayerPlan, ...]) -> None:
    """Raise an error for a stateful layer without a rule: Keras would start from a stored state of one batch size."""
    native = {plan.name for plan in plans if plan.mode == "native"}
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.RNN) and layer.stateful and layer.name not in native:
            reason = next((plan.reason for plan in plans if plan.mode == "mapped"), "it is part of another layer")
            raise TfsmError(
                f"the layer {layer.name!r} is stateful, and cannot run from the start of a sequence here ({reason}). "
                "Build the model with stateful=False, copy the weights with set_weights(model.get_weights()), "
                "and mutate the copy"
            )


def _is_graph(operation: Any) -> bool:
    # Exactly these: a subclass may do anything when called.
    return type(operation) is keras.Sequential or type(operation).__name__ == "Functional"


def _sequence_length(layer: Any) -> int | None:
    """Return the length of a recurrent layer's sequences; None if it is unknown, as inside a wrapper."""
    try:
        times: int | None = layer.input.shape[1]
    except (AttributeError, ValueError):
        return None
    return times


def _kind(operation: Any) -> str:
    return type(operation).__name__


def _add_last_axis(x: Tensor, expected: tuple[int | None, ...]) -> Tensor:
    # Like Keras, which adds a missing last axis of size 1.
    return x[..., None] if x.shape.rank == len(expected) and expected[-1] == 1 else x
