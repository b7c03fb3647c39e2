"""The observer `tensorboard`: event files with metrics and histograms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError, import_optional
from tfsm.interfaces import Observer
from tfsm_plugins.observers import TensorBoardOptions

if TYPE_CHECKING:
    from tfsm.evolution.observers import ExperimentInfo, Interval, RunResult, Status
    from tfsm.models.genome import Section


FLUSH_MILLISECONDS = 10_000
"""Short enough to watch a run live."""


class EventFiles:
    """Writes the event files of an experiment, one folder per run."""

    def __init__(self) -> None:
        self._base = Path()
        self._layers: Sequence[Section] = ()
        self._writers: dict[int, Any] = {}

    def open(self, base: Path, layers: Sequence[Section]) -> None:
        """Set the folder of the files and the layers of a genome."""
        self._base, self._layers = base, layers

    def scalars(self, run: int, step: int, values: dict[str, float]) -> None:
        """Write numbers by tag."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        self._write(run, step, [scalar_pb(tag, value) for tag, value in values.items()])

    def histograms(self, run: int, step: int, group: str, values: np.ndarray) -> None:
        """Write a histogram per layer of values `[P]`; values that are not finite are left out."""
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb

        parts = {layer.name: layer.of(values) for layer in self._layers}
        finite = {name: part[np.isfinite(part)] for name, part in parts.items()}
        self._write(run, step, [histogram_pb(f"{group}/{name}", part) for name, part in finite.items() if part.size])

    def close(self, run: int | None = None) -> None:
        """Close a run's file, or all of them."""
        for each in [run] if run is not None else list(self._writers):
            writer = self._writers.pop(each, None)
            if writer is not None:
                writer.close()

    def _write(self, run: int, step: int, summaries: list[Any]) -> None:
        if not summaries:
            return
        # One record per step: calling tf.summary for each number takes several times as long.
        merged = summaries[0]
        for summary in summaries[1:]:
            merged.MergeFrom(summary)
        with self._writer(run).as_default():
            tf.summary.experimental.write_raw_pb(merged.SerializeToString(), step=step)

    def _writer(self, run: int) -> Any:
        if run not in self._writers:
            folder = str(self._base / f"run-{run:03d}")
            self._writers[run] = tf.summary.create_file_writer(folder, flush_millis=FLUSH_MILLISECONDS)
        return self._writers[run]


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
class TensorBoard(TensorBoardOptions, Observer):
    """Write every run's metrics as scalars, and weights and sensitivities as histograms; the step is evaluations."""

    _files: EventFiles = field(default_factory=EventFiles, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Check before the run, not after hours of it.
        import_optional("tensorboard", extra="tensorboard", purpose="the observer 'tensorboard'")

    def on_experiment_start(self, experiment: ExperimentInfo) -> None:
        """Choose the directory."""
        if self.directory is None and experiment.directory is None:
            raise TfsmError("there is no run directory to write to: set tensorboard.directory")
        base = Path(self.directory) if self.directory is not None else Path(experiment.directory or "", "tensorboard")
        if base.is_dir() and any(base.iterdir()):
            raise TfsmError(f"{base}: already exists; TensorBoard would show two experiments as one")
        self._files.open(base, experiment.layers)

    def on_interval(self, interval: Interval) -> None:
        """Write the run's metrics, and histograms of the champion's weights and a parent's sensitivities."""
        run, step = interval.run, interval.evaluations
        self._files.scalars(run, step, dict(_scalars(interval.metrics)))
        if self.histograms and interval.sensitivity is not None:
            self._files.histograms(run, step, "sensitivity", interval.sensitivity)
        if self.histograms and interval.champion is not None:
            self._files.histograms(run, step, "weights", interval.champion.genome)

    def on_run_end(self, result: RunResult) -> None:
        """Close the run's file."""
        self._files.close(result.run)

    def on_experiment_end(self, status: Status) -> None:
        """Close all files."""
        self._files.close()


def _scalars(line: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Return each known number of a metrics line with its tag."""
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
