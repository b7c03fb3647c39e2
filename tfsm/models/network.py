"""`Network` runs B genomes of one architecture at once; `build_network` restricts the genome to some layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

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
from tfsm.models.program import Program
from tfsm.models.weights import PerExampleGradients

if TYPE_CHECKING:
    from tfsm.models.stepper import Stepper


STATISTICS: Final = "running_normalization"
"""Name of a BatchNormalization layer whose scale and offset are statistics: mutations leave them alone."""


class Network:
    """Runs B genomes of one architecture at once; the model it was made from is never changed.

    Args:
        model: a built Keras model with at least one trainable variable.
        origin: the user's model, if `model` is a copy of it with fewer trainable variables; see `build_network`.
        shares: `[P]`, each weight's share of the intensity; 1 for all weights if None.
    """

    def __init__(
        self, model: keras.Model, *, origin: keras.Model | None = None, shares: np.ndarray | None = None
    ) -> None:
        check_model(model)
        self.model = model
        self.origin = model if origin is None else origin
        self.layout = Layout.of(model)
        self.statistics = _find_statistics(self.layout)
        """The place of the scale and offset of the layer `STATISTICS` in the genome; None without such a layer."""
        if self.statistics is not None:
            shares = np.ones(self.layout.size, np.float32) if shares is None else shares.copy()
            shares[self.statistics] = 0.0
        self._shares = shares
        self.program = Program(model)
        self.genome: np.ndarray = flatten(model)
        """The weights of the model, `[P]`."""
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
        """How many numbers the model returns for one input; None if that is unknown before it runs."""
        if not getattr(self.model, "outputs", None):
            return None
        total = 0
        for _, *axes in self._output_shapes():
            known = [axis for axis in axes if axis is not None]
            if len(known) < len(axes):
                return None
            total += math.prod(known)
        return total

    @property
    def row_size(self) -> int | None:
        """The number K of outputs in a row; None if that is unknown before the model runs."""
        if not getattr(self.model, "outputs", None):
            return None
        sizes = [shape[-1] if len(shape) > 1 else 1 for shape in self._output_shapes()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def noise(self, seed: Tensor) -> Tensor:
        """Draw the noise of a mutation `[..., P]` from seeds `[..., 2]`: standard normal, times each weight's share."""
        return self.scale_by_share(gaussian(seed, self.size, self.dtype))

    def scale_by_share(self, change: Tensor) -> Tensor:
        """Multiply a change `[..., P]` of the weights by each weight's share of the intensity."""
        return change if self._shares is None else change * tf.constant(self._shares, self.dtype)

    def child(self, genome: np.ndarray) -> keras.Model:
        """Return a model with this genome `[P]`, which differs from the user's model in the weights only."""
        model = unflatten(self.model, genome)
        for variable, original in zip(model.variables, self.origin.variables, strict=True):
            variable.trainable = original.trainable
        return model

    def genome_of(self, model: keras.Model) -> np.ndarray:
        """Return the genome `[P]` of another model of this architecture; its other weights must be the same."""
        pairs = list(zip(self.model.variables, model.variables, strict=False))
        if len(model.variables) != len(pairs) or any(mine.shape != other.shape for mine, other in pairs):
            raise TfsmError(f"the models {self.model.name!r} and {model.name!r} have different architectures")
        for mine, other in pairs:
            if not mine.trainable and other.dtype.startswith("float") and (mine.numpy() != other.numpy()).any():
                raise TfsmError(f"{other.path} differs between the models, and is not among the mutated weights")
        values = [other.numpy().astype(self.dtype.as_numpy_dtype).ravel() for mine, other in pairs if mine.trainable]
        return np.concatenate(values)

    # AutoGraph is for the authors of domains and operators. The code here does not need it, and traces faster without.
    @tf.autograph.experimental.do_not_convert
    def call(self, genomes: Tensor, inputs: Nest) -> list[Tensor]:
        """Return the list of the model's outputs `[B, N, ...]` for genomes `[B, P]`.

        Args:
            genomes: `[B, P]`.
            inputs: a tensor, or a list or dict of tensors as the model takes them: `[B, N, ...]`, or `[1, N, ...]` if
                all genomes see the same. Sequences may be `IndexedFrames`.
        """
        return self._outputs(genomes, inputs, None)

    @tf.autograph.experimental.do_not_convert
    def rows(self, genomes: Tensor, inputs: Nest) -> Tensor:
        """Return output rows `[B, I, K]`: each output vector is a row, and several outputs are concatenated.

        One genome `[P]` with inputs `[N, ...]` gives `[I, K]`.
        """
        if genomes.shape.rank == 1:
            return self.rows(genomes[None], add_batch_axis(inputs))[0]
        return self.bind(genomes)(inputs)

    def bind(self, genomes: Tensor) -> Callable[[Nest], Tensor]:
        """Return `rows` for these genomes `[B, P]` as a function of the inputs, to be called many times.

        The genomes are split into weights once, here. In the body of a loop this would happen in each iteration, and
        for a network of half a million weights it takes twice as long as running it.
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
        """Return a `Stepper`, which runs these genomes `[B, P]` of a recurrent network one step at a time."""
        from tfsm.models.stepper import Stepper

        return Stepper(self, genomes, table, observation, min_lanes)

    @tf.autograph.experimental.do_not_convert
    def rows_per_example(self, genomes: Tensor, inputs: Nest) -> Tensor:
        """Return rows `[B * N, R, K]` of genomes `[B * N, P]`, each of which sees one input of `[B, N, ...]`."""
        total = tf.shape(genomes)[0]

        def unfold(x: Tensor) -> Tensor:
            inputs_of_one = x.shape[1]
            wide = tf.broadcast_to(x, tf.concat([[total // inputs_of_one], tf.shape(x)[1:]], axis=0))
            return tf.reshape(wide, [total, 1, *x.shape[2:]])

        return self.rows(genomes, tf.nest.map_structure(unfold, to_dense(inputs)))

    @property
    def has_per_example_gradients(self) -> bool:
        """Whether `rows_and_deltas` is available: each weight belongs to a layer with per-example gradients."""
        return self.program.has_per_example_gradients

    @tf.autograph.experimental.do_not_convert
    def rows_and_deltas(
        self, genomes: Tensor, inputs: Nest, watch: Callable[[Tensor], None]
    ) -> tuple[Tensor, list[Tensor], SumOverExamples]:
        """Return what per-example gradients are computed from.

        Args:
            genomes: `[B, P]`.
            inputs: `[B, N, ...]`, or `[1, N, ...]` if all genomes see the same.
            watch: the `watch` of a gradient tape.

        Returns:
            The output rows `[B, I, K]`; the deltas, zeros that were added to each product with weights; and a function
            from the gradients with respect to the deltas, and an elementwise size, to the sum of the gradients' sizes
            over examples, `[B, P]`.
        """
        examples = tf.nest.flatten(inputs)[0].shape[1]
        per_example = PerExampleGradients(watch, examples, self.dtype)
        rows = _as_rows(self._outputs(genomes, inputs, per_example), self.dtype, examples)
        variables = self.model.trainable_variables
        return rows, per_example.deltas, lambda gradients, size: per_example.sum_sizes(variables, gradients, size)

    def _outputs(self, genomes: Tensor, inputs: Nest, per_example: PerExampleGradients | None) -> list[Tensor]:
        return self.program.run(self.layout.split(genomes), tf.nest.flatten(inputs), per_example)

    def _output_shapes(self) -> list[tuple[int | None, ...]]:
        return [tuple(output.shape) for output in tf.nest.flatten(self.model.outputs)]

    def _check_outputs(self) -> None:
        if not getattr(self.model, "outputs", None):
            return  # the outputs of a subclassed model are known only when it runs
        between = {shape[1:-1] for shape in self._output_shapes()}
        if len(between) > 1:
            shapes = ", ".join(str(shape) for shape in self._output_shapes())
            raise TfsmError(
                f"the outputs of {self.model.name!r} have different numbers of rows ({shapes}): "
                "divergence compares rows, so give all outputs the same axes between the first and the last"
            )


def _as_rows(outputs: list[Tensor], dtype: tf.DType, examples: int | None) -> Tensor:
    flat = []
    for output in outputs:
        # An output may be one number per input, without an axis of its own.
        output = output[..., None] if output.shape.rank == 2 else output
        lanes = output.shape[0] or tf.shape(output)[0]
        between = [examples, *output.shape[2:-1]]
        rows = -1 if None in between else math.prod(between)  # known even if the number of lanes is not
        flat.append(tf.reshape(tf.cast(output, dtype), [lanes, rows, output.shape[-1]]))
    return flat[0] if len(flat) == 1 else tf.concat(flat, axis=-1)


def _find_statistics(layout: Layout) -> slice | None:
    """Return the place of a layer's scale and offset, which follow one another."""
    names = (f"{STATISTICS}/gamma", f"{STATISTICS}/beta")
    places = [slot.place for slot in layout.slots if slot.path.endswith(names)]
    return slice(places[0].start, places[1].stop) if len(places) == 2 else None


def build_network(model: keras.Model, layers: str | Iterable[str] = ()) -> Network:
    """Return a network whose genome has the weights of some layers.

    Args:
        model: a built Keras model, which is not changed.
        layers: patterns of layer names, each with its share of the intensity; all layers alike if there are none.
    """
    patterns = parse_patterns(layers)
    if not patterns:
        return Network(model)
    sections = find_sections(model)
    heads = _find_heads(model, sections) if any(pattern.name == HEAD for pattern in patterns) else ()
    shares = assign_shares(patterns, {section.name: section.path for section in sections}, heads)
    weight_shares = np.zeros(sum(section.size for section in sections), np.float32)
    for section, share in zip(sections, shares, strict=True):
        for start, stop in section.ranges:
            weight_shares[start:stop] = share
    restricted, offset, parts = copy_model(model), 0, []
    for variable in restricted.trainable_variables:
        part = weight_shares[offset : offset + int(np.prod(variable.shape))]
        offset += part.size
        if part.any():
            parts.append(part)
        else:
            variable.trainable = False
    chosen = np.concatenate(parts)
    return Network(restricted, origin=model, shares=None if (chosen == 1.0).all() else chosen)


def _find_heads(model: keras.Model, sections: tuple[Section, ...]) -> set[str]:
    """Return the names of the layers that no other weights follow."""
    variables = {id(variable): variable for layer in _last_layers(model) for variable in layer.trainable_variables}
    if not variables:  # the order of layers in a subclassed model is unknown
        return {sections[-1].name}
    names, offset = set(), 0
    for variable in model.trainable_variables:
        if id(variable) in variables:
            names |= {s.name for s in sections if any(start <= offset < stop for start, stop in s.ranges)}
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
