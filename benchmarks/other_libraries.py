"""Part (c): one Gaussian-mutation genetic algorithm on recurrent parity, in tfsm and in other libraries.

Each library runs in its own process: two of them in one process could share, or compete for, threads and memory.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.libraries.problem import draw_genomes, reference_fitness
from benchmarks.measure import Effort, Quartiles, compute_quartiles, compute_rate, compute_ratio
from benchmarks.results import BenchmarkTable

LIBRARIES = {
    "tfsm": "tfsm_benchmark",
    "PyGAD": "pygad_benchmark",
    "EvoTorch": "evotorch_benchmark",
    "evosax": "evosax_benchmark",
}
MIN_RATIOS = {"PyGAD": 1_000.0, "EvoTorch": 1.0, "evosax": 1.0}
"""The targets. PyGAD with a fitness function other than that of its documentation is only for information."""
TRUNCATION_RATIOS = {**MIN_RATIOS, "EvoTorch": 5.0, "evosax": 1.2}
"""The targets of `tfsm run` with truncation, the same kind of algorithm as theirs."""
TOLERANCE = 1e-4
NOTES = [
    "Children made and evaluated per second on one core: the same network of 1,302 weights, the same 16 sequences, "
    "Gaussian mutation of all weights with deviation 0.05, population 250. Each library runs in its own process on "
    "the same core, in turns. The fitness of the same genomes is checked against a float64 computation.",
    "In lock step, tfsm evolves many steady-state runs; the others evolve one generational population. 'tfsm, "
    "250 runs' evaluates as many genomes at once as they do, and 'tfsm, generational' is the same kind of algorithm.",
    "Targets: tfsm at least 1,000 x PyGAD, and not slower than EvoTorch and evosax; with truncation, at least 5 x "
    "EvoTorch and 1.2 x evosax.",
]
PART_NOTE = "Microseconds per child of one part called alone, which shows where the differences come from."
Samples = dict[str, list[float]]
START_TIMEOUT = 300.0
CALL_TIMEOUT = 300.0
_STOP = None


def run(effort: Effort) -> list[BenchmarkTable]:
    table = BenchmarkTable("other_libraries", "(c) the same genetic algorithm in other libraries", notes=list(NOTES))
    genomes = draw_genomes(3)
    processes: dict[str, LibraryProcess] = {}
    try:
        for library, module in LIBRARIES.items():
            processes[library] = LibraryProcess(f"benchmarks.libraries.{module}", genomes, quick=effort.quick)
            if processes[library].failure:
                table.notes.append(f"{library} is left out: {processes[library].failure}")
                processes.pop(library).close()
            else:
                _check_fitness(library, processes[library], genomes)
        whole = _measure_calls(processes, "whole", effort)
        parts = _measure_calls(processes, "parts", effort)
    finally:
        for process in processes.values():
            process.close()
    for library, process in processes.items():
        for name, (_, about) in process.report["whole"].items():
            table.rows.append(_make_row(library, name, whole))
            table.notes.append(f"{name}: {about}.")
    starts = ", ".join(f"{library} {process.report['seconds']:.0f} s" for library, process in processes.items())
    table.notes.append(f"Start of each process with import and compiling: {starts}")
    return [table, _make_parts_table(processes, parts)]


def _check_fitness(library: str, process: LibraryProcess, genomes: np.ndarray) -> None:
    difference = np.abs(np.array(process.report["fitness"]) - reference_fitness(genomes)).max()
    if not difference < TOLERANCE:
        raise AssertionError(f"{library} computes a different fitness: off by {difference:.2g}")


def _measure_calls(processes: dict[str, LibraryProcess], kind: str, effort: Effort) -> Samples:
    """Return the seconds per child of each call, measured in turns."""
    samples: Samples = {}
    for repetition in range(effort.repetitions):
        for process in processes.values():
            for name, about in process.report[kind].items():
                evaluations = about[0] if kind == "whole" else about
                times = samples.setdefault(name, [])
                # One call of a slow library takes seconds, and two of them are enough.
                if repetition >= (1 if effort.quick else 2) and times[-1] * evaluations > effort.max_seconds:
                    continue
                seconds, _ = process.repeat(name, effort.seconds)
                times.append(seconds / evaluations)
    return samples


def _make_row(library: str, name: str, samples: Samples) -> dict[str, object]:
    row: dict[str, object] = {"algorithm": name, "evaluations/s": compute_rate(samples[name], 1.0)}
    for tfsm in (
        tfsm
        for tfsm in ("tfsm, generational", "tfsm, truncation", "tfsm, 250 runs", "tfsm, 20 runs")
        if tfsm in samples
    ):
        times: Quartiles | None = None if library == "tfsm" else compute_ratio(samples[name], samples[tfsm])
        row[f"{tfsm}: x"] = times
        if tfsm != "tfsm, 20 runs":
            minimum = find_min_ratio(tfsm, name)
            row[f"{tfsm}: held"] = times.median >= minimum if times is not None and minimum is not None else None
    return row


def find_min_ratio(variant: str, algorithm: str) -> float | None:
    """Return how many times as fast as another algorithm a variant of tfsm has to be; None without a target."""
    return (TRUNCATION_RATIOS if variant == "tfsm, truncation" else MIN_RATIOS).get(algorithm)


def _make_parts_table(processes: dict[str, LibraryProcess], samples: Samples) -> BenchmarkTable:
    rows = [
        {"part": name, "us a child": compute_quartiles([1e6 * s for s in samples[name]])}
        for process in processes.values()
        for name in process.report["parts"]
    ]
    return BenchmarkTable("parts", "(c) parts of the algorithm", rows, [PART_NOTE])


class LibraryProcess:
    """A process that makes the timed calls of one library on request, and sleeps in between.

    Args:
        module: the module whose `make_benchmarks` it calls.
        genomes: the genomes whose fitness it reports, to compare it with the other libraries.
        quick: whether to leave out calls that take long to prepare.
    """

    def __init__(self, module: str, genomes: np.ndarray, *, quick: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, remote = context.Pipe()
        self._process = context.Process(target=_serve, args=(module, genomes, quick, remote), daemon=True)
        self._process.start()
        remote.close()
        self.report: dict[str, Any] = self._receive(START_TIMEOUT)

    @property
    def failure(self) -> str:
        """Why the library is left out; empty if it is not."""
        return str(self.report.get("failure", ""))

    def repeat(self, name: str, seconds: float) -> tuple[float, int]:
        """Repeat a call for about this many seconds; return the seconds per call, and the number of calls."""
        self._connection.send((name, seconds))
        answer = self._receive(CALL_TIMEOUT)
        if "failure" in answer:
            raise RuntimeError(answer["failure"])
        return answer["seconds"], answer["calls"]

    def close(self) -> None:
        """Stop the process."""
        if self._process.is_alive():
            with contextlib.suppress(OSError):  # it may have ended already
                self._connection.send(_STOP)
            self._process.join(5)
            self._process.terminate()
        self._connection.close()

    def _receive(self, seconds: float) -> dict[str, Any]:
        if not self._connection.poll(seconds):
            self._process.terminate()
            return {"failure": f"no answer within {seconds:.0f} s"}
        try:
            message: dict[str, Any] = self._connection.recv()
        except EOFError:
            self._process.join(5)
            return {"failure": f"its process ended with code {self._process.exitcode}"}
        return message


def _serve(module: str, genomes: np.ndarray, quick: bool, connection: Connection) -> None:
    start = time.perf_counter()
    try:
        with _silence_stderr():
            library = importlib.import_module(module)
        benchmarks = library.make_benchmarks(quick)
        calls = benchmarks.whole | benchmarks.parts
        for timed in calls.values():
            if not timed.heavy:
                timed.call()  # compile
        report = {
            "fitness": np.asarray(benchmarks.fitness(genomes), float).tolist(),
            "whole": {name: (timed.evaluations, timed.about) for name, timed in benchmarks.whole.items()},
            "parts": {name: timed.evaluations for name, timed in benchmarks.parts.items()},
            "seconds": time.perf_counter() - start,
        }
    except Exception as error:  # a library may be missing or fail in any way; the others are still measured
        connection.send({"failure": f"{type(error).__name__}: {error}"})
        return
    connection.send(report)
    while (request := connection.recv()) is not _STOP:
        name, seconds = request
        count, start = 0, time.perf_counter()
        while count == 0 or time.perf_counter() - start < seconds:
            calls[name].call()
            count += 1
        connection.send({"seconds": (time.perf_counter() - start) / count, "calls": count})


@contextlib.contextmanager
def _silence_stderr() -> Iterator[None]:
    """Suppress startup notices, which some libraries write directly to the file descriptor."""
    saved = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
