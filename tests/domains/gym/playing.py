"""Helpers for tests with the configurable environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.domains.gym.made import NAME
from tfsm.models.network import Network
from tfsm_domains.gym.domain import Gym


def make_domain(**options: Any) -> Gym:
    """Return a small domain that is quick to evaluate."""
    return Gym(**{"env": NAME, "episodes": 1, "confirm": 0, "layers": 1, "units": 4, **options})


def seeds(*numbers: int) -> np.ndarray:
    return np.array([[number, -7] for number in numbers], np.int32)


def make_constant_genome(network: Network, *outputs: float) -> np.ndarray:
    """Return a genome `[1, P]` whose outputs do not depend on the inputs."""
    genome = np.zeros([1, network.size], np.float32)
    genome[0, -len(outputs) :] = outputs  # the last layer's biases
    return genome


def draw_genomes(network: Network, count: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, network.size)).astype(np.float32)


def compute_fitness(domain: Gym, number: int = 1) -> float:
    """Return the fitness of a genome of zeros, in the evaluation with this seed."""
    network = Network(domain.network())
    return float(domain.evaluate(network, np.zeros([1, network.size], np.float32), seeds(number)).fitness[0])


def compute_rows(network: Network, genomes: np.ndarray, inputs: Any) -> np.ndarray:
    """Return output rows `[B, I, K]`."""
    tensors = tf.nest.map_structure(tf.convert_to_tensor, inputs)
    return np.asarray(network.rows(tf.constant(genomes), tensors))
