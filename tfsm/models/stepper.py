"""Runs a recurrent network one step at a time, for an agent in an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.experience import IndexedFrames
from tfsm.models.rules import rule_for
from tfsm.models.weights import CellState, RecurrentStates

if TYPE_CHECKING:
    from tfsm.models.network import Network


_TIME_INDEPENDENT = """
    Activation Add Average BatchNormalization Concatenate Dense Dropout ELU GaussianDropout GaussianNoise Identity
    LeakyReLU Maximum Minimum Multiply ReLU Rescaling Softmax SpatialDropout1D Subtract TimeDistributed
"""


class Stepper:
    """Runs B genomes of a network over sequences `[T, ...]` step by step, with the same numbers as all at once.

    Args:
        network: takes one sequence `[T, ...]` and gives one output `[T, K]`.
        genomes: `[B, P]`; they are split into weights once, here.
        table: `[V, ...]`, all possible observations, if they are known beforehand. `TimeDistributed` layers then run
            once, here, and a step takes the index of an entry.
        observation: the spec of an observation without the genome axis; required without a table.
        min_lanes: minimum number of lanes; fewer genomes are padded with copies of the last one, after the table
            was run.
    """

    def __init__(
        self,
        network: Network,
        genomes: Tensor,
        table: Tensor | None = None,
        observation: tf.TensorSpec | None = None,
        min_lanes: int = 1,
    ) -> None:
        check_stepwise(network)
        self._network, self._table = network, table
        self._values = network.layout.split(genomes)
        self._tables: dict[int, Tensor] = {}
        self.lanes = genomes.shape[0]
        if table is not None:
            _, start = self._run(self._values, tf.zeros([self.lanes], tf.int32), None)
        else:
            assert observation is not None, "without a table the spec of an observation is required"
            specs = [tf.TensorSpec(value.shape, value.dtype) for value in self._values]
            trial = tf.function(lambda values, x: self._run(values, x, None), autograph=False)
            traced = trial.get_concrete_function(
                specs, tf.TensorSpec([self.lanes, *observation.shape], observation.dtype)
            )
            _, start = traced.structured_outputs
        self._pad(min_lanes)
        self.start: list[CellState] = tf.nest.map_structure(
            lambda x: tf.zeros([self.lanes, *x.shape[1:]], x.dtype), start
        )
        """The state before the first step."""

    def __call__(self, seen: Tensor, state: list[CellState]) -> tuple[Tensor, list[CellState]]:
        """Return the outputs `[B, K]` and the next state.

        Args:
            seen: observations `[B, ...]`, or with a table the indices of its entries `[B]`.
            state: `start`, or the state that the previous step returned.
        """
        return self._run(self._values, seen, state)

    def _pad(self, min_lanes: int) -> None:
        if self.lanes >= min_lanes:
            return
        lanes = [min(lane, self.lanes - 1) for lane in range(min_lanes)]
        self._values = [tf.gather(value, lanes) for value in self._values]
        self._tables = {
            layer: table if table.shape[0] == 1 != self.lanes else tf.gather(table, lanes)
            for layer, table in self._tables.items()
        }
        self.lanes = min_lanes

    @tf.autograph.experimental.do_not_convert
    def _run(self, values: list[Tensor], seen: Tensor, state: list[CellState] | None) -> tuple[Tensor, list[CellState]]:
        states = RecurrentStates(state, self._tables)
        inputs: Nest = seen[:, None, None]
        if self._table is not None:
            inputs = IndexedFrames(self._table, inputs)
        (output,) = self._network.program.run(values, [inputs], states=states)
        return tf.cast(output[:, 0, 0], self._network.dtype), states.saved


def check_stepwise(network: Network) -> None:
    """Raise an error that names the layer if a network cannot run step by step."""
    reason = explain_not_stepwise(network)
    if reason:
        raise TfsmError(f"the model {network.model.name!r} cannot run step by step: {reason}")


def explain_not_stepwise(network: Network) -> str:
    """Return why a network cannot run step by step; empty if it can."""
    model, program = network.model, network.program
    if program.whole_model_reason:
        return program.whole_model_reason
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        return f"it has {len(model.inputs)} inputs and {len(model.outputs)} outputs, expected one of each"
    if len(model.outputs[0].shape) != 3:
        return f"its output {tuple(model.outputs[0].shape)} is not one vector per time, (None, T, K)"
    for operation in program.operations():
        reason = _explain_layer(operation)
        if reason:
            return f"{operation.name} ({type(operation).__name__}) {reason}"
    return ""


def _explain_layer(operation: Any) -> str:
    rule = rule_for(operation)
    if rule is not None and rule.is_recurrent:
        if rule.explain_unsupported(operation):
            return f"has no fast rule: {rule.explain_unsupported(operation)}"
        if operation.stateful:
            return "is stateful: an agent's state starts from zeros in each episode"
        if operation.return_state:
            return "returns its state besides its output"
        if operation.go_backwards:
            return "goes backwards in time"
        return "" if operation.return_sequences else "returns its last state only: set return_sequences=True"
    if type(operation).__name__ in _TIME_INDEPENDENT.split() and getattr(operation, "axis", -1) in (-1, 2):
        return ""
    return "may mix times: wrap it in TimeDistributed if it does not"
