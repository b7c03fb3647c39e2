"""Event files for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfsm.errors import TfsmError
from tfsm.extras import optional
from tfsm_observers.events import EventFiles
from tfsm_observers.options import TensorBoardOptions

if TYPE_CHECKING:
    from tfsm.evolution.records import Experiment, RunResult, Status

_TAGS: Final = {
    "best_fitness": "fitness/best",
    "mean_fitness": "fitness/mean",
    "divergence": "divergence/mean",
    "better": "children/better",
    "neutral": "children/neutral",
    "broken": "children/broken",
}
_QUARTILES: Final = ("min", "q25", "median", "q75", "max")
_SPREAD: Final = ("q05", "median", "q95")


@dataclass(frozen=True, kw_only=True)
class TensorBoard(TensorBoardOptions):
    """Writes every run's metrics as scalars, and weights and sensitivities as histograms; the step is evaluations."""

    _files: EventFiles = field(default_factory=EventFiles, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Before the run: whoever asked for it should not find out in the morning that it was missing.
        optional("tensorboard", extra="tensorboard", purpose="the observer 'tensorboard'")

    def started(self, experiment: Experiment) -> None:
        """Find out where to write."""
        if self.directory is None and experiment.directory is None:
            raise TfsmError("there is no run directory to write to: set tensorboard.directory")
        base = Path(self.directory) if self.directory is not None else Path(experiment.directory or "", "tensorboard")
        if base.is_dir() and any(base.iterdir()):
            raise TfsmError(f"{base}: already there, and two experiments would be one to TensorBoard")
        self._files.open(base, experiment.layers)

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Write the metrics of each run."""
        for line in metrics:
            self._files.scalars(line["run"], line["evaluations"], dict(_scalars(line)))

    def sensitivity(self, run: int, evaluations: int, values: np.ndarray) -> None:
        """Draw how sensitive each layer's weights are."""
        if self.histograms:
            self._files.histograms(run, evaluations, "sensitivity", values)

    def best(self, run: int, evaluations: int, fitness: float, genome: np.ndarray) -> None:
        """Draw the weights of each layer."""
        if self.histograms:
            self._files.histograms(run, evaluations, "weights", genome)

    def finished(self, result: RunResult) -> None:
        """Close the run's file."""
        self._files.close(result.run)

    def ended(self, status: Status) -> None:
        """Close all files."""
        self._files.close()


def _scalars(line: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Give each number of a metrics line a tag; what is not known has none."""
    for name, value in line.items():
        if name in ("run", "evaluations") or value is None:
            continue
        if name == "divergence_quantiles":
            yield from _known(name="divergence", keys=_QUARTILES, values=value)
        elif name == "sensitivity" and isinstance(value, dict):
            for layer, quantiles in value.items():
                yield from _known(name=f"sensitivity/{layer}", keys=_SPREAD, values=quantiles)
        else:
            yield _TAGS.get(name, f"operator/{name}"), value


def _known(name: str, keys: tuple[str, ...], values: list[float | None]) -> Iterator[tuple[str, float]]:
    for key, value in zip(keys, values, strict=True):
        if value is not None:
            yield f"{name}/{key}", value
