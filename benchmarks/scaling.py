"""How far more workers help: on this machine's cores, and with evaluations that only take time.

python -m benchmarks.scaling [--out results/scaling/scaling.json] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.sleeping import Sleeping
from tfsm.parallel.pool import worker_environment
from tfsm.utils.tf_startup import import_tensorflow


class Rate:
    """Evaluations a second, and the driver's own processor time for each, from when all workers are at work."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, int]] = []

    def on_progress(self, progress: Any) -> None:
        """Note how far it is."""
        if progress.phase == "evolving":
            self.seen.append((time.perf_counter(), time.process_time(), progress.evaluations))

    def later(self) -> dict[str, float]:
        """Return both for most of the second half: by then everything is compiled, and nobody is done yet."""
        first, last = (next(row for row in self.seen if row[2] >= x * self.seen[-1][2]) for x in (0.5, 0.95))
        wall, busy, made = (after - before for before, after in zip(first, last, strict=True))
        return {"rate": made / wall, "driver_seconds": busy / made}


WAYS = (("local", None), ("processes", 1), ("processes", 2), ("ray", 2))


def groups(quick: bool, ways: Sequence[tuple[str, int | None]] = WAYS) -> list[dict[str, Any]]:
    """Measure groups of runs as tasks: evaluations a second of all workers together."""
    from tfsm import evolve

    found = []
    budget = 3_000 if quick else 30_000
    for backend, workers in ways:
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
        found.append({"backend": backend, "workers": workers, "seconds": whole, **rate.later()})
        print(found[-1], flush=True)
    return found


def children(quick: bool) -> list[dict[str, Any]]:
    """Measure single children as tasks, of evaluations that take no time, some, or more."""
    from tfsm import evolve

    found = []
    cases = [("processes", w, 0.0) for w in ((1,) if quick else (1, 2, 4))]
    cases += [("processes", w, 0.05) for w in ((1, 2) if quick else (1, 2, 4, 8))]
    cases += [("ray", w, s) for w, s in (((1, 0.0),) if quick else ((1, 0.0), (4, 0.0), (4, 0.05)))]
    for backend, workers, seconds in cases:
        rate = Rate()
        enough = 2_000 if seconds == 0.0 else int(12 * workers / (seconds + 0.003))
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
        found.append({"backend": backend, "workers": workers, "sleep": seconds, **rate.later()})
        print(found[-1], flush=True)
    return found


def driver(counts: Sequence[int] = (1, 8, 32)) -> list[dict[str, Any]]:
    """Measure what a driver does for one child, when nobody needs any time to make it: its limit, without messages."""
    from tfsm.evolution.async_loop import AsyncLoop
    from tfsm.evolution.async_worker import ChildResult

    found = []
    for runs in counts:
        flags = {"runs": runs, "population": 10, "evaluations": 10_000, "log_every": 100_000}
        prepared, nursery = _prepared(Sleeping(), "control", flags)
        engine = prepared.engine()
        steady = AsyncLoop(engine, seed=0, runs=runs, evaluations=10_000, log_every=100_000)
        like = nursery.make(steady.ask(1)[0])
        steady.tell(like)
        blank = dict.fromkeys(engine.diagnostics, 0.0)
        made, began = -20 * runs, time.perf_counter()
        while made < 400 + 20 * runs:
            orders = steady.ask(runs)
            if made <= 0:  # the first individuals, and what compiles
                began = time.perf_counter()
            steady.tell(*(ChildResult(order.run, order.number, like.genome, like.found, blank) for order in orders))
            made += len(orders)
        found.append({"runs": runs, "seconds": (time.perf_counter() - began) / made})
        print(found[-1], flush=True)
    return found


def first_person() -> dict[str, float]:
    """Measure an evaluation of the first-person maze as a worker makes it, with one thread, and what is sent for it."""
    flags = {"runs": 1, "population": 5, "evaluations": 25}
    prepared, nursery = _prepared("first-person-maze", "sm-g-sum", flags)
    from tfsm.evolution.async_loop import AsyncLoop

    steady = AsyncLoop(prepared.engine(), seed=0, runs=1, evaluations=25, log_every=1_000)
    made, driven, sent, returned = [], [], [], []
    while not steady.ended:
        began = time.perf_counter()
        (order,) = steady.ask(1)
        handed = time.perf_counter()
        bred = nursery.make(order)
        ready = time.perf_counter()
        steady.tell(bred)
        made.append(ready - handed)
        driven.append(handed - began + time.perf_counter() - ready)
        sent.append(len(pickle.dumps(order)))
        returned.append(len(pickle.dumps(bred)))
    # The first ones of each kind compile.
    return {
        "child": statistics.median(made[10:]),
        "driver": statistics.median(driven[10:]),
        "bytes_sent": sent[-1],
        "bytes_returned": returned[-1],
    }


def _prepared(domain: Any, mutation: str, flags: dict[str, Any]) -> tuple[Any, Any]:
    from tfsm.evolution.async_worker import ChildWorker
    from tfsm.plugins import load_plugins
    from tfsm.runs.build import prepare, without_reuse
    from tfsm.settings import resolve

    plugins = load_plugins()
    if not isinstance(domain, str):
        plugins, domain = plugins.with_part("domain", domain)
    sets = ["size=3", "intensity=0.01"] if mutation == "control" else []
    resolved = resolve(plugins, domain=domain, mutation=mutation, overrides=flags, sets=sets)
    prepared = prepare(plugins, without_reuse(resolved.settings))
    return prepared, ChildWorker(prepared.breeder())


def _with_one_thread(part: str, *flags: str) -> Any:
    """Measure something in a process of its own: threads are counted when TensorFlow is imported."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--here", part, *flags]
    done = subprocess.run(command, env=worker_environment(1, threads=1), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", action="append", help="only this one, the others as they are in --out")
    parser.add_argument("--here", help="only this one, printed")
    given = parser.parse_args()
    import_tensorflow()
    if given.here:
        print(json.dumps(groups(given.quick) if given.here == "groups" else first_person()))
        return
    found: dict[str, Any] = {"cores": os.cpu_count()}
    if given.part and given.out is not None and given.out.is_file():
        found = json.loads(given.out.read_text())
    # All with one thread each, so that workers alone make the difference; and one process as it is by default.
    flags = ["--quick"] if given.quick else []
    parts = {
        "driver": driver,
        "threads": lambda: groups(given.quick, WAYS[:1]),
        "groups": lambda: _with_one_thread("groups", *flags),
        "children": lambda: children(given.quick),
        "first_person": lambda: _with_one_thread("first_person"),
    }
    for name, measure in parts.items():
        if (given.part and name not in given.part) or (name == "first_person" and given.quick):
            continue
        found[name] = measure()
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found.get("first_person")))


if __name__ == "__main__":
    main()
