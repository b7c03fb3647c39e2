"""Asking many networks at once what to do, in compiled code that is called step by step from plain Python."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.models.network import Network

Seen = Sequence[np.ndarray]
"""What is seen, an array for each of the network's inputs."""
Decide = Callable[[Seen], np.ndarray]
"""From what B genomes see in E episodes each, `[B, E, ...]`, to their answers `[B, E, K]`, step after step."""


class Asker:
    """Asks networks; compiled once for each network and number of genomes and episodes.

    Args:
        observe: turns what is kept of inputs into inputs, as a domain's `observe` does.
    """

    def __init__(self, observe: Callable[[Nest], Nest]) -> None:
        self._observe = observe
        self._known: WeakKeyDictionary[Network, dict[tuple[int, int], _Compiled]] = WeakKeyDictionary()

    def decide(self, network: Network, genomes: Tensor, blank: Seen, each: int = 1) -> Decide:
        """Return what to ask genomes `[B, P]` by, from the first step on: one with a memory remembers those before.

        Args:
            network: takes what is seen, or sequences of it.
            genomes: `[B, P]`.
            blank: what one of them sees at a time, for its shapes and types.
            each: E, how many episodes each of them plays at once.
        """
        count = len(genomes)
        # Compiled anew for every width: a power of two bounds how often, and XLA sums in another order for one alone.
        width = max(2, 1 << (count - 1).bit_length())
        own = tf.constant(np.asarray(genomes)[np.minimum(np.arange(width), count - 1)], network.dtype)
        compiled = self._compiled(network, blank, width, each)
        wide = [np.zeros([width, each, *x.shape], x.dtype) for x in blank]
        state = compiled.start

        def decide(seen: Seen) -> np.ndarray:
            nonlocal state
            for whole, part in zip(wide, seen, strict=True):
                whole[:count] = part
            answers, *state = compiled.step(own, *map(tf.constant, wide), *state)
            return answers.numpy()[:count]

        return decide

    def over_time(self, network: Network, blank: Seen) -> bool:
        """Say whether a network takes sequences of what is seen, not one at a time."""
        wanted = getattr(network.model, "inputs", None) or ()
        (seen, *_) = tf.nest.flatten(self._inputs([tf.zeros([1, 1, *x.shape], x.dtype) for x in blank]))
        return any(len(one.shape) == seen.shape.rank for one in wanted[:1])

    def _inputs(self, parts: Sequence[Tensor]) -> Nest:
        return self._observe(parts[0] if len(parts) == 1 else tuple(parts))

    def _compiled(self, network: Network, blank: Seen, width: int, each: int) -> _Compiled:
        known = self._known.setdefault(network, {})
        if (width, each) not in known:
            # The network outlives what is compiled of it, not the other way round.
            build = _recurrent if self.over_time(network, blank) else _feed_forward
            step, start = build(weakref.proxy(network), self._inputs, blank, width, each)
            # By XLA: elsewhere the last digits of a number depend on its place in a batch, and an episode would go
            # another way alone than among others.
            function = tf.function(step, jit_compile=True, autograph=False)
            # One shape only, and so without the search for it at every call, which takes longer than a small network.
            known[width, each] = _Compiled(
                function.get_concrete_function(
                    tf.TensorSpec([width, network.size], network.dtype),
                    *(tf.TensorSpec([width, each, *x.shape], x.dtype) for x in blank),
                    *(tf.TensorSpec(x.shape, x.dtype) for x in start),
                ),
                start,
            )
        return known[width, each]


class _Compiled:
    """One step for a fixed number of genomes and episodes, and the state before the first."""

    def __init__(self, step: Any, start: Sequence[Tensor]) -> None:
        self.step, self.start = step, list(start)


Step = Callable[..., list[Tensor]]
"""From genomes, what is seen, and the state to the answers and the next state."""


def _feed_forward(
    network: Network, inputs: Callable[[Sequence[Tensor]], Nest], blank: Seen, width: int, each: int
) -> tuple[Step, list[Tensor]]:
    def step(own: Tensor, *seen: Tensor) -> list[Tensor]:
        return [network.rows(own, inputs(seen))]

    return step, []


def _recurrent(
    network: Network, inputs: Callable[[Sequence[Tensor]], Nest], blank: Seen, width: int, each: int
) -> tuple[Step, list[Tensor]]:
    lanes = width * each

    def step(own: Tensor, *seen: Tensor) -> list[Tensor]:
        (flat,) = tf.nest.flatten(inputs(seen[: len(blank)]))
        flat = tf.reshape(flat, [lanes, *flat.shape[2:]])
        stepper = network.stepper(tf.repeat(own, each, axis=0), seen=tf.TensorSpec(flat.shape[1:], flat.dtype))
        given = list(seen[len(blank) :])
        state = tf.nest.pack_sequence_as(stepper.start, given) if given else stepper.start
        answers, state = stepper(flat, state)
        return [tf.reshape(answers, [width, each, -1]), *tf.nest.flatten(state)]

    specs = [tf.TensorSpec([width, network.size], network.dtype)]
    specs += [tf.TensorSpec([width, each, *x.shape], x.dtype) for x in blank]
    traced = tf.function(step, autograph=False).get_concrete_function(*specs)
    _, *state = traced.structured_outputs
    return step, [tf.zeros(x.shape, x.dtype) for x in state]
