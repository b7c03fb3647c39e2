"""Networks that record a sample of the inputs that a fitness function gives them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.models.genome import copy_model
from tfsm.models.inputs import prepare_arrays
from tfsm.models.network import Network
from tfsm.rollouts import ExperienceReservoir, pick_evenly


class InputRecorder:
    """Keeps an evenly spread sample of the inputs of one network.

    Args:
        model: the model that takes the inputs.
        count: how many to keep.
    """

    def __init__(self, model: keras.Model, count: int) -> None:
        self._model, self._count = model, count
        self._kept: ExperienceReservoir[tuple[np.ndarray, ...]] = ExperienceReservoir(count)

    def record(self, inputs: Any) -> None:
        """Record inputs `[N, ...]`, in any form in which the model takes them."""
        leaves = [np.asarray(leaf) for leaf in keras.tree.flatten(inputs)]
        for row in range(len(leaves[0]) if leaves and leaves[0].ndim else 0):
            if self._kept.offer():
                one = [leaf[row : row + 1] for leaf in leaves]
                try:
                    parts = prepare_arrays(self._model, keras.tree.pack_sequence_as(inputs, one))
                except TfsmError:  # NaN, for example: whether that is an error is up to the function
                    continue
                self._kept.add(tuple(part[0] for part in parts))

    def sample(self) -> tuple[np.ndarray, ...] | None:
        """Return the sample `[I, ...]`, one array per input of the model; None if the model was never called."""
        items = self._kept.items
        if not items:
            return None
        # Sequences may differ in length, but an array has one: the rows that are like the first one are used.
        alike = [item for item in items if all(a.shape == b.shape for a, b in zip(item, items[0], strict=True))]
        return tuple(np.stack(parts) for parts in zip(*pick_evenly(alike, self._count), strict=True))


class RecordingModel:
    """A copy of a model that takes the weights of one genome after another, and records its inputs.

    However the function runs it, inputs are seen: by a call, by `predict` and `evaluate`, within a `tf.function`.

    Args:
        network: the network whose genomes it takes.
        count: how many inputs to keep.
    """

    def __init__(self, network: Network, count: int) -> None:
        self._count, self._layout, self._original = count, network.layout, network.model
        self.model = copy_model(network.model)
        """The model for the fitness function."""
        self._other = [variable.numpy() for variable in self.model.non_trainable_variables]
        self._recorder = InputRecorder(self._original, count)
        self.model.__class__ = _recording_class(type(self.model), self._record)

    def load(self, genome: np.ndarray) -> InputRecorder:
        """Give the model the weights of a genome `[P]`, and return the recorder of its inputs."""
        for variable, slot in zip(self.model.trainable_variables, self._layout.slots, strict=True):
            variable.assign(genome[slot.offset : slot.offset + slot.size].reshape(slot.shape))
        # The function may have trained it: statistics must not leak from one individual to the next.
        for variable, value in zip(self.model.non_trainable_variables, self._other, strict=True):
            variable.assign(value)
        self._recorder = InputRecorder(self._original, self._count)
        return self._recorder

    def _record(self, inputs: Any) -> None:
        self._recorder.record(inputs)


def _recording_class(kind: type, record: Any) -> type:
    """Return a subclass of a model's class, under the same name, whose calls record their inputs."""

    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        inputs = arguments[0] if arguments else keywords.get("inputs")
        leaves = keras.tree.flatten(inputs)
        if any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):  # part of another model that is being built
            return kind.__call__(self, *arguments, **keywords)
        if tf.executing_eagerly():
            record(inputs)
        else:

            def record_leaves(*values: np.ndarray) -> None:
                record(keras.tree.pack_sequence_as(inputs, list(values)))

            tf.numpy_function(record_leaves, leaves, [])
        return kind.__call__(self, *arguments, **keywords)

    # XLA cannot call back into Python.
    no_xla = property(lambda self: False, lambda self, value: None)
    body = {"__call__": call, "jit_compile": no_xla, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), body)


def compile_call(network: Network) -> Callable[..., Any]:
    """Return a compiled function from genomes `[B, P]` and inputs to the list of outputs."""
    proxy = weakref.proxy(network)  # the compiled function must not keep the network alive
    return cast(
        Callable[..., Any],
        tf.function(
            lambda genomes, *inputs: proxy.call(genomes, list(inputs)),
            jit_compile=not network.program.reason_against_xla(),
            autograph=False,
        ),
    )


class NetworkBatch:
    """B networks of one architecture, for a fitness function that evaluates all of them at once.

    Calling it runs all of them: `batch(inputs)` returns `[B, N, ...]`.

    Args:
        network: runs the genomes.
        genomes: `[B, P]`.
        recorders: one per genome.
        call: what `compile_call` returned for the network.
    """

    def __init__(
        self, network: Network, genomes: np.ndarray, recorders: Sequence[InputRecorder], call: Callable[..., Any]
    ) -> None:
        self.genomes = genomes
        """The weights `[B, P]`."""
        self._network, self._recorders, self._call = network, recorders, call

    def __len__(self) -> int:
        return len(self.genomes)

    def model(self, i: int) -> keras.Model:
        """Return network `i` as a Keras model; what it is called with is not recorded."""
        return self._network.child(self.genomes[i])

    def __call__(self, inputs: Any) -> Any:
        """Return the outputs `[B, N, ...]`, a list if the networks have several.

        Args:
            inputs: `[N, ...]` for all networks alike, or `[B, N, ...]`; several for networks with several inputs.
        """
        leaves = [np.asarray(leaf) for leaf in keras.tree.flatten(inputs)]
        own = self._is_own(leaves)
        shared = [leaf if own else leaf[None] for leaf in leaves]
        for i, recorder in enumerate(self._recorders):
            recorder.record(keras.tree.pack_sequence_as(inputs, [leaf[i if own else 0] for leaf in shared]))
        prepared = [
            prepare_arrays(
                self._network.model, keras.tree.pack_sequence_as(inputs, [leaf[i] for leaf in shared]), "the batch"
            )
            for i in range(len(self) if own else 1)
        ]
        # Few widths are compiled; two lanes at least, because XLA drops a batch axis of one and sums in another order.
        width = max(2, 1 << (len(self) - 1).bit_length())
        places = np.minimum(np.arange(width), len(self) - 1)
        tensors = [np.stack(parts)[places if own else [0]] for parts in zip(*prepared, strict=True)]
        outputs = self._call(tf.constant(self.genomes[places]), *map(tf.constant, tensors))
        kept = [output.numpy()[: len(self)] for output in outputs]
        return kept[0] if len(kept) == 1 else kept

    def _is_own(self, leaves: list[np.ndarray]) -> bool:
        """Return whether each network gets inputs of its own."""
        taken = cast(Any, getattr(self._network.model, "inputs", None))
        if not leaves or not taken:
            return False
        own = leaves[0].ndim == len(keras.tree.flatten(taken)[0].shape) + 1
        if own and len(leaves[0]) != len(self):
            raise TfsmError(f"inputs of shape {leaves[0].shape} for {len(self)} networks: expected [B, N, ...]")
        return own
