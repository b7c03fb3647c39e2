"""Draws the weights of the initial population."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    bias by up to 1 / sqrt(fan in) of its layer's first kernel, as PyTorch's layers are initialized. `normal` and
    `uniform` draw all weights alike, with standard deviation or half width `scale`. `model` starts all individuals
    from the model's weights.
    """

    scheme: Init = "xavier-normal"
    scale: float | None = None

    def genomes(self, network: Network, seed: Tensor) -> Tensor:
        """Return genomes `[B, P]` for seeds `[B, 2]`."""
        dtype = network.dtype
        center, spread = self._center_and_spread(network)
        if self.scheme in ("normal", "xavier-normal", "xavier-biased"):
            noise = gaussian(seed, network.size, dtype)
        else:
            noise = tf.cast(2.0 * uniform(seed, network.size) - 1.0, dtype)
        drawn = tf.constant(center, dtype) + tf.constant(spread, dtype) * noise
        if self.scheme != "xavier-biased":
            return drawn
        _, bias_seed = split(seed, 2)
        uniform_noise = tf.cast(2.0 * uniform(bias_seed, network.size) - 1.0, dtype)
        return drawn + tf.constant(_bias_widths(network), dtype) * uniform_noise

    def _center_and_spread(self, network: Network) -> tuple[np.ndarray, np.ndarray]:
        genome, spread = network.genome, np.zeros(network.size)
        if self.scheme == "model":
            return genome, spread
        if self.scheme in ("normal", "uniform"):
            default = 0.01 if self.scheme == "normal" else 0.1
            return np.zeros(network.size), np.full(network.size, default if self.scale is None else self.scale)
        center = genome.copy()
        gain = 1.0 if self.scale is None else self.scale
        for slot in network.layout.slots:
            if is_kernel(slot):
                place = slice(slot.offset, slot.offset + slot.size)
                deviation = gain * math.sqrt(2.0 / sum(fans(slot.shape)))
                center[place] = 0.0
                spread[place] = deviation * (math.sqrt(3.0) if self.scheme == "xavier-uniform" else 1.0)
        return center, spread


def _bias_widths(network: Network) -> np.ndarray:
    """Return half the width `[P]` of the interval that each bias is drawn from; 0 for all other weights."""
    widths = np.zeros(network.size)
    fan_in: dict[str, int] = {}
    for slot in network.layout.slots:
        layer = slot.path.rsplit("/", 1)[0]
        if is_kernel(slot):
            fan_in.setdefault(layer, fans(slot.shape)[0])
        elif is_bias(slot) and layer in fan_in:
            widths[slot.offset : slot.offset + slot.size] = 1.0 / math.sqrt(fan_in[layer])
    return widths


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
