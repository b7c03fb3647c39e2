"""What all libraries are given: the same sequences, the same network, the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

POPULATION = 250
DEVIATION = 0.05
SHAPES = ((1, 20), (20, 20), (20,), (20, 20), (20, 20), (20,), (20, 2), (2,))
"""Two recurrent tanh layers of 20 (kernel, recurrent kernel, bias), and a softmax over two classes: 1,302 weights."""

WEIGHTS = sum(int(np.prod(shape)) for shape in SHAPES)
BITS = np.array([[int(bit) for bit in f"{number:04b}"] for number in range(16)], np.float32)
"""All sequences `[16, 4]`."""

ODD = BITS.sum(axis=1).astype(int) % 2
TINY = 1e-30
"""No likelihood counts as less."""


@dataclass
class Side:
    """Something to measure: a call that makes and evaluates children, or does one part of that for so many."""

    call: Callable[[], object]
    evaluations: int
    """Children of one call."""
    about: str = ""
    heavy: bool = False
    """Whether one call takes seconds, so that it is not worth a rehearsal."""


@dataclass
class Sides:
    """What a library brings: its algorithm, the parts of its algorithm, and its fitness of given genomes."""

    fitness: Callable[[np.ndarray], np.ndarray]
    whole: dict[str, Side]
    parts: dict[str, Side] = field(default_factory=dict)


def cuts() -> list[int]:
    """Return where a genome is cut into the arrays of `SHAPES`."""
    sizes = [int(np.prod(shape)) for shape in SHAPES]
    return [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]


def initial(count: int) -> np.ndarray:
    """Return genomes `[count, 1302]`: kernels with Xavier's deviation, biases zero."""
    random = np.random.default_rng(0)
    parts = []
    for shape in SHAPES:
        scale = np.sqrt(2.0 / sum(shape)) if len(shape) == 2 else 0.0
        parts.append(scale * random.standard_normal((count, int(np.prod(shape)))))
    return np.concatenate(parts, axis=1).astype(np.float32)


def reference_fitness(genomes: np.ndarray) -> np.ndarray:
    """Return the mean log-likelihood of the right answers, computed in float64, one genome after another."""
    found = []
    for genome in genomes.astype(np.float64):
        parts = [p.reshape(s) for p, s in zip(np.split(genome, cuts()), SHAPES, strict=True)]
        first = second = np.zeros((16, 20))
        for t in range(4):
            first = np.tanh(BITS[:, t, None] @ parts[0] + first @ parts[1] + parts[2])
            second = np.tanh(first @ parts[3] + second @ parts[4] + parts[5])
        scores = second @ parts[6] + parts[7]
        likelihood = np.exp(scores - scores.max(axis=1, keepdims=True))
        likelihood /= likelihood.sum(axis=1, keepdims=True)
        found.append(np.log(np.maximum(likelihood[np.arange(16), ODD], TINY)).mean())
    return np.array(found)
