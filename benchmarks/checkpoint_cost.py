"""What checkpoints cost: the same runs with one every ten seconds and with none, in turns.

python -m benchmarks.checkpoint_cost [--seconds 60] [--pairs 3] [--out results/scaling/checkpoint-cost.json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from tfsm.cli.tensorflow import import_quietly

CASES: dict[str, dict[str, Any]] = {
    "parity, 20 runs": {"domain": "parity", "mutation": "sm-g-sum", "runs": 20},
    "hard-maze, 20 runs": {"domain": "hard-maze", "mutation": "sm-g-sum", "runs": 20},
    "hard-maze-64, 2 runs": {"domain": "hard-maze-64", "mutation": "control", "runs": 2},
}


class Clock:
    """Ends a run after some seconds of evolving, compile time and initial population left out.

    Args:
        seconds: how long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def progress(self, progress: Any) -> None:
        """Look at the clock, from when children have been made for a while."""
        now = time.perf_counter(), progress.evaluations
        if progress.phase == "evolving":
            self._last = now
            if self._first is None or now[0] - self._start < 5.0:
                self._start = self._start if self._first is not None else now[0]
                self._first = now

    def over(self) -> bool:
        """Say whether the time is up."""
        return self._first is not None and self._last[0] - self._first[0] > self._seconds

    def rate(self) -> float:
        """Return evaluations a second."""
        assert self._first is not None
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])


def rate(case: dict[str, Any], every: str, seconds: float) -> tuple[float, int, int]:
    """Run a case, and return evaluations a second, and the number and size of the checkpoints."""
    from tfsm.experiments.checkpoints import CheckpointFiles
    from tfsm.experiments.run import run_experiment
    from tfsm.experiments.settings import resolve
    from tfsm.plugins import load_plugins

    plugins, clock = load_plugins(), Clock(seconds)
    flags = {"runs": case["runs"], "evaluations": 10_000_000, "checkpoint_every": every}
    resolved = resolve(plugins, domain=case["domain"], mutation=case["mutation"], overrides=flags, sets=["stop=budget"])
    written: list[int] = []
    keep = CheckpointFiles.keep

    def counted(self: CheckpointFiles, saved: Any, *, last: bool = False) -> None:
        keep(self, saved, last=last)
        written.append(sum(file.stat().st_size for file in self._folder.glob("*")) if self._folder.is_dir() else 0)

    CheckpointFiles.keep = counted  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            run_experiment(plugins, resolved, out=Path(folder) / "run", observers=[clock], stop=clock.over)
    finally:
        CheckpointFiles.keep = keep  # type: ignore[method-assign]
    return clock.rate(), len(written), max(written, default=0)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    import_quietly()
    found = {}
    for name, case in CASES.items():
        pairs = []
        for _ in range(given.pairs):
            without, _, _ = rate(case, "never", given.seconds)
            with_, count, size = rate(case, "10s", given.seconds)
            pairs.append({"never": without, "10s": with_, "checkpoints": count, "bytes": size})
            share = [1.0 - pair["10s"] / pair["never"] for pair in pairs]
            print(f"{name}: {without:,.0f}/s without, {with_:,.0f}/s with {count}, {share[-1]:+.1%}", flush=True)
        found[name] = {"pairs": pairs, "median_cost": sorted(share)[len(share) // 2]}
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
