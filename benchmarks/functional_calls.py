"""Calls of `tfsm.functional` on a small network, by the number of genomes, beside `tfsm.mutate` of one model.

    python benchmarks/functional_calls.py

A network of 8-8-8-1 units and 16 experiences, on one core; compiled before it is timed.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from timing import milliseconds, one_core, table

import tfsm

COUNTS = (1, 32, 256)


def main() -> None:
    one_core()
    done = tf.constant(0)
    layers = [keras.layers.Dense(8, "tanh") for _ in range(3)]
    model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    genomes = {count: tfsm.functional.initial(model, count) for count in COUNTS}
    calls = {
        **{
            f"`mutate`, {name}": (lambda own, name=name: tfsm.functional.mutate(model, own, x, name, 0.01))
            for name in ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
        },
        "`sensitivity`": lambda own: tfsm.functional.sensitivity(model, own, x),
        "`divergence`": lambda own: tfsm.functional.divergence(model, own, own, x),
        "`outputs`": lambda own: tfsm.functional.outputs(model, own, x),
    }
    rows = {
        title: list(
            milliseconds(
                {str(n): lambda own=own, call=call: (call(own), done)[1] for n, own in genomes.items()}
            ).values()
        )
        for title, call in calls.items()
    }
    table("tfsm.functional", [f"{count} genome{'s' * (count > 1)}" for count in COUNTS], rows)
    alone = milliseconds({"": lambda: (tfsm.mutate(model, x, "sm-g-abs"), done)[1]})
    print(f"\ntfsm.mutate, sm-g-abs, one model, not compiled: {alone['']:.0f} ms")


if __name__ == "__main__":
    main()
