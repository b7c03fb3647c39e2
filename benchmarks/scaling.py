"""How far more workers help: on this machine's cores, and with evaluations that only take time.

python -m benchmarks.scaling [--out results/scaling/scaling.json] [--quick]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.sleeping import Sleeping
from tfsm.cli.tensorflow import import_quietly


class Rate:
    """Evaluations a second from when all workers are at work."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def progress(self, progress: Any) -> None:
        """Note how far it is."""
        if progress.phase == "evolving":
            self.seen.append((time.perf_counter(), progress.evaluations))

    def later(self, share: float = 0.4) -> float:
        """Return the rate over the last part: by then everything is compiled."""
        first = self.seen[int(len(self.seen) * (1.0 - share))]
        last = self.seen[-1]
        return (last[1] - first[1]) / (last[0] - first[0])


def groups(quick: bool) -> list[dict[str, Any]]:
    """Measure groups of runs as tasks: evaluations a second of all workers together."""
    from tfsm import evolve

    found = []
    budget = 6_000 if quick else 40_000
    for backend, workers in (("local", None), ("processes", 1), ("processes", 2), ("ray", 1), ("ray", 2)):
        rate = Rate()
        began = time.perf_counter()
        evolve(
            "parity",
            mutation="sm-g-sum",
            runs=8,
            evaluations=budget,
            observers=[rate],
            stop="budget",
            backend=backend,
            workers=workers,
        )
        whole = time.perf_counter() - began
        found.append({"backend": backend, "workers": workers, "rate": rate.later(), "seconds": whole})
        print(found[-1], flush=True)
    return found


def children(quick: bool) -> list[dict[str, Any]]:
    """Measure single children as tasks, of evaluations that take no time, some, or more."""
    from tfsm import evolve

    found = []
    cases = [("processes", w, s) for s in (0.0, 0.02, 0.2) for w in ((1, 2) if quick else (1, 2, 4, 8))]
    cases += [("ray", w, s) for s in (0.0, 0.2) for w in ((1,) if quick else (1, 4))]
    for backend, workers, seconds in cases:
        rate = Rate()
        enough = 400 if seconds == 0.0 else int(min(4000, max(60, 12 * workers / (seconds + 0.003))))
        evolve(
            Sleeping(seconds=seconds),
            mutation="control",
            runs=2,
            evaluations=(enough + 40) // 2,
            population=10,
            intensity=0.01,
            observers=[rate],
            stop="budget",
            size=3,
            log_every=1_000,
            backend=backend,
            workers=workers,
            grain="children",
        )
        found.append({"backend": backend, "workers": workers, "sleep": seconds, "rate": rate.later()})
        print(found[-1], flush=True)
    return found


def first_person() -> dict[str, float]:
    """Measure one evaluation of the first-person maze as a worker makes it: sm-g-sum's child, mutated and evaluated."""
    from tfsm.evolution.nursery import Nursery
    from tfsm.evolution.steady import Steady
    from tfsm.experiments.parts import prepare, without_reuse
    from tfsm.experiments.settings import resolve
    from tfsm.plugins import load_plugins

    plugins = load_plugins()
    flags = {"runs": 1, "population": 5, "evaluations": 25}
    resolved = resolve(plugins, domain="first-person-maze", mutation="sm-g-sum", overrides=flags)
    prepared = prepare(plugins, without_reuse(resolved.settings))
    nursery = Nursery(prepared.breeder())
    steady = Steady(prepared.engine(), seed=0, runs=1, evaluations=25, log_every=1_000)
    made, driven = [], []
    while not steady.ended:
        began = time.perf_counter()
        (order,) = steady.orders(1)
        handed = time.perf_counter()
        bred = nursery.make(order)
        ready = time.perf_counter()
        steady.settle(bred)
        made.append(ready - handed)
        driven.append(handed - began + time.perf_counter() - ready)
    # The first ones of each kind compile.
    return {"child": sorted(made[10:])[5], "driver": sorted(driven[10:])[5]}


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    import_quietly()
    found = {"groups": groups(given.quick), "children": children(given.quick)}
    if not given.quick:
        found["first_person"] = first_person()  # type: ignore[assignment]
        print(found["first_person"])
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
