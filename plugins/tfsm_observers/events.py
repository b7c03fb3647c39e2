"""One event file for each run, written without waiting for the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from tfsm.models.sections import Section

FLUSH_MILLISECONDS = 10_000
"""Somebody may be watching."""


class EventFiles:
    """Writes event files of all runs of one experiment, each in a folder of its own."""

    def __init__(self) -> None:
        self._base = Path()
        self._layers: Sequence[Section] = ()
        self._writers: dict[int, Any] = {}

    def open(self, base: Path, layers: Sequence[Section]) -> None:
        """Say where the files go, and which weights belong to which layer."""
        self._base, self._layers = base, layers

    def scalars(self, run: int, step: int, values: dict[str, float]) -> None:
        """Write numbers by tag."""
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb

        self._write(run, step, [scalar_pb(tag, value) for tag, value in values.items()])

    def histograms(self, run: int, step: int, group: str, values: np.ndarray) -> None:
        """Write a histogram of each layer's values, of values `[P]`; what is not finite is left out."""
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
        # All of a step in one record: a call of tf.summary for each number takes several times as long.
        whole = summaries[0]
        for summary in summaries[1:]:
            whole.MergeFrom(summary)
        with self._writer(run).as_default():
            tf.summary.experimental.write_raw_pb(whole.SerializeToString(), step=step)

    def _writer(self, run: int) -> Any:
        if run not in self._writers:
            folder = str(self._base / f"run-{run:03d}")
            self._writers[run] = tf.summary.create_file_writer(folder, flush_millis=FLUSH_MILLISECONDS)
        return self._writers[run]
