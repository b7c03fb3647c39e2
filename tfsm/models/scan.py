"""A loop over time whose derivatives are again loops over time.

TensorFlow's own derivative of a loop keeps, of every step, all that the step computed, and adds up gradients of
sequences as large as the sequence at each step; of a derivative's derivative it keeps all of that again. Here a
backward pass is the same kind of loop, run from the end: it is given the state before each step, and runs it again.
XLA can compile each of these loops by itself, within a plain graph as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import tensorflow as tf

from tfsm.interfaces import Tensor

Parts = list[list[Tensor]]
"""Sequences `[T, ...]` (of a step: what they hold at its time), the state, and what does not change with time."""

Step = Callable[[list[Tensor], list[Tensor], list[Tensor]], Parts]
"""From those three to what a step gives at its time, the next state, and terms of sums over time."""

Like = Callable[[list[Tensor], list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]


@dataclass(frozen=True)
class Scan:
    """A step, run over time.

    Args:
        step: the step.
        sizes: how many sequences, states and constants it takes.
        results: how many sequences and sums it gives.
        like: from all it takes to tensors of the shape of what it gives at a time, and of its terms.
        alone: compile the loop by itself; it can be differentiated twice then, else as often as one likes.
        backwards: run from the last time to the first.
        linear: from these numbers on it is linear in sequences and constants, and in the state; their gradients are
            computed apart from the others', so that neither is where nobody asks for it.
    """

    step: Step
    sizes: tuple[int, int, int]
    results: tuple[int, int]
    like: Like
    alone: bool = False
    backwards: bool = False
    linear: tuple[int, int] | None = None

    def __call__(self, sequences: Sequence[Tensor], state: Sequence[Tensor], constants: Sequence[Tensor]) -> Parts:
        """Return the sequences `[T, ...]` that the step gives, the last state, and the sums over time."""
        given = [*sequences, *state, *constants]
        found = self._linked(*given, *self._run(*given))
        return _split(found, (self.results[0], self.sizes[1], self.results[1]))

    @cached_property
    def _run(self) -> Callable[..., list[Tensor]]:
        """From what is given to sequences, last state, sums, and the state before each step."""
        loop = tf.function(self._loop, jit_compile=True, autograph=False) if self.alone else self._loop

        @tf.custom_gradient
        def run(*given: Tensor) -> tuple[list[Tensor], Callable[..., list[Tensor]]]:
            # Asked for only by a derivative's derivative, which needs that of the states.
            def gradient(*cotangents: Tensor) -> list[Tensor]:
                results = sum(self.results) + self.sizes[1]
                befores = self._run(*given)[results:]
                return self._pulled(given, befores, cotangents[:results], cotangents[results:])

            return list(loop(*given)), gradient

        # As a function of its own: else a tape would look inside, and want from XLA what cannot leave it.
        return tf.function(run, autograph=False) if self.alone else run

    @cached_property
    def _linked(self) -> Callable[..., list[Tensor]]:
        """Pass on what a run gave, with the gradient that uses the states of the same run."""
        count = sum(self.sizes)
        results = sum(self.results) + self.sizes[1]

        @tf.custom_gradient
        def link(*tensors: Tensor) -> tuple[list[Tensor], Callable[..., list[Tensor | None]]]:
            given, befores = tensors[:count], tensors[count + results :]

            def gradient(*cotangents: Tensor) -> list[Tensor | None]:
                return [*self._pulled(given, befores, cotangents, []), *[None] * (len(tensors) - count)]

            return [tf.identity(x) for x in tensors[count : count + results]], gradient

        return link

    def _pulled(
        self, given: Sequence[Tensor], befores: Sequence[Tensor], cotangents: Sequence[Tensor], more: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the gradients of all that was given; `more` are cotangents of the states before each step."""
        sequences, _, constants = _split(given, self.sizes)
        d_sequences, d_state, d_sums = _split(cotangents, (self.results[0], self.sizes[1], self.results[1]))
        found: list[Tensor | None] = [None] * len(given)
        for group in self._groups:
            backward = self._backward(group, bool(more))
            parts = backward([*sequences, *befores, *d_sequences, *more], d_state, [*constants, *d_sums])
            for part, places in zip(parts, group.places(self.sizes), strict=True):
                for gradient, place in zip(part, places, strict=True):
                    found[place] = tf.ensure_shape(gradient, given[place].shape)
        return found

    @cached_property
    def _groups(self) -> list[_Group]:
        sequences, _, constants = self.sizes
        if self.linear is None:
            return [_Group((0, sequences), (0, constants))]
        first, last = self.linear
        return [_Group((0, first), (0, last)), _Group((first, sequences), (last, constants))]

    @cached_property
    def _children(self) -> dict[tuple[_Group, bool], Scan]:
        return {}

    def _backward(self, group: _Group, more: bool) -> Scan:
        """Return the loop that gives the gradients of a group; made once, so that it is compiled once."""
        key = (group, more)
        if key not in self._children:
            self._children[key] = self._made(group, more)
        return self._children[key]

    def _made(self, group: _Group, more: bool) -> Scan:
        sequences, states, constants = self.sizes
        given, sums = self.results
        layout = (sequences, states, given, states if more else 0)

        def step(now: list[Tensor], d_state: list[Tensor], fixed: list[Tensor]) -> Parts:
            seen, before, d_given, d_before = _split(now, layout)
            own, d_sums = fixed[:constants], fixed[constants:]
            wanted = [seen[slice(*group.sequences)], before, own[slice(*group.constants)]]
            with tf.GradientTape() as tape:
                tape.watch(wanted)
                outputs = self.step(seen, before, own)
            d_seen, d_state, d_own = tape.gradient(
                outputs, wanted, output_gradients=[d_given, d_state, d_sums], unconnected_gradients="zero"
            )
            if more:
                d_state = [a + b for a, b in zip(d_state, d_before, strict=True)]
            return [d_seen, d_state, d_own]

        def like(now: list[Tensor], state: list[Tensor], fixed: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            return [x[0] for x in now[slice(*group.sequences)]], fixed[slice(*group.constants)]

        return Scan(
            step,
            (sum(layout), states, constants + sums),
            (group.sequences[1] - group.sequences[0], group.constants[1] - group.constants[0]),
            like,
            self.alone,
            not self.backwards,
            linear=(sequences + states, constants),
        )

    def _loop(self, *given: Tensor) -> list[Tensor]:
        sequences, state, constants = _split(given, self.sizes)
        times = sequences[0].shape[0]
        count = tf.shape(sequences[0])[0] if times is None else times
        last = count - 1

        def arrays(like: Sequence[Tensor]) -> list[tf.TensorArray]:
            return [tf.TensorArray(x.dtype, count, element_shape=x.shape) for x in like]

        def body(i: Tensor, state: list[Tensor], sums: list[Tensor], kept: list[tf.TensorArray]) -> tuple[object, ...]:
            t = last - i if self.backwards else i
            seen, after, terms = self.step([x[t] for x in sequences], state, constants)
            kept = [array.write(t, x) for array, x in zip(kept, [*seen, *state], strict=True)]
            return i + 1, after, [total + term for total, term in zip(sums, terms, strict=True)], kept

        seen, terms = self.like(sequences, state, constants)
        first = (tf.constant(0), state, [tf.zeros_like(x) for x in terms], arrays([*seen, *state]))
        _, state, sums, kept = tf.while_loop(lambda i, *_: i < count, body, first, maximum_iterations=times)
        stacked = [tf.ensure_shape(array.stack(), [times, *array.element_shape]) for array in kept]
        given_now, befores = stacked[: self.results[0]], stacked[self.results[0] :]
        return [*given_now, *state, *sums, *befores]


@dataclass(frozen=True)
class _Group:
    """Sequences and constants, from a number to a number; and the state, of which every group has the gradient."""

    sequences: tuple[int, int]
    constants: tuple[int, int]

    def places(self, sizes: tuple[int, int, int]) -> list[range]:
        """Return which of all that is given the sequences, the state and the constants are."""
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
