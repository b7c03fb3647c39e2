"""A loop over time whose derivatives are again loops over time.

TensorFlow's derivative of a loop stores everything that each step computed, and at each step adds gradients as large as
the whole sequence; for the second derivative it stores all of that again. Here a backward pass is the same kind of
loop, run from the end: it gets the state before each step and runs the step again. XLA can compile each of these loops
by itself, even within a plain graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import tensorflow as tf

from tfsm.interfaces import Tensor

Parts = list[list[Tensor]]
"""Sequences `[T, ...]` (in a step: their values at its time), the state, and constants that do not change with time."""

Step = Callable[[list[Tensor], list[Tensor], list[Tensor]], Parts]
"""From these three to the outputs of a step, the next state, and terms of sums over time."""

Like = Callable[[list[Tensor], list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]


@dataclass(frozen=True)
class Scan:
    """A step, run over time.

    Args:
        step: the step.
        sizes: the numbers of sequences, states and constants that it takes.
        results: the numbers of sequences and sums that it returns.
        like: from all inputs to tensors with the shapes of its outputs at one time, and of its terms.
        compile_alone: compile the loop by itself; it can then be differentiated twice, otherwise any number of times.
        backwards: run from the last time to the first.
        linear: indices of sequences and constants from which on the step is linear in them, and in the state. Their
            gradients are computed separately from the others, so that each is computed only if it is needed.
    """

    step: Step
    sizes: tuple[int, int, int]
    results: tuple[int, int]
    like: Like
    compile_alone: bool = False
    backwards: bool = False
    linear: tuple[int, int] | None = None

    def __call__(self, sequences: Sequence[Tensor], state: Sequence[Tensor], constants: Sequence[Tensor]) -> Parts:
        """Return the output sequences `[T, ...]`, the last state, and the sums over time."""
        inputs = [*sequences, *state, *constants]
        outputs = self._link(*inputs, *self._run(*inputs))
        return _split(outputs, (self.results[0], self.sizes[1], self.results[1]))

    @cached_property
    def _run(self) -> Callable[..., list[Tensor]]:
        """From the inputs to sequences, last state, sums, and the state before each step."""
        loop = tf.function(self._loop, jit_compile=True, autograph=False) if self.compile_alone else self._loop

        @tf.custom_gradient
        def run(*inputs: Tensor) -> tuple[list[Tensor], Callable[..., list[Tensor]]]:
            # Needed only for the second derivative, which includes that of the states.
            def gradient(*cotangents: Tensor) -> list[Tensor]:
                results = sum(self.results) + self.sizes[1]
                befores = self._run(*inputs)[results:]
                return self._pull_back(inputs, befores, cotangents[:results], cotangents[results:])

            return list(loop(*inputs)), gradient

        # In a function of its own: otherwise a tape would look inside, and request values that cannot leave XLA.
        return tf.function(run, autograph=False) if self.compile_alone else run

    @cached_property
    def _link(self) -> Callable[..., list[Tensor]]:
        """Pass the results of a run on, with a gradient that uses the states of the same run."""
        count = sum(self.sizes)
        results = sum(self.results) + self.sizes[1]

        @tf.custom_gradient
        def link(*tensors: Tensor) -> tuple[list[Tensor], Callable[..., list[Tensor | None]]]:
            inputs, befores = tensors[:count], tensors[count + results :]

            def gradient(*cotangents: Tensor) -> list[Tensor | None]:
                return [*self._pull_back(inputs, befores, cotangents, []), *[None] * (len(tensors) - count)]

            return [tf.identity(x) for x in tensors[count : count + results]], gradient

        return link

    def _pull_back(
        self,
        inputs: Sequence[Tensor],
        befores: Sequence[Tensor],
        cotangents: Sequence[Tensor],
        d_befores: Sequence[Tensor],
    ) -> list[Tensor]:
        """Return the gradients of all inputs; `d_befores` are cotangents of the states before each step."""
        sequences, _, constants = _split(inputs, self.sizes)
        d_sequences, d_state, d_sums = _split(cotangents, (self.results[0], self.sizes[1], self.results[1]))
        gradients: list[Tensor | None] = [None] * len(inputs)
        for group in self._groups:
            backward = self._backward(group, bool(d_befores))
            parts = backward([*sequences, *befores, *d_sequences, *d_befores], d_state, [*constants, *d_sums])
            for part, indices in zip(parts, group.indices(self.sizes), strict=True):
                for gradient, index in zip(part, indices, strict=True):
                    gradients[index] = tf.ensure_shape(gradient, inputs[index].shape)
        return gradients

    @cached_property
    def _groups(self) -> list[_Group]:
        sequences, _, constants = self.sizes
        if self.linear is None:
            return [_Group((0, sequences), (0, constants))]
        first, last = self.linear
        return [_Group((0, first), (0, last)), _Group((first, sequences), (last, constants))]

    @cached_property
    def _backward_scans(self) -> dict[tuple[_Group, bool], Scan]:
        return {}

    def _backward(self, group: _Group, with_befores: bool) -> Scan:
        """Return the loop that computes the gradients of a group; made once, so that it is compiled once."""
        key = (group, with_befores)
        if key not in self._backward_scans:
            self._backward_scans[key] = self._make_backward(group, with_befores)
        return self._backward_scans[key]

    def _make_backward(self, group: _Group, with_befores: bool) -> Scan:
        sequences, states, constants = self.sizes
        outputs, sums = self.results
        layout = (sequences, states, outputs, states if with_befores else 0)

        def step(now: list[Tensor], d_state: list[Tensor], fixed: list[Tensor]) -> Parts:
            seen, before, d_outputs, d_before = _split(now, layout)
            own, d_sums = fixed[:constants], fixed[constants:]
            sources = [seen[slice(*group.sequences)], before, own[slice(*group.constants)]]
            with tf.GradientTape() as tape:
                tape.watch(sources)
                results = self.step(seen, before, own)
            d_seen, d_state, d_own = tape.gradient(
                results, sources, output_gradients=[d_outputs, d_state, d_sums], unconnected_gradients="zero"
            )
            if with_befores:
                d_state = [a + b for a, b in zip(d_state, d_before, strict=True)]
            return [d_seen, d_state, d_own]

        def like(now: list[Tensor], state: list[Tensor], fixed: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            return [x[0] for x in now[slice(*group.sequences)]], fixed[slice(*group.constants)]

        return Scan(
            step,
            (sum(layout), states, constants + sums),
            (group.sequences[1] - group.sequences[0], group.constants[1] - group.constants[0]),
            like,
            self.compile_alone,
            not self.backwards,
            linear=(sequences + states, constants),
        )

    def _loop(self, *inputs: Tensor) -> list[Tensor]:
        sequences, state, constants = _split(inputs, self.sizes)
        times = sequences[0].shape[0]
        count = tf.shape(sequences[0])[0] if times is None else times
        last = count - 1

        def arrays(like: Sequence[Tensor]) -> list[tf.TensorArray]:
            return [tf.TensorArray(x.dtype, count, element_shape=x.shape) for x in like]

        def body(
            i: Tensor, state: list[Tensor], sums: list[Tensor], stored: list[tf.TensorArray]
        ) -> tuple[object, ...]:
            t = last - i if self.backwards else i
            seen, after, terms = self.step([x[t] for x in sequences], state, constants)
            stored = [array.write(t, x) for array, x in zip(stored, [*seen, *state], strict=True)]
            return i + 1, after, [total + term for total, term in zip(sums, terms, strict=True)], stored

        seen, terms = self.like(sequences, state, constants)
        first = (tf.constant(0), state, [tf.zeros_like(x) for x in terms], arrays([*seen, *state]))
        _, state, sums, stored = tf.while_loop(lambda i, *_: i < count, body, first, maximum_iterations=times)
        stacked = [tf.ensure_shape(array.stack(), [times, *array.element_shape]) for array in stored]
        outputs, befores = stacked[: self.results[0]], stacked[self.results[0] :]
        return [*outputs, *state, *sums, *befores]


@dataclass(frozen=True)
class _Group:
    """Half-open index ranges of sequences and constants; each group also has the gradient of the state."""

    sequences: tuple[int, int]
    constants: tuple[int, int]

    def indices(self, sizes: tuple[int, int, int]) -> list[range]:
        """Return the indices of the sequences, the state and the constants among all inputs."""
        sequences, states, _ = sizes
        after = sequences + states
        return [
            range(*self.sequences),
            range(sequences, after),
            range(after + self.constants[0], after + self.constants[1]),
        ]


def _split(flat: Sequence[Tensor], sizes: Sequence[int]) -> Parts:
    ends = [0, *(sum(sizes[: i + 1]) for i in range(len(sizes)))]
    return [list(flat[a:b]) for a, b in pairwise(ends)]
