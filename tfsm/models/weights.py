"""What a layer rule works with: the values of the variables, recurrent states, and folding of the genome axis.

A *lane* is the place of one genome in a batch.

Per-example gradients need no copy of the weights for each example. A layer that multiplies inputs `a` by a kernel has,
for one example, the gradient `sum_m a_m d_m^T`: its inputs times the deltas (the gradients with respect to the
product), summed over the positions `m` at which the kernel is used, which are times or positions of a filter. Deltas of
different examples never mix, so a single backward pass to the products gives all of them at once.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfsm.interfaces import Tensor
from tfsm.kernels.sensitivity import ElementSize

CHUNK_BYTES = 2**28
"""Maximum memory for the per-example gradients of one variable at a time."""


@dataclass(frozen=True)
class WeightUse:
    """One use of a variable in a product `z`; a zero delta is added to `z`, to differentiate with respect to it."""

    variable: int
    part: int
    """The row of the variable, if its rows are used separately; otherwise 0."""
    inputs: Tensor | None
    """The inputs that it multiplies, `[B, N, ..., in]`; None for a bias."""
    delta: int
    """The index of the delta."""


class PerExampleGradients:
    """Records the uses of variables while a network runs, and computes gradients per example from them.

    Args:
        watch: called with each delta; the `watch` of a gradient tape.
        examples: N, the number of inputs.
        dtype: the genome's type, in which gradients are summed, whatever type the layers compute in.
    """

    def __init__(self, watch: Callable[[Tensor], None], examples: int, dtype: tf.DType) -> None:
        self._watch, self._examples, self._dtype = watch, examples, dtype
        self._uses: list[WeightUse] = []
        self.deltas: list[Tensor] = []

    def delta(self, z: Tensor) -> tuple[Tensor, int]:
        """Return a zero delta to add to `z` `[B, N, ..., out]`, and its index."""
        delta = tf.zeros_like(z)
        self._watch(delta)
        self.deltas.append(delta)
        return delta, len(self.deltas) - 1

    def record(self, variable: Any, inputs: Tensor | None, delta: int, part: int = 0) -> None:
        """Record that a variable multiplied these inputs, or was added as a bias, at the product with this delta."""
        self._uses.append(WeightUse(id(variable), part, inputs, delta))

    def sum_sizes(self, variables: Sequence[Any], gradients: Sequence[Tensor], size: ElementSize) -> Tensor:
        """Return the sum over examples of the size of the gradient, `[B, P]`.

        Args:
            variables: the genome's variables, in order.
            gradients: the gradient with respect to each delta, in order.
            size: the size of a gradient, element by element, such as `tf.abs` or `tf.square`; the size of a product
                must be the product of the sizes.
        """
        gradients = [tf.ensure_shape(g, delta.shape) for g, delta in zip(gradients, self.deltas, strict=True)]
        uses: dict[int, dict[int, list[WeightUse]]] = defaultdict(lambda: defaultdict(list))
        for use in self._uses:
            uses[use.variable][use.part].append(use)
        flat = []
        for variable in variables:
            for _, same in sorted(uses[id(variable)].items()):
                total = self._sum_uses(same, gradients, size)
                flat.append(tf.reshape(total, [total.shape[0] or tf.shape(total)[0], -1]))
        return tf.concat(flat, axis=-1)

    def _sum_uses(self, uses: list[WeightUse], gradients: Sequence[Tensor], size: ElementSize) -> Tensor:
        d = self._join([gradients[use.delta] for use in uses])  # [B, N, M, out]
        if uses[0].inputs is None:
            # A product with ones, not a sum: XLA sums many positions in an order that depends on the number of genomes.
            each = tf.matmul(tf.ones_like(d[..., :1]), d, transpose_a=True) if d.shape[2] != 1 else d  # [B, N, 1, out]
            return tf.reduce_sum(size(each[:, :, 0]), axis=1)
        a = self._join([use.inputs for use in uses])
        if d.shape[2] == 1:  # one position: the gradient is a product of two numbers, and so is its size
            return tf.matmul(size(a[:, :, 0]), size(d[:, :, 0]), transpose_a=True)
        bytes_each = (d.shape[0] or 1) * a.shape[-1] * d.shape[-1] * d.dtype.size
        step = max(1, min(self._examples, CHUNK_BYTES // bytes_each))
        sums = []
        for start in range(0, self._examples, step):
            part = slice(start, start + step)
            each = tf.matmul(a[:, part], d[:, part], transpose_a=True)  # [B, n, in, out]
            sums.append(tf.reduce_sum(size(each), axis=1))
        return tf.add_n(sums)

    def _join(self, tensors: list[Tensor]) -> Tensor:
        """Concatenate the positions of all tensors, `[B, N, M, width]`; times that were folded into N are unfolded."""
        flat = []
        for tensor in tensors:
            lanes = tensor.shape[0] or tf.shape(tensor)[0]
            shaped = tf.reshape(tensor, [lanes, self._examples, -1, tensor.shape[-1]])
            flat.append(tf.cast(shaped, self._dtype))
        return flat[0] if len(flat) == 1 else tf.concat(flat, axis=2)


CellState = tuple[Tensor, ...]
"""The state of a recurrent layer: an LSTM's hidden state and carry, for example."""


class RecurrentStates:
    """The states of all recurrent layers between two steps, in the order in which the layers run.

    Args:
        states: the states saved in the previous step; None in the first step.
        tables: the outputs of `TimeDistributed` layers for the entries of a table, by layer id; filled on the way.
    """

    def __init__(self, states: Sequence[CellState] | None = None, tables: dict[int, Tensor] | None = None) -> None:
        self._states = states
        self.saved: list[CellState] = []
        self.tables: dict[int, Tensor] = {} if tables is None else tables

    def load(self, start: CellState) -> CellState:
        """Return the state of the current layer; `start` in the first step."""
        return start if self._states is None else self._states[len(self.saved)]

    def save(self, state: CellState) -> None:
        """Save the state of the current layer for the next step."""
        self.saved.append(state)


MAX_BROADCAST_POSITIONS = 64
"""Up to this number of positions a bias is added by plain broadcasting, which has a faster backward pass."""


class Weights:
    """The values of a model's variables, with a leading axis for the genomes.

    Args:
        variables: the model's trainable variables.
        values: their values `[B, *shape]`, in the same order.
        per_example: records how variables are used, if per-example gradients are wanted.
        states: where recurrent layers load and save their state, if the network runs step by step.
        plain_graph: whether the network runs as a plain graph, so that loops should be compiled by themselves.
    """

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        values: Sequence[Tensor],
        per_example: PerExampleGradients | None = None,
        states: RecurrentStates | None = None,
        *,
        plain_graph: bool = False,
    ) -> None:
        self.per_example, self.states, self.plain_graph = per_example, states, plain_graph
        self._values = {id(variable): value for variable, value in zip(variables, values, strict=True)}
        self.lanes = values[0].shape[0] or tf.shape(values[0])[0]

    def of(self, variable: keras.Variable, dtype: str | None = None) -> Tensor:
        """Return `[B, *shape]`, or `[1, *shape]` for a variable that is not part of the genome."""
        value = self._values.get(id(variable))
        if value is None:
            value = tf.convert_to_tensor(variable.value)[None]
        return value if dtype is None else tf.cast(value, dtype)

    def linear(
        self, x: Tensor, kernel: keras.Variable, bias: keras.Variable | None, dtype: str, row: int | None = None
    ) -> tuple[Tensor, int]:
        """Return `x W + b` for x `[B, N, ..., in]` (or `[1, N, ..., in]`), and the index of its delta.

        There is a delta only if per-example gradients are wanted; the index is -1 otherwise.

        Args:
            x: the inputs.
            kernel: W, `[..., in, out]`; all axes but the last count as `in`.
            bias: b, `[out]`, or `[rows, out]` of which one row is used.
            dtype: the layer's compute type.
            row: which row of the bias.
        """
        w = self.of(kernel, dtype)
        w = tf.reshape(w, [w.shape[0] or -1, x.shape[-1], w.shape[-1]])
        lanes, *middle = (x.shape[i] if x.shape[i] is not None else tf.shape(x)[i] for i in range(x.shape.rank - 1))
        z = tf.matmul(tf.reshape(x, [lanes, -1, x.shape[-1]]), w)
        if bias is not None:
            b = self.of(bias, dtype)
            b = b if row is None else b[:, row]
            many = z.shape[1] is None or z.shape[1] > MAX_BROADCAST_POSITIONS
            z = z + (_broadcast_bias(b, z.shape[1] or tf.shape(z)[1]) if many else b[:, None])
        if len(middle) > 1:
            z = tf.reshape(z, [z.shape[0] or tf.shape(z)[0], *middle, z.shape[-1]])
        if self.per_example is None:
            return z, -1
        # Each genome has its own deltas, even if all genomes see the same inputs.
        z = self.widen(z)
        delta, number = self.per_example.delta(z)
        self.per_example.record(kernel, self.widen(x), number)
        if bias is not None:
            self.per_example.record(bias, None, number, row or 0)
        return z + delta, number

    def initial_state(self, start: CellState) -> CellState:
        """Return the initial state of a recurrent layer: `start`, or the saved one if the network runs step by step."""
        return start if self.states is None else self.states.load(start)

    def save_state(self, state: CellState) -> None:
        """Save the last state of a recurrent layer, if the network runs step by step."""
        if self.states is not None:
            self.states.save(state)

    def widen(self, tensor: Tensor) -> Tensor:
        """Return `[B, ...]` from `[B, ...]` or `[1, ...]`."""
        if tensor.shape[0] != 1:
            return tensor
        return tf.repeat(tensor, self.lanes, axis=0)


def _broadcast_bias(bias: Tensor, positions: Any) -> Tensor:
    """Repeat a bias `[B, out]` for all positions, `[B, M, out]`.

    Its gradient is a product with ones: XLA would sum over many positions in an order that depends on the number of
    genomes, and a run would give different numbers alone than among others.
    """

    @tf.custom_gradient
    def spread(bias: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        def gradient(d: Tensor) -> Tensor:
            return tf.matmul(tf.ones_like(d[:, :, :1]), d, transpose_a=True)[:, 0]

        return tf.repeat(bias[:, None], positions, axis=1), gradient

    return spread(bias)


def fold_lanes(tensor: Tensor) -> Tensor:
    """Return `[B * N, ...]` from `[B, N, ...]`."""
    shape = tensor.shape
    if shape[0] is not None and shape[1] is not None:
        return tf.reshape(tensor, [shape[0] * shape[1], *_sizes(tensor, 2)])
    return tf.reshape(tensor, [-1, *_sizes(tensor, 2)])


def unfold_lanes(tensor: Tensor, lanes: Any) -> Tensor:
    """Return `[B, N, ...]` from `[B * N, ...]`."""
    rest = _sizes(tensor, 1)
    if isinstance(lanes, int) and tensor.shape[0] is not None:
        return tf.reshape(tensor, [lanes, tensor.shape[0] // lanes, *rest])
    return tf.reshape(tensor, [lanes, -1, *rest])


def call_folded(function: Callable[..., Any], args: Any, kwargs: Any = None, held: Container[int] = ()) -> Any:
    """Call a function of examples `[N, ...]` with tensors `[B, N, ...]`; one with B = 1 is repeated if needed.

    Args:
        function: a layer or an operation.
        args: its positional arguments.
        kwargs: its keyword arguments.
        held: ids of tensors to pass on unchanged.
    """

    def is_folded(leaf: Any) -> bool:
        return bool(tf.is_tensor(leaf)) and id(leaf) not in held

    tensors = [leaf for leaf in tf.nest.flatten((args, kwargs or {})) if is_folded(leaf)]
    wide = [leaf for leaf in tensors if leaf.shape[0] != 1]
    lanes = (wide[0].shape[0] or tf.shape(wide[0])[0]) if wide else 1

    def fold_leaf(leaf: Any) -> Any:
        if not is_folded(leaf):
            return leaf
        if wide and leaf.shape[0] == 1:
            leaf = tf.repeat(leaf, lanes, axis=0)
        return fold_lanes(leaf)

    args, kwargs = tf.nest.map_structure(fold_leaf, (args, kwargs or {}))
    return tf.nest.map_structure(lambda leaf: unfold_lanes(leaf, lanes), function(*args, **kwargs))


def accepts_training(function: Callable[..., Any]) -> bool:
    """Return whether a layer's `call` takes `training`."""
    return "training" in inspect.signature(function).parameters


def _sizes(tensor: Tensor, start: int) -> list[Any]:
    dynamic = None
    dims: list[Any] = []
    for axis in range(start, tensor.shape.rank):
        size = tensor.shape[axis]
        if size is None:
            dynamic = tf.shape(tensor) if dynamic is None else dynamic
            size = dynamic[axis]
        dims.append(size)
    return dims
