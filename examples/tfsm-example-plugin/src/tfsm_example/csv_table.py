"""The observer, which needs no TensorFlow."""

import csv
from pathlib import Path
from typing import Any

from tfsm import TfsmError

from tfsm_example.options import CsvOptions


class CsvTable:
    """Writes some of the metrics to `metrics.csv` in the run directory."""

    def __init__(self, **options: Any) -> None:
        self.options = CsvOptions(**options)
        self._path: Path | None = None

    def started(self, experiment: Any) -> None:
        """Begin the table."""
        if experiment.directory is None:
            raise TfsmError("the table is written to the run directory, and there is none: give the run one (out=...)")
        self._path = experiment.directory / "metrics.csv"
        self._write([dict(zip(self.options.columns, self.options.columns, strict=True))])

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Add a row for each run."""
        self._write(metrics)

    def _write(self, rows: list[dict[str, Any]]) -> None:
        if self._path is not None:
            with self._path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self.options.columns, extrasaction="ignore").writerows(rows)
