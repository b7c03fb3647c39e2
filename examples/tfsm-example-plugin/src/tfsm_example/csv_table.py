"""The observer, which does not need TensorFlow."""

import csv
from pathlib import Path
from typing import Any

from tfsm import Observer, TfsmError
from tfsm.evolution.observers import ExperimentInfo, Interval

from tfsm_example.options import CsvOptions


class CsvTable(Observer):
    """Writes some of the metrics to `metrics.csv` in the run directory."""

    def __init__(self, **options: Any) -> None:
        self.options = CsvOptions(**options)
        self._path: Path | None = None

    def on_experiment_start(self, experiment: ExperimentInfo) -> None:
        """Write the header."""
        if experiment.directory is None:
            raise TfsmError("the table is written to the run directory, but this run has none: pass out=...")
        self._path = experiment.directory / "metrics.csv"
        self._write([dict(zip(self.options.columns, self.options.columns, strict=True))])

    def on_interval(self, interval: Interval) -> None:
        """Append a row."""
        self._write([interval.metrics])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        if self._path is not None:
            with self._path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self.options.columns, extrasaction="ignore").writerows(rows)
