"""Layers by their rules beside the same layers mapped over the genomes, both in one run.

    python benchmarks/layer_rules.py [GENOMES]

Milliseconds of one call for all genomes on one core, with 20 experiences: outputs, and sensitivities of sm-g-abs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import keras
import tensorflow as tf
from keras import layers as kl
from timing import milliseconds, one_core, table

from tfsm.kernels.sensitivity import abs_sensitivity
from tfsm.models import program
from tfsm.models.network import Network
from tfsm.models.rules import rule_for

EXPERIENCES = 20
SEQUENCE, PICTURE = (12, 8), (8, 8, 4)

MODELS: dict[str, tuple[tuple[int, ...], Callable[[], list[Any]]]] = {
    "BatchNormalization": (PICTURE, lambda: [kl.Conv2D(8, 3), kl.BatchNormalization(), kl.Flatten(), kl.Dense(2)]),
    "LayerNormalization": (SEQUENCE, lambda: [kl.Dense(16), kl.LayerNormalization(), kl.Flatten(), kl.Dense(2)]),
    "GroupNormalization": (PICTURE, lambda: [kl.Conv2D(8, 3), kl.GroupNormalization(2), kl.Flatten(), kl.Dense(2)]),
    "PReLU": (SEQUENCE, lambda: [kl.Dense(16), kl.PReLU(), kl.Flatten(), kl.Dense(2)]),
    "Bidirectional": (SEQUENCE, lambda: [kl.Bidirectional(kl.LSTM(8)), kl.Dense(2)]),
}


def main() -> None:
    one_core()
    genomes = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    rows = {}
    for kind, (shape, layers) in MODELS.items():
        model = keras.Sequential([keras.Input(shape), *layers()])
        x = tf.random.stateless_normal([1, EXPERIENCES, *shape], [0, 0])
        sides: dict[str, Callable[[], Any]] = {}
        for way in ("rule", "mapped"):
            hidden = (lambda layer, kind=kind: None if type(layer).__name__ == kind else rule_for(layer), rule_for)
            with mock.patch.object(program, "rule_for", hidden[way == "rule"]):
                network = Network(model)
                own = network.genome + 0.1 * tf.random.stateless_normal([genomes, network.size], [1, 2])
                outputs = tf.function(network.rows, autograph=False).get_concrete_function(own, x)
                measured = tf.function(lambda g, x, n=network: abs_sensitivity(n, g, x), autograph=False)
                sensitivities = measured.get_concrete_function(own, x)
            sides[f"outputs, {way}"] = lambda run=outputs, own=own, x=x: run(own, x)
            sides[f"sm-g-abs, {way}"] = lambda run=sensitivities, own=own, x=x: run(own, x)
        taken = milliseconds(sides)
        rows[kind] = [taken[side] for side in sides]
    table(f"{genomes} genomes, {EXPERIENCES} experiences", list(sides), rows)


if __name__ == "__main__":
    main()
