"""Network: B genomes of one architecture; network_of(layers)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.experience import to_dense
from tfsm.kernels.random import gaussian
from tfsm.kernels.sensitivity import SumOverExamples, add_batch_axis
from tfsm.models.genome import Layout, Section, check_model, copy_model, find_sections, flatten, unflatten
from tfsm.models.names import HEAD, assign_shares, parse_patterns
from tfsm.models.per_example_gradients import PerExampleGradients
from tfsm.models.program import Program
from tfsm.models.stepper import Stepper


class Network:
    """Runs B genomes of one architecture at once; the model it was made from is never changed.

    Args:
        model: a built Keras model with at least one trainable variable.
        origin: the user's own model, where this is a copy of it of which less is mutated; see `network_of`.
        shares: `[P]`, how much of the intensity is for each weight; the same for all if None.
    """

    def __init__(
        self, model: keras.Model, *, origin: keras.Model | None = None, shares: np.ndarray | None = None
    ) -> None:
        check_model(model)
        self.model = model
        self.origin = model if origin is None else origin
        self._shares = shares
        self.layout = Layout.of(model)
        self.program = Program(model)
        self.genome: np.ndarray = flatten(model)
        """The model's own weights `[P]`."""
        self._check_outputs()

    @property
    def size(self) -> int:
        """P, the number of weights."""
        return self.layout.size

    @property
    def dtype(self) -> tf.DType:
        """The genome's type."""
        return self.layout.dtype

    @property
    def output_size(self) -> int | None:
        """How many numbers the model answers to one input; None where that is not known before it runs."""
        if not getattr(self.model, "outputs", None):
            return None
        total = 0
        for _, *axes in self._output_shapes():
            known = [axis for axis in axes if axis is not None]
            if len(known) < len(axes):
                return None
            total += math.prod(known)
        return total

    def noise(self, seed: Tensor) -> Tensor:
        """Draw a mutation's noise `[..., P]` from seeds `[..., 2]`: standard normal, times each weight's share."""
        return self.scale_by_share(gaussian(seed, self.size, self.dtype))

    def scale_by_share(self, change: Tensor) -> Tensor:
        """Return a change `[..., P]` of the weights, times each weight's share of the intensity."""
        return change if self._shares is None else change * tf.constant(self._shares, self.dtype)

    def child(self, genome: np.ndarray) -> keras.Model:
        """Return a model of this genome `[P]`, which differs from the user's own in the weights only."""
        made = unflatten(self.model, genome)
        for variable, like in zip(made.variables, self.origin.variables, strict=True):
            variable.trainable = like.trainable
        return made

    def genome_of(self, model: keras.Model) -> np.ndarray:
        """Return the genome `[P]` of another model of this architecture that has the same weights outside of it."""
        pairs = list(zip(self.model.variables, model.variables, strict=False))
        if len(model.variables) != len(pairs) or any(own.shape != other.shape for own, other in pairs):
            raise TfsmError(f"the models {self.model.name!r} and {model.name!r} are not of one architecture")
        for own, other in pairs:
            if not own.trainable and other.dtype.startswith("float") and (own.numpy() != other.numpy()).any():
                raise TfsmError(f"{other.path} differs from one model to the other, and is not among what is mutated")
        values = [other.numpy().astype(self.dtype.as_numpy_dtype).ravel() for own, other in pairs if own.trainable]
        return np.concatenate(values)

    # AutoGraph is for the authors of domains and operators; what is written here needs none, and tracing is faster so.
    @tf.autograph.experimental.do_not_convert
    def call(self, genomes: Tensor, inputs: Nest) -> list[Tensor]:
        """Return the model's outputs `[B, N, ...]`, one by one, for genomes `[B, P]`.

        Args:
            genomes: `[B, P]`.
            inputs: a tensor, or a list or dict of them as the model takes them: `[B, N, ...]`, or `[1, N, ...]` where
                all genomes see the same. Sequences may be `Frames`.
        """
        return self._outputs(genomes, inputs, None)

    @tf.autograph.experimental.do_not_convert
    def rows(self, genomes: Tensor, inputs: Nest) -> Tensor:
        """Return output rows `[B, I, K]`: every output vector is a row, several outputs are concatenated.

        One genome `[P]` with inputs `[N, ...]` gives `[I, K]`.
        """
        if genomes.shape.rank == 1:
            return self.rows(genomes[None], add_batch_axis(inputs))[0]
        return self.bind(genomes)(inputs)

    def bind(self, genomes: Tensor) -> Callable[[Nest], Tensor]:
        """Return `rows` for these genomes `[B, P]` as a function of the inputs alone, to be called again and again.

        Genomes are cut into weights here and now. In the body of a loop that would be done in every round, and for a
        network of half a million weights take twice as long as running it.
        """
        values = self.layout.split(genomes)

        @tf.autograph.experimental.do_not_convert
        def rows(inputs: Nest) -> Tensor:
            flat = tf.nest.flatten(inputs)
            return _as_rows(self.program.run(values, flat, None), self.dtype, flat[0].shape[1])

        return rows

    def stepper(
        self, genomes: Tensor, table: Tensor | None = None, observation: tf.TensorSpec | None = None, min_lanes: int = 1
    ) -> Stepper:
        """Return what runs these genomes `[B, P]` of a recurrent network one step at a time; see `Stepper`."""
        return Stepper(self, genomes, table, observation, min_lanes)

    @tf.autograph.experimental.do_not_convert
    def rows_per_example(self, genomes: Tensor, inputs: Nest) -> Tensor:
        """Return `[B * N, R, K]` for genomes `[B * N, P]`, the n-th of which sees the n-th of `[B, N, ...]` alone."""
        total = tf.shape(genomes)[0]

        def unfold(x: Tensor) -> Tensor:
            inputs_of_one = x.shape[1]
            wide = tf.broadcast_to(x, tf.concat([[total // inputs_of_one], tf.shape(x)[1:]], axis=0))
            return tf.reshape(wide, [total, 1, *x.shape[2:]])

        return self.rows(genomes, tf.nest.map_structure(unfold, to_dense(inputs)))

    @property
    def has_per_example_gradients(self) -> bool:
        """Whether `rows_and_deltas` can be had: every weight belongs to a layer that has per-experience gradients."""
        return self.program.has_per_example_gradients

    @tf.autograph.experimental.do_not_convert
    def rows_and_deltas(
        self, genomes: Tensor, inputs: Nest, watch: Callable[[Tensor], None]
    ) -> tuple[Tensor, list[Tensor], SumOverExamples]:
        """Return what per-experience gradients are made of.

        Args:
            genomes: `[B, P]`.
            inputs: `[B, N, ...]`, or `[1, N, ...]` where all genomes see the same.
            watch: a gradient tape's `watch`.

        Returns:
            The output rows `[B, I, K]`; zeros that were added on the way, one for each product with weights; and a
            function from the gradients with respect to these, and a size, to the sum over inputs of gradients' sizes.
        """
        experiences = tf.nest.flatten(inputs)[0].shape[1]
        taps = PerExampleGradients(watch, experiences, self.dtype)
        rows = _as_rows(self._outputs(genomes, inputs, taps), self.dtype, experiences)
        variables = self.model.trainable_variables
        return rows, taps.deltas, lambda gradients, size: taps.summed(variables, gradients, size)

    def _outputs(self, genomes: Tensor, inputs: Nest, taps: PerExampleGradients | None) -> list[Tensor]:
        return self.program.run(self.layout.split(genomes), tf.nest.flatten(inputs), taps)

    def _output_shapes(self) -> list[tuple[int | None, ...]]:
        return [tuple(output.shape) for output in tf.nest.flatten(self.model.outputs)]

    def _check_outputs(self) -> None:
        if not getattr(self.model, "outputs", None):
            return  # a subclassed model says its outputs only when it runs
        between = {shape[1:-1] for shape in self._output_shapes()}
        if len(between) > 1:
            shapes = ", ".join(str(shape) for shape in self._output_shapes())
            raise TfsmError(
                f"the outputs of {self.model.name!r} have different numbers of rows ({shapes}): "
                "divergence compares rows, so give every output the same axes between the first and the last"
            )


def _as_rows(outputs: list[Tensor], dtype: tf.DType, experiences: int | None) -> Tensor:
    flat = []
    for output in outputs:
        # A model's output may be one number an input, without an axis for it.
        output = output[..., None] if output.shape.rank == 2 else output
        lanes = output.shape[0] or tf.shape(output)[0]
        between = [experiences, *output.shape[2:-1]]
        rows = -1 if None in between else math.prod(between)  # known also where the lanes are not
        flat.append(tf.reshape(tf.cast(output, dtype), [lanes, rows, output.shape[-1]]))
    return flat[0] if len(flat) == 1 else tf.concat(flat, axis=-1)


def build_network(model: keras.Model, layers: str | Iterable[str] = ()) -> Network:
    """Return a network whose genome is made of some layers' weights.

    Args:
        model: a built Keras model, which is not changed.
        layers: patterns for layers' names, each with its share of the intensity; all layers alike if there are none.
    """
    patterns = parse_patterns(layers)
    if not patterns:
        return Network(model)
    found = find_sections(model)
    heads = _find_heads(model, found) if any(pattern.name == HEAD for pattern in patterns) else ()
    shares = assign_shares(patterns, {section.name: section.path for section in found}, heads)
    of_weights = np.zeros(sum(section.size for section in found), np.float32)
    for section, share in zip(found, shares, strict=True):
        for start, stop in section.places:
            of_weights[start:stop] = share
    twin, offset, kept = copy_model(model), 0, []
    for variable in twin.trainable_variables:
        own = of_weights[offset : offset + int(np.prod(variable.shape))]
        offset += own.size
        if own.any():
            kept.append(own)
        else:
            variable.trainable = False
    chosen = np.concatenate(kept)
    return Network(twin, origin=model, shares=None if (chosen == 1.0).all() else chosen)


def _find_heads(model: keras.Model, found: tuple[Section, ...]) -> set[str]:
    """Return the names of the layers after which no other weights come."""
    variables = {id(variable): variable for layer in _last_layers(model) for variable in layer.trainable_variables}
    if not variables:  # a subclassed model does not say what follows what
        return {found[-1].name}
    names, offset = set(), 0
    for variable in model.trainable_variables:
        if id(variable) in variables:
            names |= {s.name for s in found if any(start <= offset < stop for start, stop in s.places)}
        offset += int(np.prod(variable.shape))
    return names


def _last_layers(model: Any) -> Iterator[Any]:
    if isinstance(model, keras.Sequential):
        with_weights = [layer for layer in model.layers if layer.trainable_variables]
        for layer in with_weights[-1:]:
            yield from _last_layers(layer) if isinstance(layer, keras.Model) else [layer]
        return
    waiting = list(keras.tree.flatten(getattr(model, "outputs", None) or ()))
    seen: set[int] = set()
    while waiting:
        history = waiting.pop()._keras_history
        node = history.operation._inbound_nodes[history.node_index]
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not getattr(history.operation, "trainable_variables", None):
            waiting += node.input_tensors
        elif isinstance(history.operation, keras.Model):
            yield from _last_layers(history.operation)
        else:
            yield history.operation
