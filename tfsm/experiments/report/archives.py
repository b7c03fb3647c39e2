"""Archives of elites, read from run directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tfsm.errors import TfsmError
from tfsm.experiments.behavior import read_behavior
from tfsm.experiments.outcomes import Method
from tfsm.experiments.record import behavior_file


@dataclass(frozen=True, eq=False)
class Archive:
    """The elites of one run, cell by cell."""

    run: int
    cells: np.ndarray
    """`[M, 2]`: the cells' middles."""
    fitness: np.ndarray
    """`[M]`; minus infinity where nobody is."""
    names: tuple[str, ...]
    """What the two numbers of a behavior are."""

    @cached_property
    def filled(self) -> np.ndarray:
        """Where somebody is: `[M]`."""
        return np.isfinite(self.fitness)

    def raster(self, width: int, height: int) -> tuple[np.ndarray, tuple[float, float, float, float]]:
        """Return the fitness of each pixel's cell `[height, width]`, NaN where nobody is, and its edges.

        The edges are left, right, bottom and top.
        """
        low, high = self.cells.min(axis=0), self.cells.max(axis=0)
        # Half a cell around: middles do not reach the bounds.
        margin = (high - low) / (2.0 * max(1.0, np.sqrt(len(self.cells)) - 1.0))
        (left, bottom), (right, top) = low - margin, high + margin
        x, y = (np.linspace(0.5 / n, 1 - 0.5 / n, n) for n in (width, height))
        place = np.stack(np.meshgrid(left + x * (right - left), bottom + y * (top - bottom)), axis=-1)
        scale = np.array([right - left, top - bottom])
        nearest = np.stack([(((row[:, None] - self.cells) / scale) ** 2).sum(axis=-1).argmin(axis=-1) for row in place])
        return np.where(self.filled, self.fitness, np.nan)[nearest], (left, right, bottom, top)


def archive_of(method: Method) -> Archive | None:
    """Return the archive of the run that filled most cells, where there is one in two dimensions."""
    found = [archive for outcome in method.outcomes if (archive := _read(method, outcome.run)) is not None]
    return max(found, key=lambda archive: int(archive.filled.sum()), default=None)


def _read(method: Method, run: int) -> Archive | None:
    file = None if method.directory is None else behavior_file(method.directory, run)
    if file is None or not file.is_file():
        return None
    kept = read_behavior(file)
    cells = kept.get("cells", np.zeros(0))
    if cells.ndim != 2 or cells.shape[-1] != 2:
        return None
    _check(file, cells, kept)
    fitness, names = kept["fitness"][-1], tuple(map(str, kept["names"]))
    used = np.isfinite(cells).all(axis=1)
    archive = Archive(run, cells[used].astype(np.float64), fitness[used], names)
    return archive if archive.filled.any() else None


def _check(file: Path, cells: np.ndarray, kept: Mapping[str, np.ndarray]) -> None:
    fitness, names = (kept.get(name, np.zeros(0)) for name in ("fitness", "names"))
    numbers = all(table.dtype.kind in "fiu" for table in (cells, fitness))
    fits = fitness.ndim == 2 and len(fitness) > 0 and fitness.shape[1] == len(cells) and names.shape == (2,)
    if not (numbers and fits):
        raise TfsmError(f"{file}: not what a run keeps of its populations: its tables do not go together")
