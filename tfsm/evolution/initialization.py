"""Draws the weights of the initial population."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfsm.interfaces import Init, Tensor
from tfsm.kernels.random import gaussian, split, uniform
from tfsm.models.genome import Slot
from tfsm.models.network import Network


@dataclass(frozen=True)
class Initializer:
    """Draws the genomes of an initial population.

    The Xavier schemes draw every kernel from a distribution of variance 2 / (fan in + fan out) and leave biases, and
    all other weights, as the model has them. `xavier-biased` draws kernels as `xavier-normal` does, and moves every
    bias by up to 1 / sqrt(fan in) of its layer's first kernel, as PyTorch's layers are initialized. `xavier-pytorch`
    draws kernels of dense and convolutional layers from a normal distribution, with the number of maps as the fan out
    of a convolution, and everything else as PyTorch does: biases uniformly from +-1 / sqrt(fan in), and all weights of
    a recurrent layer, biases included, uniformly from +-1 / sqrt(units). `normal` and `uniform` draw all weights alike,
    with standard deviation or half width `scale`. `model` starts all individuals from the model's weights.
    """

    scheme: Init = "xavier-normal"
    scale: float | None = None

    def genomes(self, network: Network, seed: Tensor) -> Tensor:
        """Return genomes `[B, P]` for seeds `[B, 2]`."""
        dtype = network.dtype
        center, deviation, width = (
            None if part is None else tf.constant(part, dtype)
            for part in _keep_statistics(network, self._distribution(network))
        )
        if deviation is None:
            return center + width * _symmetric_uniform(seed, network.size, dtype)
        drawn = center + deviation * gaussian(seed, network.size, dtype)
        if width is None:
            return drawn
        _, uniform_seed = split(seed, 2)
        return drawn + width * _symmetric_uniform(uniform_seed, network.size, dtype)

    def _distribution(self, network: Network) -> Distribution:
        if self.scheme == "model":
            return Distribution(network.genome.copy(), None, np.zeros(network.size))
        if self.scheme == "normal":
            return Distribution(np.zeros(network.size), self._fill(network, 0.01), None)
        if self.scheme == "uniform":
            return Distribution(np.zeros(network.size), None, self._fill(network, 0.1))
        gain = 1.0 if self.scale is None else self.scale
        if self.scheme == "xavier-pytorch":
            return _pytorch_distribution(network, gain)
        center, deviation = network.genome.copy(), np.zeros(network.size)
        for slot in network.layout.slots:
            if is_kernel(slot):
                center[slot.place] = 0.0
                deviation[slot.place] = gain * math.sqrt(2.0 / sum(fans(slot.shape)))
        if self.scheme == "xavier-uniform":
            return Distribution(center, None, deviation * math.sqrt(3.0))
        return Distribution(center, deviation, _bias_widths(network) if self.scheme == "xavier-biased" else None)

    def _fill(self, network: Network, default: float) -> np.ndarray:
        return np.full(network.size, default if self.scale is None else self.scale)


class Distribution(NamedTuple):
    """The distribution of initial genomes: a center `[P]`, plus normal noise, uniform noise or both."""

    center: np.ndarray
    deviation: np.ndarray | None
    """Standard deviation of the normal noise of each weight."""
    width: np.ndarray | None
    """Half the width of the interval of the uniform noise of each weight."""


def _keep_statistics(network: Network, distribution: Distribution) -> Distribution:
    """Return the distribution with the model's own statistics, which are not drawn."""
    place = network.statistics
    if place is not None:
        distribution.center[place] = network.genome[place]
        for part in (distribution.deviation, distribution.width):
            if part is not None:
                part[place] = 0.0
    return distribution


def _symmetric_uniform(seed: Tensor, size: int, dtype: tf.DType) -> Tensor:
    return tf.cast(2.0 * uniform(seed, size) - 1.0, dtype)


def _pytorch_distribution(network: Network, gain: float) -> Distribution:
    center, deviation, width = network.genome.copy(), np.zeros(network.size), _bias_widths(network)
    # Recurrent layers by name, and the number of their units.
    units = {layer_of(slot): slot.shape[-2] for slot in network.layout.slots if slot.path.endswith("/recurrent_kernel")}
    for slot in network.layout.slots:
        if layer_of(slot) in units:
            center[slot.place], width[slot.place] = 0.0, 1.0 / math.sqrt(units[layer_of(slot)])
        elif is_kernel(slot):
            fan_in, _ = fans(slot.shape)
            center[slot.place], deviation[slot.place] = 0.0, gain * math.sqrt(2.0 / (fan_in + slot.shape[-1]))
        elif is_bias(slot):
            center[slot.place] = 0.0
    return Distribution(center, deviation, width)


def _bias_widths(network: Network) -> np.ndarray:
    """Return half the width `[P]` of the interval that each bias is drawn from; 0 for all other weights."""
    widths = np.zeros(network.size)
    fan_in: dict[str, int] = {}
    for slot in network.layout.slots:
        if is_kernel(slot):
            fan_in.setdefault(layer_of(slot), fans(slot.shape)[0])
        elif is_bias(slot) and layer_of(slot) in fan_in:
            widths[slot.place] = 1.0 / math.sqrt(fan_in[layer_of(slot)])
    return widths


def layer_of(slot: Slot) -> str:
    """Return the path of the layer, or cell, that a variable belongs to."""
    return slot.path.rsplit("/", 1)[0]


def is_bias(slot: Slot) -> bool:
    """Return whether a variable shifts units."""
    return "bias" in slot.path.rsplit("/", 1)[-1]


def is_kernel(slot: Slot) -> bool:
    """Return whether a variable connects units, as opposed to shifting or scaling them."""
    return len(slot.shape) >= 2 and not is_bias(slot)


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return a kernel's fan in and fan out, as Keras counts them."""
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]
