"""Ways to convolve pictures with filters of each genome's own: the core of the pixel mazes' network.

    python benchmarks/convolutions.py [GENOMES]
    TF_ENABLE_ONEDNN_OPTS=1 python benchmarks/convolutions.py [GENOMES]

Milliseconds of one genome on one core: forward over 15 pictures, and five backward passes, one for each output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import tensorflow as tf
from timing import milliseconds, one_core, table

from tfsm.interfaces import Tensor
from tfsm.models.rules.convolution import extract_patches

Run = Callable[[Tensor, list[Tensor]], Tensor]

PICTURES, MAPS, OUTPUTS = 15, 12, 5
LAYERS = [(5, 2, 1), (5, 2, MAPS), *[(3, 1, MAPS)] * 12]
"""Window, stride and maps that go in."""


def by_patches(x: Tensor, filters: list[Tensor]) -> Tensor:
    for (window, stride, _), own in zip(LAYERS, filters, strict=True):
        seen = extract_patches(x, (window, window), (stride, stride), (1, 1), "same")
        rows = tf.reshape(seen, [seen.shape[0], -1, seen.shape[-1]])
        z = tf.matmul(rows, tf.reshape(own, [own.shape[0], -1, MAPS]))
        x = tf.nn.selu(tf.reshape(z, [z.shape[0], *seen.shape[1:-1], MAPS]))
    return tf.reduce_mean(x, [2, 3])


def in_groups(x: Tensor, filters: list[Tensor]) -> Tensor:
    genomes = filters[0].shape[0]
    x = tf.repeat(x[0], genomes, axis=-1)
    for (window, stride, _), own in zip(LAYERS, filters, strict=True):
        wide = tf.reshape(tf.transpose(own, [1, 2, 3, 0, 4]), [window, window, own.shape[-2], -1])
        x = tf.nn.selu(tf.nn.conv2d(x, wide, stride, "SAME"))
    return tf.transpose(tf.reshape(tf.reduce_mean(x, [1, 2]), [-1, genomes, MAPS]), [1, 0, 2])


def lane_by_lane(x: Tensor, filters: list[Tensor]) -> Tensor:
    found = []
    for own in zip(*map(tf.unstack, filters), strict=True):
        seen = x[0]
        for (_, stride, _), kernel in zip(LAYERS, own, strict=True):
            seen = tf.nn.selu(tf.nn.conv2d(seen, kernel, stride, "SAME"))
        found.append(tf.reduce_mean(seen, [1, 2]))
    return tf.stack(found)


def main() -> None:
    one_core()
    genomes = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    x = tf.random.stateless_normal([1, PICTURES, 64, 64, 1], [0, 0])
    filters = [
        0.1 * tf.random.stateless_normal([genomes, w, w, maps, MAPS], [i, 1]) for i, (w, _, maps) in enumerate(LAYERS)
    ]
    rows = {}
    for title, run in {"patches": by_patches, "groups": in_groups, "lane by lane": lane_by_lane}.items():

        def backward(x: Tensor, filters: list[Tensor], run: Run = run) -> Tensor:
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(filters)
                found = run(x, filters)
                outputs = [tf.reduce_sum(tf.sin((k + 1.0) * found)) for k in range(OUTPUTS)]
            gradients = [tape.gradient(output, filters) for output in outputs]
            return tf.add_n([tf.reduce_sum(tf.square(part)) for parts in gradients for part in parts])

        for way, jit in (("graph", False), ("XLA", True)):
            sides = {}
            for what, function in (("forward", run), ("backward", backward)):
                if title == "groups" and what == "backward":
                    continue  # TensorFlow has none on a CPU, and XLA's takes a hundred times as long
                compiled = tf.function(function, jit_compile=jit, autograph=False)
                sides[what] = lambda compiled=compiled: compiled(x, filters)
            taken = milliseconds(sides)
            rows[f"{title}, {way}"] = [
                None if ms is None else ms / genomes for ms in (taken.get("forward"), taken.get("backward"))
            ]
    table(f"{genomes} genomes, {PICTURES} pictures", ["forward", "backward"], rows)


if __name__ == "__main__":
    main()
