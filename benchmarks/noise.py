"""Normal random numbers for a batch of genomes: tfsm's Threefry against TensorFlow's own stateless generator.

    python benchmarks/noise.py

Each of 20 genomes has a seed of its own, and gets as many numbers as the parity network has weights, on one core.
"""

from __future__ import annotations

import tensorflow as tf
from timing import milliseconds, one_core, table

from tfsm.interfaces import Tensor
from tfsm.kernels.random import fold_in, gaussian, root_seed

GENOMES, WEIGHTS = 20, 1302


def threefry(seeds: Tensor) -> Tensor:
    return gaussian(seeds, WEIGHTS)


def stateless(seeds: Tensor) -> Tensor:
    # A seed for each genome: the noise must not depend on who shares the batch.
    return tf.stack([tf.random.stateless_normal([WEIGHTS], seeds[i]) for i in range(GENOMES)])


def stateless_one_seed(seeds: Tensor) -> Tensor:
    return tf.random.stateless_normal([GENOMES, WEIGHTS], seeds[0])


def main() -> None:
    one_core()
    seeds = fold_in(root_seed(0), tf.range(GENOMES))  # [B, 2]
    rows = {}
    for title, draw in {
        "tfsm, a seed for each genome": threefry,
        "tf.random.stateless_normal, a seed for each genome": stateless,
        "tf.random.stateless_normal, one seed for all": stateless_one_seed,
    }.items():
        compiled = {
            way: tf.function(draw, jit_compile=jit, autograph=False) for way, jit in (("XLA", True), ("graph", False))
        }
        rows[title] = list(milliseconds({way: lambda f=f: f(seeds) for way, f in compiled.items()}).values())
    table(f"{GENOMES} x {WEIGHTS:,} normal numbers", ["XLA", "graph"], rows)


if __name__ == "__main__":
    main()
