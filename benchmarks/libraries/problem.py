"""The problem that all libraries solve: the same sequences, the same network, the same initial genomes."""

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
"""The minimum likelihood."""


@dataclass
class TimedCall:
    """A call to measure: it makes and evaluates children, or does one part of that."""

    call: Callable[[], object]
    evaluations: int
    """Children per call."""
    about: str = ""
    heavy: bool = False
    """Whether a call takes seconds, so that it gets no warm-up."""


@dataclass
class LibraryBenchmarks:
    """The calls of a library: its algorithm, the parts of it, and its fitness of given genomes."""

    fitness: Callable[[np.ndarray], np.ndarray]
    whole: dict[str, TimedCall]
    parts: dict[str, TimedCall] = field(default_factory=dict)


def split_points() -> list[int]:
    """Return where a genome is split into the arrays of `SHAPES`."""
    sizes = [int(np.prod(shape)) for shape in SHAPES]
    return [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]


def draw_genomes(count: int) -> np.ndarray:
    """Draw genomes `[count, 1302]`: kernels with Xavier deviation, zero biases."""
    random = np.random.default_rng(0)
    parts = []
    for shape in SHAPES:
        scale = np.sqrt(2.0 / sum(shape)) if len(shape) == 2 else 0.0
        parts.append(scale * random.standard_normal((count, int(np.prod(shape)))))
    return np.concatenate(parts, axis=1).astype(np.float32)


def reference_fitness(genomes: np.ndarray) -> np.ndarray:
    """Return the mean log-likelihood of the correct answers, computed in float64, one genome at a time."""
    fitness = []
    for genome in genomes.astype(np.float64):
        parts = [p.reshape(s) for p, s in zip(np.split(genome, split_points()), SHAPES, strict=True)]
        first = second = np.zeros((16, 20))
        for t in range(4):
            first = np.tanh(BITS[:, t, None] @ parts[0] + first @ parts[1] + parts[2])
            second = np.tanh(first @ parts[3] + second @ parts[4] + parts[5])
        scores = second @ parts[6] + parts[7]
        likelihood = np.exp(scores - scores.max(axis=1, keepdims=True))
        likelihood /= likelihood.sum(axis=1, keepdims=True)
        fitness.append(np.log(np.maximum(likelihood[np.arange(16), ODD], TINY)).mean())
    return np.array(fitness)
