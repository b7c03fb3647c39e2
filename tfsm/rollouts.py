"""Building blocks for domains that step a simulator in Python.

A `PolicyCompiler` turns genomes into policies, `policy_network` builds default networks, and an `ExperienceReservoir`
keeps a bounded, evenly spread sample of what a policy observed.
"""

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

Observations = Sequence[np.ndarray]
"""One array per network input."""
Policy = Callable[[Observations], np.ndarray]
"""Maps the observations of B genomes in E episodes each, `[B, E, ...]`, to outputs `[B, E, K]`.

Call it once per step, from the first step on: a recurrent network keeps its state between calls.
"""


class PolicyCompiler:
    """Compiles networks into policies, once per network, number of genomes and number of episodes.

    Args:
        observe: maps stored experience to network inputs, as `Domain.observe` does.
    """

    def __init__(self, observe: Callable[[Nest], Nest]) -> None:
        self._observe = observe
        self._cache: WeakKeyDictionary[Network, dict[tuple[int, int], _CompiledStep]] = WeakKeyDictionary()

    def compile(self, network: Network, genomes: Tensor, template: Observations, episodes: int = 1) -> Policy:
        """Return a policy that runs genomes `[B, P]` from their first step on.

        Args:
            network: takes single observations or sequences of them.
            genomes: `[B, P]`.
            template: one observation, for its shapes and types.
            episodes: E, the number of parallel episodes per genome.
        """
        count = len(genomes)
        # Each width compiles once. Powers of two bound how many there are; two at least, because XLA drops a batch
        # axis of one and then sums in another order.
        width = max(2, 1 << (count - 1).bit_length())
        padded = tf.constant(np.asarray(genomes)[np.minimum(np.arange(width), count - 1)], network.dtype)
        compiled = self._compiled_step(network, template, width, episodes)
        buffers = [np.zeros([width, episodes, *x.shape], x.dtype) for x in template]
        state = compiled.start

        def policy(observations: Observations) -> np.ndarray:
            nonlocal state
            for buffer, part in zip(buffers, observations, strict=True):
                buffer[:count] = part
            outputs, *state = compiled.step(padded, *map(tf.constant, buffers), *state)
            return outputs.numpy()[:count]

        return policy

    def takes_sequences(self, network: Network, template: Observations) -> bool:
        """Return whether a network takes sequences of observations instead of single ones."""
        inputs = getattr(network.model, "inputs", None) or ()
        (first, *_) = tf.nest.flatten(self._inputs([tf.zeros([1, 1, *x.shape], x.dtype) for x in template]))
        return any(len(tensor.shape) == first.shape.rank for tensor in inputs[:1])

    def _inputs(self, parts: Sequence[Tensor]) -> Nest:
        return self._observe(parts[0] if len(parts) == 1 else tuple(parts))

    def _compiled_step(self, network: Network, template: Observations, width: int, episodes: int) -> _CompiledStep:
        cached = self._cache.setdefault(network, {})
        if (width, episodes) not in cached:
            # A proxy: the compiled step must not keep the network alive.
            build = _build_recurrent if self.takes_sequences(network, template) else _build_feed_forward
            step, start = build(weakref.proxy(network), self._inputs, template, width, episodes)
            # XLA makes the result independent of the batch position. In a plain graph the last digits depend on it, and
            # an episode would take another course alone than among others.
            function = tf.function(step, jit_compile=True, autograph=False)
            # A concrete function skips the signature lookup per call, which takes longer than a small network.
            cached[width, episodes] = _CompiledStep(
                function.get_concrete_function(
                    tf.TensorSpec([width, network.size], network.dtype),
                    *(tf.TensorSpec([width, episodes, *x.shape], x.dtype) for x in template),
                    *(tf.TensorSpec(x.shape, x.dtype) for x in start),
                ),
                start,
            )
        return cached[width, episodes]


class _CompiledStep:
    """One step for a fixed number of genomes and episodes, and the recurrent state before the first step."""

    def __init__(self, step: Any, start: Sequence[Tensor]) -> None:
        self.step, self.start = step, list(start)


StepFunction = Callable[..., list[Tensor]]
"""Maps genomes, observations and recurrent state to outputs and the next state."""


def _build_feed_forward(
    network: Network, inputs: Callable[[Sequence[Tensor]], Nest], template: Observations, width: int, episodes: int
) -> tuple[StepFunction, list[Tensor]]:
    def step(genomes: Tensor, *observations: Tensor) -> list[Tensor]:
        return [network.rows(genomes, inputs(observations))]

    return step, []


def _build_recurrent(
    network: Network, inputs: Callable[[Sequence[Tensor]], Nest], template: Observations, width: int, episodes: int
) -> tuple[StepFunction, list[Tensor]]:
    lanes = width * episodes

    def step(genomes: Tensor, *arguments: Tensor) -> list[Tensor]:
        (flat,) = tf.nest.flatten(inputs(arguments[: len(template)]))
        flat = tf.reshape(flat, [lanes, *flat.shape[2:]])
        stepper = network.stepper(
            tf.repeat(genomes, episodes, axis=0), observation=tf.TensorSpec(flat.shape[1:], flat.dtype)
        )
        given = list(arguments[len(template) :])
        state = tf.nest.pack_sequence_as(stepper.start, given) if given else stepper.start
        outputs, state = stepper(flat, state)
        return [tf.reshape(outputs, [width, episodes, -1]), *tf.nest.flatten(state)]

    specs = [tf.TensorSpec([width, network.size], network.dtype)]
    specs += [tf.TensorSpec([width, episodes, *x.shape], x.dtype) for x in template]
    traced = tf.function(step, autograph=False).get_concrete_function(*specs)
    _, *state = traced.structured_outputs
    return step, [tf.zeros(x.shape, x.dtype) for x in state]


MIN_COARSE_SIDE: Final = 20
"""Minimum side of an image, in pixels, for an 8x8 convolution followed by a 4x4 one."""


def policy_network(
    shape: tuple[int, ...], outputs: int, *, layers: int, units: int, activation: str | None = None
) -> keras.Model:
    """Return a policy network for a vector, or for an image `[height, width, channels]`."""
    front = convolution_layers(shape) if len(shape) > 1 else []
    return keras.Sequential(
        [keras.Input(shape), *front, *hidden_layers(layers, units), output_layer(outputs, activation)], name="player"
    )


def convolution_layers(shape: tuple[int, ...], name: str = "") -> list[keras.layers.Layer]:
    """Return two convolutions; images too small for wide kernels get narrow ones."""
    coarse, fine = ((8, 4), (4, 2)) if min(shape[:2]) >= MIN_COARSE_SIDE else ((3, 1), (3, 1))
    padding = "valid" if min(shape[:2]) >= MIN_COARSE_SIDE else "same"
    return [
        keras.layers.Conv2D(8, coarse[0], coarse[1], padding, activation="tanh", name=f"{name}coarse"),
        keras.layers.Conv2D(16, fine[0], fine[1], padding, activation="tanh", name=f"{name}fine"),
        keras.layers.Flatten(name=f"{name}flat"),
    ]


def hidden_layers(layers: int, units: int) -> list[keras.layers.Layer]:
    """Return hidden tanh layers."""
    return [keras.layers.Dense(units, activation="tanh", name=f"hidden_{i + 1}") for i in range(layers)]


def output_layer(outputs: int, activation: str | None = None) -> keras.layers.Layer:
    """Return the output layer."""
    return keras.layers.Dense(outputs, activation=activation, name="action")


T = TypeVar("T")


class ExperienceReservoir(Generic[T]):
    """Keeps an evenly spread sample of a stream of unknown length.

    Args:
        count: minimum number of items to keep once that many were offered; there are always fewer than twice as many.
    """

    def __init__(self, count: int) -> None:
        self._count, self._every, self._offered = count, 1, 0
        self.items: list[T] = []
        """The kept items, oldest first."""

    def offer(self) -> bool:
        """Count one more item and return whether to keep it. If so, call `add` next."""
        self._offered += 1
        return (self._offered - 1) % self._every == 0

    def add(self, item: T) -> None:
        """Keep the item offered last."""
        self.items.append(item)
        if len(self.items) == 2 * self._count:
            self.items, self._every = self.items[::2], 2 * self._every


def pick_evenly(items: Sequence[T], count: int) -> list[T]:
    """Pick `count` items, evenly spread from the first to the last; repeat some if there are fewer.

    >>> pick_evenly("abcdefg", 3), pick_evenly("ab", 4)
    (['a', 'd', 'g'], ['a', 'a', 'b', 'b'])
    """
    return [items[i] for i in np.linspace(0, len(items) - 1, count).round().astype(int)]
