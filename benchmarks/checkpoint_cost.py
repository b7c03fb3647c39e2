"""What checkpoints cost: one run, in which stretches of time with a checkpoint and without take turns.

The stretches are as long as the time between two checkpoints that `--checkpoint-every 10s` leads to. Both kinds are of
the same process, and follow one another, so that what else the machine does weighs on both alike.

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

from tfsm.utils.tf_startup import import_tensorflow

CASES: dict[str, dict[str, Any]] = {
    "parity, 20 runs": {"domain": "parity", "mutation": "sm-g-sum", "runs": 20},
    "hard-maze, 20 runs": {"domain": "hard-maze", "mutation": "sm-g-sum", "runs": 20},
    "hard-maze-64, 2 runs": {"domain": "hard-maze-64", "mutation": "control", "runs": 2},
}
LONGEST = 480.0
"""Seconds that one case may take; a large state is written seldom, and then there are fewer turns."""


class Turns:
    """Watches a run, and lets every second checkpoint be left out.

    Args:
        count: how many stretches with a checkpoint, and as many without.
    """

    def __init__(self, count: int) -> None:
        self._count, self._began = count, time.perf_counter()
        self.seen: list[tuple[float, int]] = []
        """When somebody looked, and how many evaluations there were."""
        self.marks: list[tuple[float, float, float, int]] = []
        """Of each checkpoint: when it was begun, how long it took, seconds to the next one, and its bytes."""

    def on_progress(self, progress: Any) -> None:
        """Note how far it is."""
        if progress.phase == "evolving":
            self.seen.append((time.perf_counter(), progress.evaluations))

    def over(self) -> bool:
        """Say whether there were enough turns, or the time is up; the last of them must be complete."""
        if time.perf_counter() - self._began > LONGEST and len(self.marks) > 2:
            return True
        return len(self.marks) > self._count + 1

    @property
    def whole(self) -> list[tuple[float, float, float, int]]:
        """The checkpoints after which there was a stretch with and one without.

        Not the first: what is done once, such as making the folder, is done then. Nor the last two: then it was over,
        and there is one more when a run is interrupted.
        """
        return self.marks[1:-2]

    def costs(self) -> list[float]:
        """Return by which share each stretch with a checkpoint was slower than the one without that followed it."""
        found = []
        for (begun, _, apart, _), (then, *_) in zip(self.whole, self.marks[2:], strict=False):
            # From the checkpoint to where the next would have been, and from there to the next that there was.
            start, middle, end = self._at(begun, begun), self._at(begun + apart), self._at(then, then)
            found.append(1.0 - _rate(start, middle) / _rate(middle, end))
        return found

    def share(self) -> float:
        """Return which share of a stretch went by while a checkpoint was written, in the median."""
        return statistics.median(took / apart for _, took, apart, _ in self.whole)

    def _at(self, moment: float, began: float | None = None) -> tuple[float, int]:
        """Return when somebody first looked from a moment on, and how many evaluations there were.

        A checkpoint is written before that is told: `began` is when nothing more was evaluated.
        """
        told, made = self.seen[min(bisect_left(self.seen, (moment, 0)), len(self.seen) - 1)]
        return told if began is None else began, made


def _rate(start: tuple[float, int], end: tuple[float, int]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])


def watched(case: dict[str, Any], turns: int) -> Turns:
    """Run a case."""
    from tfsm.evolution.checkpoint_schedule import CheckpointSchedule
    from tfsm.plugins import load_plugins
    from tfsm.runs.checkpoints import CheckpointFiles
    from tfsm.runs.runner import run_experiment
    from tfsm.settings import resolve

    plugins, watch = load_plugins(), Turns(turns)
    flags = {"runs": case["runs"], "evaluations": 10_000_000, "checkpoint_every": "10s"}
    resolved = resolve(plugins, domain=case["domain"], mutation=case["mutation"], overrides=flags, sets=["stop=budget"])
    keep, took = CheckpointFiles.keep, CheckpointSchedule.record
    size = [0]

    def kept(self: CheckpointFiles, *arguments: Any, **named: Any) -> None:
        keep(self, *arguments, **named)
        size[0] = max((file.stat().st_size for file in self._folder.glob("*")), default=0)

    def seldom(self: CheckpointSchedule, spent: int, seconds: float) -> None:
        took(self, spent, seconds)
        apart = self._next - self._clock()
        self._next += apart  # twice as long: with one, and without
        # From the beginning of this one to where the next would have been.
        watch.marks.append((time.perf_counter() - seconds, seconds, apart + seconds, size[0]))

    CheckpointFiles.keep, CheckpointSchedule.record = kept, seldom  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            run_experiment(plugins, resolved, out=Path(folder) / "run", observers=[watch], stop=watch.over)
    finally:
        CheckpointFiles.keep, CheckpointSchedule.record = keep, took  # type: ignore[method-assign]
    return watch


def main() -> None:
    """Measure, and print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--case", choices=CASES, action="append", help="only this one; may be repeated")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    import_tensorflow()
    found = {}
    for name, case in CASES.items():
        if given.case and name not in given.case:
            continue
        watch = watched(case, given.turns)
        costs = watch.costs()
        found[name] = {
            "bytes": watch.marks[-1][3],
            "seconds_between": statistics.median(apart for *_, apart, _ in watch.whole),
            "turns": len(costs),
            "share_of_time_writing": watch.share(),
            "slower_by": costs,
            "slower_by_median": statistics.median(costs),
        }
        print(name, found[name], flush=True)
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
