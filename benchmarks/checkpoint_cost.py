"""The cost of checkpoints: one run in which periods with and without a checkpoint alternate.

A period is as long as the time between two checkpoints with `--checkpoint-every 10s`. Both kinds alternate in the same
process, so that other load on the machine affects both alike.

python -m benchmarks.checkpoint_cost [--turns 6] [--out results/scaling/checkpoint-cost.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from bisect import bisect_left
from pathlib import Path
from typing import Any

from tfsm.interfaces import Observer
from tfsm.utils.tf_startup import import_tensorflow

CASES: dict[str, dict[str, Any]] = {
    "parity, 20 runs": {"domain": "parity", "mutation": "sm-g-sum", "runs": 20},
    "hard-maze, 20 runs": {"domain": "hard-maze", "mutation": "sm-g-sum", "runs": 20},
    "hard-maze-64, 2 runs": {"domain": "hard-maze-64", "mutation": "control", "runs": 2},
}
MAX_SECONDS = 480.0
"""Maximum seconds per case. A large state is written rarely, and then there are fewer periods."""


class CheckpointTurns(Observer):
    """Observes a run in which every other checkpoint is left out.

    Args:
        count: the number of periods with a checkpoint; there are as many without.
    """

    def __init__(self, count: int) -> None:
        self._count, self._start = count, time.perf_counter()
        self.samples: list[tuple[float, int]] = []
        """Times, and the evaluations at these times."""
        self.marks: list[tuple[float, float, float, int]] = []
        """Start, duration, seconds until the next one would be due, and bytes of each checkpoint."""

    def on_progress(self, progress: Any) -> None:
        """Record the progress."""
        if progress.phase == "evolving":
            self.samples.append((time.perf_counter(), progress.evaluations))

    def is_done(self) -> bool:
        """Return whether there were enough periods, or the time is up. The last one must be complete."""
        if time.perf_counter() - self._start > MAX_SECONDS and len(self.marks) > 2:
            return True
        return len(self.marks) > self._count + 1

    @property
    def complete(self) -> list[tuple[float, float, float, int]]:
        """The checkpoints that were followed by a complete period of each kind.

        Without the first, which includes one-time work such as making the directory, and without the last two, because
        the run ended then, and an interrupted run writes one more.
        """
        return self.marks[1:-2]

    def costs(self) -> list[float]:
        """Return by how much each period with a checkpoint was slower than the one without that followed it."""
        costs = []
        for (begin, _, period, _), (following, *_) in zip(self.complete, self.marks[2:], strict=False):
            # From the checkpoint to where the next would have been due, and from there to the next that was written.
            start, middle, end = self._at(begin, begin), self._at(begin + period), self._at(following, following)
            costs.append(1.0 - _rate(start, middle) / _rate(middle, end))
        return costs

    def share(self) -> float:
        """Return the median share of a period that was used for writing a checkpoint."""
        return statistics.median(seconds / period for _, seconds, period, _ in self.complete)

    def _at(self, moment: float, start: float | None = None) -> tuple[float, int]:
        """Return the time of the first sample from a moment on, and its evaluations.

        A checkpoint is written before the progress is reported. `start` is then the time when evaluating paused.
        """
        when, evaluations = self.samples[min(bisect_left(self.samples, (moment, 0)), len(self.samples) - 1)]
        return when if start is None else start, evaluations


def _rate(start: tuple[float, int], end: tuple[float, int]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])


def run_case(case: dict[str, Any], turns: int) -> CheckpointTurns:
    """Run a case, and return what was observed."""
    from tfsm.evolution.checkpoint_schedule import CheckpointSchedule
    from tfsm.plugins import load_plugins
    from tfsm.runs.checkpoints import CheckpointFiles
    from tfsm.runs.runner import run_experiment
    from tfsm.settings import resolve

    plugins, watch = load_plugins(), CheckpointTurns(turns)
    flags = {"runs": case["runs"], "evaluations": 10_000_000, "checkpoint_every": "10s"}
    resolved = resolve(plugins, domain=case["domain"], mutation=case["mutation"], overrides=flags, sets=["stop=budget"])
    write, record = CheckpointFiles.save, CheckpointSchedule.record
    size = [0]

    def write_and_measure(self: CheckpointFiles, *arguments: Any, **options: Any) -> None:
        write(self, *arguments, **options)
        size[0] = max((file.stat().st_size for file in self._folder.glob("*")), default=0)

    def skip_every_other(self: CheckpointSchedule, evaluations: int, seconds: float) -> None:
        record(self, evaluations, seconds)
        period = self._next - self._clock()
        self._next += period  # twice as long: one period with a checkpoint, and one without
        # From the start of this one to where the next would have been due.
        watch.marks.append((time.perf_counter() - seconds, seconds, period + seconds, size[0]))

    CheckpointFiles.save, CheckpointSchedule.record = write_and_measure, skip_every_other  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            run_experiment(plugins, resolved, out=Path(folder) / "run", observers=[watch], stop=watch.is_done)
    finally:
        CheckpointFiles.save, CheckpointSchedule.record = write, record  # type: ignore[method-assign]
    return watch


def main() -> None:
    """Measure, and print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--case", choices=CASES, action="append", help="measure only this case; may be repeated")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    import_tensorflow()
    results = {}
    for name, case in CASES.items():
        if arguments.case and name not in arguments.case:
            continue
        watch = run_case(case, arguments.turns)
        costs = watch.costs()
        results[name] = {
            "bytes": watch.marks[-1][3],
            "seconds_between": statistics.median(period for *_, period, _ in watch.complete),
            "turns": len(costs),
            "share_of_time_writing": watch.share(),
            "slower_by": costs,
            "slower_by_median": statistics.median(costs),
        }
        print(name, results[name], flush=True)
        if arguments.out is not None:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
