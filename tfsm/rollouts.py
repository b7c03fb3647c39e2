"""Policies for Python simulators: ask nets, default nets, reservoir."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow as tf

from tfsm.interfaces import Nest, Tensor
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
        stepper = network.stepper(tf.repeat(own, each, axis=0), observation=tf.TensorSpec(flat.shape[1:], flat.dtype))
        given = list(seen[len(blank) :])
        state = tf.nest.pack_sequence_as(stepper.start, given) if given else stepper.start
        answers, state = stepper(flat, state)
        return [tf.reshape(answers, [width, each, -1]), *tf.nest.flatten(state)]

    specs = [tf.TensorSpec([width, network.size], network.dtype)]
    specs += [tf.TensorSpec([width, each, *x.shape], x.dtype) for x in blank]
    traced = tf.function(step, autograph=False).get_concrete_function(*specs)
    _, *state = traced.structured_outputs
    return step, [tf.zeros(x.shape, x.dtype) for x in state]


COARSE: Final = 20
"""Pixels that each side of a picture needs for windows of eight and four pixels, one behind the other."""


def player(
    shape: tuple[int, ...], outputs: int, *, layers: int, units: int, activation: str | None = None
) -> keras.Model:
    """Return a network for a row of numbers, or for a picture `[height, width, channels]`."""
    front = eye(shape) if len(shape) > 1 else []
    return keras.Sequential(
        [keras.Input(shape), *front, *hidden(layers, units), last(outputs, activation)], name="player"
    )


def eye(shape: tuple[int, ...], name: str = "") -> list[keras.layers.Layer]:
    """Return two convolutions; a picture that is too small for wide ones gets narrow ones."""
    coarse, fine = ((8, 4), (4, 2)) if min(shape[:2]) >= COARSE else ((3, 1), (3, 1))
    padding = "valid" if min(shape[:2]) >= COARSE else "same"
    return [
        keras.layers.Conv2D(8, coarse[0], coarse[1], padding, activation="tanh", name=f"{name}coarse"),
        keras.layers.Conv2D(16, fine[0], fine[1], padding, activation="tanh", name=f"{name}fine"),
        keras.layers.Flatten(name=f"{name}flat"),
    ]


def hidden(layers: int, units: int) -> list[keras.layers.Layer]:
    """Return hidden layers."""
    return [keras.layers.Dense(units, activation="tanh", name=f"hidden_{i + 1}") for i in range(layers)]


def last(outputs: int, activation: str | None = None) -> keras.layers.Layer:
    """Return the output layer."""
    return keras.layers.Dense(outputs, activation=activation, name="action")


T = TypeVar("T")


class Memory(Generic[T]):
    """Keeps some of many things, evenly spread over all of them however many they become.

    Args:
        count: how many to keep at least, once there were so many; there are fewer than twice as many at any time.
    """

    def __init__(self, count: int) -> None:
        self._count, self._every, self._seen = count, 1, 0
        self.kept: list[T] = []
        """From the first on."""

    def passes(self) -> bool:
        """Take notice of one more, and say whether to keep it: then `keep` comes next."""
        self._seen += 1
        return (self._seen - 1) % self._every == 0

    def keep(self, thing: T) -> None:
        """Keep what was taken notice of last."""
        self.kept.append(thing)
        if len(self.kept) == 2 * self._count:
            self.kept, self._every = self.kept[::2], 2 * self._every


def spread(things: Sequence[T], count: int) -> list[T]:
    """Choose so many, evenly spread from the first to the last; where there are fewer, some more than once.

    >>> spread("abcdefg", 3), spread("ab", 4)
    (['a', 'd', 'g'], ['a', 'a', 'b', 'b'])
    """
    return [things[i] for i in np.linspace(0, len(things) - 1, count).round().astype(int)]
