"""How speed scales with workers: on the cores of this machine, and with evaluations that only take time.

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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.synthetic_domains import SleepingDomain
from tfsm.interfaces import Observer
from tfsm.parallel.pool import worker_environment
from tfsm.utils.tf_startup import import_tensorflow


class RateObserver(Observer):
    """Measures evaluations per second, and the driver's own processor time per evaluation."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, int]] = []

    def on_progress(self, progress: Any) -> None:
        """Record the progress."""
        if progress.phase == "evolving":
            self.samples.append((time.perf_counter(), time.process_time(), progress.evaluations))

    def steady_rate(self) -> dict[str, float]:
        """Return both for most of the second half, when everything is compiled and no worker is done yet."""
        first, last = (next(row for row in self.samples if row[2] >= x * self.samples[-1][2]) for x in (0.5, 0.95))
        wall, busy, evaluations = (after - before for before, after in zip(first, last, strict=True))
        return {"rate": evaluations / wall, "driver_seconds": busy / evaluations}


OFFSPRING = 32
DRIVER_SIZES = ((1, 1), (8, 1), (32, 1), (1, OFFSPRING), (8, OFFSPRING))
BACKENDS = (("local", None), ("processes", 1), ("processes", 2), ("ray", 2))


def measure_groups(quick: bool, backends: Sequence[tuple[str, int | None]] = BACKENDS) -> list[dict[str, Any]]:
    """Measure groups of runs as tasks: evaluations per second of all workers together."""
    from tfsm import evolve

    rows = []
    budget = 3_000 if quick else 30_000
    for backend, workers in backends:
        rate = RateObserver()
        start = time.perf_counter()
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
        seconds = time.perf_counter() - start
        rows.append({"backend": backend, "workers": workers, "seconds": seconds, **rate.steady_rate()})
        print(rows[-1], flush=True)
    return rows


def measure_children(quick: bool) -> list[dict[str, Any]]:
    """Measure single children as tasks, with evaluations that take no time or some time."""
    from tfsm import evolve

    rows = []
    cases = [("processes", w, 0.0, 1) for w in ((1,) if quick else (1, 2, 4))]
    cases += [("processes", w, 0.05, 1) for w in ((1, 2) if quick else (1, 2, 4, 8))]
    cases += [("ray", w, s, 1) for w, s in (((1, 0.0),) if quick else ((1, 0.0), (4, 0.0), (4, 0.05)))]
    cases += [(backend, w, 0.0, OFFSPRING) for backend in ("processes", "ray") for w in ((1,) if quick else (1, 2))]
    for backend, workers, seconds, offspring in cases:
        rate = RateObserver()
        budget = 2_000 * offspring if seconds == 0.0 else int(12 * workers / (seconds + 0.003))
        evolve(
            SleepingDomain(seconds=seconds),
            mutation="control",
            runs=2,
            evaluations=(budget + 40) // 2,
            population=10,
            offspring=offspring,
            intensity=0.01,
            observers=[rate],
            stop="budget",
            size=3,
            log_every=1_000,
            backend=backend,
            workers=workers,
            grain="children",
        )
        row = {"backend": backend, "workers": workers, "sleep": seconds, "offspring": offspring}
        rows.append(row | rate.steady_rate())
        print(rows[-1], flush=True)
    return rows


def measure_driver(sizes: Sequence[tuple[int, int]] = DRIVER_SIZES) -> list[dict[str, Any]]:
    """Measure the driver's time per child if making it takes no time: the limit of one driver, without messages.

    Args:
        sizes: numbers of runs, and of children that each asks for at once.
    """
    from tfsm.evolution.async_loop import AsyncLoop

    rows = []
    for runs, offspring in sizes:
        flags = {"runs": runs, "population": 10, "evaluations": 10_000 * offspring, "offspring": offspring}
        flags["log_every"] = 100_000 * offspring
        prepared, worker = _prepare_worker(SleepingDomain(), "control", flags)
        engine = prepared.engine()
        loop = AsyncLoop(engine, seed=0, runs=runs, evaluations=flags["evaluations"], log_every=flags["log_every"])
        template = worker.make(loop.ask(1)[0])
        loop.tell(template)

        def answer(request: Any, template: Any = template, names: Any = engine.diagnostics) -> Any:
            """Return a result at once: the first child that was made, as often as needed."""
            take = np.zeros([request.count], int)
            return replace(
                template,
                run=request.run,
                number=request.number,
                genomes=template.genomes[take],
                evaluation=tuple(leaf[take] for leaf in template.evaluation),
                diagnostics={name: np.zeros([request.count], np.float32) for name in names},
                divergence=None,
            )

        made, start = -20 * runs * offspring, time.perf_counter()
        while made < (400 + 20 * runs) * offspring:
            requests = loop.ask(runs)
            if made <= 0:  # the initial population, and compiling
                start = time.perf_counter()
            loop.tell(*(answer(request) for request in requests))
            made += sum(request.count for request in requests)
        rows.append({"runs": runs, "offspring": offspring, "seconds": (time.perf_counter() - start) / made})
        print(rows[-1], flush=True)
    return rows


def measure_first_person() -> dict[str, float]:
    """Measure a child of the first-person maze in a worker with one thread, and the size of its messages."""
    flags = {"runs": 1, "population": 5, "evaluations": 25}
    prepared, worker = _prepare_worker("first-person-maze", "sm-g-sum", flags)
    from tfsm.evolution.async_loop import AsyncLoop

    loop = AsyncLoop(prepared.engine(), seed=0, runs=1, evaluations=25, log_every=1_000)
    worker_times, driver_times, sent, returned = [], [], [], []
    while not loop.ended:
        start = time.perf_counter()
        (request,) = loop.ask(1)
        asked = time.perf_counter()
        result = worker.make(request)
        ready = time.perf_counter()
        loop.tell(result)
        worker_times.append(ready - asked)
        driver_times.append(asked - start + time.perf_counter() - ready)
        sent.append(len(pickle.dumps(request)))
        returned.append(len(pickle.dumps(result)))
    # The first ones compile.
    return {
        "child": statistics.median(worker_times[10:]),
        "driver": statistics.median(driver_times[10:]),
        "bytes_sent": sent[-1],
        "bytes_returned": returned[-1],
    }


def _prepare_worker(domain: Any, mutation: str, flags: dict[str, Any]) -> tuple[Any, Any]:
    from tfsm.evolution.async_worker import ChildWorker
    from tfsm.plugins import load_plugins
    from tfsm.runs.build import prepare, settings_for_children
    from tfsm.settings import resolve

    plugins = load_plugins()
    if not isinstance(domain, str):
        plugins, domain = plugins.with_part("domain", domain)
    sets = ["size=3", "intensity=0.01"] if mutation == "control" else []
    resolved = resolve(plugins, domain=domain, mutation=mutation, overrides=flags, sets=sets)
    prepared = prepare(plugins, settings_for_children(resolved.settings))
    return prepared, ChildWorker(prepared.variation(), prepared.batches.size)


def _measure_with_one_thread(part: str, *flags: str) -> Any:
    """Measure a part in its own process, because TensorFlow fixes the number of threads on import."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--here", part, *flags]
    done = subprocess.run(command, env=worker_environment(1, threads=1), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", action="append", help="measure only this part, and keep the others of --out")
    parser.add_argument("--here", help="measure only this part in this process, and print it")
    arguments = parser.parse_args()
    import_tensorflow()
    if arguments.here:
        print(json.dumps(measure_groups(arguments.quick) if arguments.here == "groups" else measure_first_person()))
        return
    results: dict[str, Any] = {"cores": os.cpu_count()}
    if arguments.part and arguments.out is not None and arguments.out.is_file():
        results = json.loads(arguments.out.read_text())
    # All with one thread each, so that only the workers make a difference; and one process with the default threads.
    flags = ["--quick"] if arguments.quick else []
    parts = {
        "driver": measure_driver,
        "threads": lambda: measure_groups(arguments.quick, BACKENDS[:1]),
        "groups": lambda: _measure_with_one_thread("groups", *flags),
        "children": lambda: measure_children(arguments.quick),
        "first_person": lambda: _measure_with_one_thread("first_person"),
    }
    for name, measure in parts.items():
        if (arguments.part and name not in arguments.part) or (name == "first_person" and arguments.quick):
            continue
        results[name] = measure()
        if arguments.out is not None:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results.get("first_person")))


if __name__ == "__main__":
    main()
