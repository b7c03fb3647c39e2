"""How safe mutations are in the hard maze's large networks, depending on choices that the paper does not state.

    python -m benchmarks.large_networks

Children of initial networks of `hard-maze-32`, at the paper's intensities. The table contains the median divergence of
the children from their parents, on 100 sensor readings of robots in the hard maze.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import environment

PARENTS = 6
LIMITS = (None, 0.2, 0.05, 0.01)
"""Limits of the change of a weight."""
SCHEMES: tuple[tuple[Any, float | None], ...] = (
    ("xavier-normal", None),
    ("xavier-pytorch", None),
    ("xavier-pytorch", 0.5),
    ("uniform", 125**-0.5),
)
"""Initial weights, and their scale."""


def main() -> None:
    """Measure, and print one table."""
    environment.use_one_core()
    from rich.console import Console
    from rich.table import Table

    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    measure = make_measurement()
    table = Table("initial weights", "child by", "limit", "divergence", "weights at the limit")
    for scheme, scale in SCHEMES:
        for row in measure(scheme, scale):
            table.add_row(scheme if scale is None else f"{scheme}, scale {scale:.2g}", *row)
    Console(width=120).print(table)


def make_measurement() -> Callable[[Any, float | None], list[tuple[str, str, str, str]]]:
    """Return a function from initial weights to rows of the table."""
    import numpy as np
    import tensorflow as tf

    from tfsm.evolution.initialization import Initializer
    from tfsm.kernels.random import fold_in, root_seed
    from tfsm.kernels.sensitivity import divergence
    from tfsm.models.network import Network
    from tfsm_domains.hard_maze.domain import HardMaze, HardMaze32
    from tfsm_plugins.mutations.gradient import SafeMutationSecondOrder, SafeMutationSum

    # Robots of the small network, which takes seconds to compile.
    small = HardMaze()
    small_network = Network(small.network())
    seeds = fold_in(root_seed(7), 0, tf.range(PARENTS))
    seen = small.evaluate(small_network, Initializer("xavier-pytorch").genomes(small_network, seeds), seeds).experience
    network = Network(HardMaze32().network())
    noise = network.noise(seeds)  # [B, P]
    outputs = tf.function(network.rows, autograph=False)
    operators = {"sm-g-sum": (SafeMutationSum(), 0.1), "sm-g-so": (SafeMutationSecondOrder(), 0.01)}
    sensitivities = {
        name: tf.function(
            lambda genomes, seen, direction, operator=operator: operator.sensitivity(network, genomes, seen, direction),
            autograph=False,
        )
        for name, (operator, _) in operators.items()
    }

    def measure(scheme: Any, scale: float | None) -> list[tuple[str, str, str, str]]:
        parents = Initializer(scheme, scale).genomes(network, seeds)
        before = outputs(parents, seen)

        def make_row(title: str, change: Any, limit: float | None) -> tuple[str, str, str, str]:
            clipped = change if limit is None else tf.clip_by_value(change, -limit, limit)
            moved = float(np.median(divergence(before, outputs(parents + clipped, seen))))
            share = "" if limit is None else f"{np.mean(np.abs(change) > limit):.0%}"
            return title, "none" if limit is None else f"{limit:g}", f"{moved:.3g}", share

        rows = [make_row("control 0.01", 0.01 * noise, None)]
        direction = noise / tf.norm(noise, axis=-1, keepdims=True)
        for name, (_, intensity) in operators.items():
            sensitivity = sensitivities[name](parents, seen, direction).numpy()
            guarded = np.where(sensitivity == 0, 1.0, np.maximum(sensitivity, 0.01))
            rows += [make_row(f"{name} {intensity:g}", intensity * noise / guarded, limit) for limit in LIMITS]
            if name == "sm-g-sum":
                # The sum grows with the number of experiences.
                more = np.maximum(4 * sensitivity, 0.01)
                rows.append(make_row(f"{name} {intensity:g}, 400 experiences", intensity * noise / more, 0.2))
                floor = np.maximum(sensitivity, 1.0)
                rows.append(make_row(f"{name} {intensity:g}, floor 1", intensity * noise / floor, None))
        return rows

    return measure


if __name__ == "__main__":
    main()
