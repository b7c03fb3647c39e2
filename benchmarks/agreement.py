"""That the plain loops compute what tfsm computes: the same fitness of the same genome, the same sensitivity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from benchmarks.engines import settings_of
from benchmarks.plain.eager import Eager
from benchmarks.plain.graph import Graph
from tfsm.evolution.engine import Engine
from tfsm.interfaces import Domain, Mutation, Tensor
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.settings import Settings

Loop: TypeAlias = Eager | Graph

GENOMES = 3
TOLERANCE = 1e-3
"""float32, summed in different orders through a recurrent network."""


def check(domain: str, operator: str, engine: Engine, loops: Mapping[str, Loop]) -> dict[str, float]:
    """Return the largest relative differences from tfsm, and refuse to compare speeds where they are too large."""
    plugins, settings = load_plugins(), settings_of(domain, operator, 1)
    part = build_part(plugins.domains[domain], settings.domain_options)
    mutation = build_part(plugins.mutations[operator], settings.mutation_options)
    genomes = engine.state.genomes[0, :GENOMES]  # [G, P]
    found: dict[str, float] = {}
    for genome in tf.unstack(genomes):
        for what, difference in _differences(part, mutation, settings, engine.network, genome, loops).items():
            found[what] = max(difference, found.get(what, 0.0))
    for what, difference in found.items():
        most = settings.mutation_options["tolerance"] * 1.01 if what.endswith("divergence") else TOLERANCE
        if not difference <= most:
            raise AssertionError(f"{domain}, {operator}, {what} differs from tfsm's by {difference:.2g}")
    return found


def _differences(
    part: Domain, mutation: Mutation, settings: Settings, network: Network, genome: Tensor, loops: Mapping[str, Loop]
) -> dict[str, float]:
    own = genome.numpy()
    direction = np.random.default_rng(0).standard_normal(own.size).astype(np.float32)
    direction /= np.linalg.norm(direction)
    fitness = np.array(part.evaluate(network, genome[None], tf.zeros([1, 2], tf.int32)).fitness[0])
    sensitivity = None
    if hasattr(mutation, "sensitivity"):
        sensitivity = mutation.sensitivity(network, genome[None], part.observe(()), tf.constant(direction[None]))[0]
    found: dict[str, float] = {}
    for name, loop in loops.items():
        found[f"{name}: fitness"] = _difference(np.array(loop.fitness(own)), fitness)
        if sensitivity is not None:
            found[f"{name}: sensitivity"] = _difference(loop.sensitivity(own, direction), sensitivity.numpy())
        if settings.mutation == "sm-r":
            found[f"{name}: divergence"] = _difference(_reached(loop, own), np.array(settings.intensity))
    return found


def _reached(loop: Loop, genome: np.ndarray) -> np.ndarray:
    """Return the divergence of a child of SM-R."""
    child, _ = loop.reproduce(genome)
    moved = np.asarray(loop.outputs(genome)) - np.asarray(loop.outputs(child))
    return (moved**2).sum(axis=1).mean()


def _difference(theirs: np.ndarray, mine: np.ndarray) -> float:
    """Return the largest difference, in parts of the largest value."""
    return float(np.abs(theirs - mine).max() / max(np.abs(mine).max(), 1e-30))
