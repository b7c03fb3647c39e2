"""A population in NumPy, and the two selection schemes, for the plain loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Population:
    """Genomes with their fitness.

    Args:
        genomes: `[N, P]`.
        fitness: `[N]`.
        selection: "tournament" or "hill-climber".
    """

    def __init__(self, genomes: np.ndarray, fitness: np.ndarray, selection: str) -> None:
        self.genomes, self.fitness = genomes.copy(), fitness.copy()
        self._climbs = selection == "hill-climber"
        self._random = np.random.default_rng(0)

    def advance(self, reproduce: Callable[[np.ndarray], tuple[np.ndarray, float]]) -> None:
        """Choose a parent, let it reproduce, and put the child in its place."""
        parent, leaves = (0, 0) if self._climbs else self._tournaments()
        child, fitness = reproduce(self.genomes[parent])
        if not self._climbs or fitness > self.fitness[0]:
            self.genomes[leaves], self.fitness[leaves] = child, fitness

    def _tournaments(self) -> tuple[int, int]:
        """Return the best of five, and the worst of five others."""
        first, second = (self._random.choice(len(self.fitness), 5, replace=False) for _ in range(2))
        return first[self.fitness[first].argmax()], second[self.fitness[second].argmin()]
