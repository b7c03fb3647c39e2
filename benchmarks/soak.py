"""Memory use over a million evaluations: it must not grow.

python -m benchmarks.soak [--evaluations 1000000] [--out results/scaling/soak]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from tfsm.interfaces import Observer
from tfsm.utils.tf_startup import import_tensorflow

PERIOD = 0.5


class MemoryObserver(Observer):
    """Records the memory of this process during a run."""

    def __init__(self) -> None:
        self.evaluations = 0
        self.samples: list[tuple[float, int, float]] = []
        """Seconds, evaluations, MiB."""
        self._start = time.perf_counter()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)
        self._thread.start()

    def on_progress(self, progress: Any) -> None:
        """Record the progress."""
        self.evaluations = progress.evaluations

    def close(self) -> None:
        """Stop recording."""
        self._end.set()
        self._thread.join()

    def _record(self) -> None:
        while not self._end.wait(PERIOD):
            self.samples.append((time.perf_counter() - self._start, self.evaluations, read_resident_mib()))


def read_resident_mib() -> float:
    """Return the resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not report the memory of a process")


def fit_growth(samples: list[tuple[float, int, float]]) -> tuple[float, float]:
    """Return MiB after the first tenth, and the growth in MiB per 100,000 evaluations after that."""
    table = np.array(samples)
    later = table[table[:, 1] > 0.1 * table[-1, 1]]
    slope, _ = np.polyfit(later[:, 1], later[:, 2], 1)
    return float(later[0, 2]), float(slope * 100_000)


def plot_memory(samples: list[tuple[float, int, float]], file: Path) -> None:
    """Plot memory over evaluations."""
    import matplotlib.pyplot as plt

    table = np.array(samples)
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    axes.plot(table[:, 1] / 1000, table[:, 2], linewidth=1.2, color="#1f6fb2")
    axes.set(
        xlabel="evaluations, thousands",
        ylabel="resident memory, MiB",
        ylim=(0, 1.2 * table[:, 2].max()),
        xlim=(0, None),
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)


def main() -> None:
    """Run, and report the memory use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("results/scaling/soak"))
    arguments = parser.parse_args()
    import_tensorflow()
    from tfsm import evolve

    observer = MemoryObserver()
    with tempfile.TemporaryDirectory() as folder:
        evolve(
            "parity",
            mutation="sm-g-sum",
            evaluations=arguments.evaluations,
            out=Path(folder) / "run",
            observers=[observer],
            stop="budget",
            checkpoint_every="10s",
        )
    observer.close()
    start, slope = fit_growth(observer.samples)
    seconds, evaluations, last = observer.samples[-1]
    summary = {"evaluations": evaluations, "seconds": seconds, "mib_after_a_tenth": start, "mib_at_the_end": last}
    summary["mib_per_100000_evaluations"] = slope
    print(json.dumps(summary, indent=1))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.with_suffix(".json").write_text(
        json.dumps(summary | {"seen": observer.samples[:: max(1, len(observer.samples) // 300)]})
    )
    plot_memory(observer.samples, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
