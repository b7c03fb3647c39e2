"""Memory over a million evaluations: a run that goes on and on must not take more and more.

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

from tfsm.utils.tf_startup import import_tensorflow

PERIOD = 0.5


class Watch:
    """Notes the memory of this process while a run goes on."""

    def __init__(self) -> None:
        self.evaluations = 0
        self.seen: list[tuple[float, int, float]] = []
        """Seconds, evaluations, MiB."""
        self._began = time.perf_counter()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def on_progress(self, progress: Any) -> None:
        """Note how far it is."""
        self.evaluations = progress.evaluations

    def close(self) -> None:
        """Look no more."""
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(PERIOD):
            self.seen.append((time.perf_counter() - self._began, self.evaluations, resident_mib()))


def resident_mib() -> float:
    """Return the memory that this process has."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the system does not say how much memory a process has")


def growth(seen: list[tuple[float, int, float]]) -> tuple[float, float]:
    """Return MiB at the end of the first tenth, and MiB more for each 100,000 evaluations from there on."""
    table = np.array(seen)
    later = table[table[:, 1] > 0.1 * table[-1, 1]]
    slope, _ = np.polyfit(later[:, 1], later[:, 2], 1)
    return float(later[0, 2]), float(slope * 100_000)


def draw(seen: list[tuple[float, int, float]], file: Path) -> None:
    """Draw memory against evaluations."""
    import matplotlib.pyplot as plt

    table = np.array(seen)
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
    """Run, and say how the memory went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("results/scaling/soak"))
    given = parser.parse_args()
    import_tensorflow()
    from tfsm import evolve

    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        evolve(
            "parity",
            mutation="sm-g-sum",
            evaluations=given.evaluations,
            out=Path(folder) / "run",
            observers=[watch],
            stop="budget",
            checkpoint_every="10s",
        )
    watch.close()
    start, slope = growth(watch.seen)
    seconds, spent, last = watch.seen[-1]
    words = {"evaluations": spent, "seconds": seconds, "mib_after_a_tenth": start, "mib_at_the_end": last}
    words["mib_per_100000_evaluations"] = slope
    print(json.dumps(words, indent=1))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.with_suffix(".json").write_text(
        json.dumps(words | {"seen": watch.seen[:: max(1, len(watch.seen) // 300)]})
    )
    draw(watch.seen, given.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
