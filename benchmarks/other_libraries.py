"""Part (c): one Gaussian-mutation genetic algorithm on recurrent parity, in tfsm and in other libraries."""

from __future__ import annotations

import numpy as np

from benchmarks.arithmetic import Spread, rate, ratio, spread
from benchmarks.measure import Effort
from benchmarks.results import Table
from benchmarks.rivals.problem import initial, reference_fitness
from benchmarks.worker import Worker

LIBRARIES = {"tfsm": "tfsm_sides", "PyGAD": "pygad_sides", "EvoTorch": "evotorch_sides", "evosax": "evosax_sides"}
AT_LEAST = {"PyGAD": 1_000.0, "EvoTorch": 1.0, "evosax": 1.0}
"""The targets; PyGAD with a fitness function that its documentation does not have is there for information."""
TOLERANCE = 1e-4
NOTES = [
    "Children made and evaluated a second, on one core: the same network of 1,302 weights, the same 16 sequences, "
    "Gaussian mutation of all weights with deviation 0.05, population 250. Every library runs in a process of its own "
    "on the same core, in turns. Fitness of the same genomes is checked against a float64 computation.",
    "tfsm's lock step is a steady state of many runs; the others are generational, one population. 'tfsm, 250 runs' "
    "evaluates as many genomes at once as they do, 'tfsm, generational' is the same kind of algorithm as theirs.",
    "Targets: tfsm at least 1,000 x PyGAD, and not slower than EvoTorch and evosax.",
]
PART_NOTE = "Microseconds a child that one part takes when called alone: where the difference comes from."
Samples = dict[str, list[float]]


def run(effort: Effort) -> list[Table]:
    table = Table("other_libraries", "(c) the same genetic algorithm in other libraries", notes=list(NOTES))
    genomes = initial(3)
    workers: dict[str, Worker] = {}
    try:
        for library, module in LIBRARIES.items():
            workers[library] = Worker(f"benchmarks.rivals.{module}", genomes, quick=effort.quick)
            if workers[library].missing:
                table.notes.append(f"{library} is left out: {workers[library].missing}")
                workers.pop(library).close()
            else:
                _check(library, workers[library], genomes)
        whole = _measured(workers, "whole", effort)
        parts = _measured(workers, "parts", effort)
    finally:
        for worker in workers.values():
            worker.close()
    for library, worker in workers.items():
        for side, (_, about) in worker.hello["whole"].items():
            table.rows.append(_row(library, side, whole))
            table.notes.append(f"{side}: {about}.")
    first = {library: worker.hello["seconds"] for library, worker in workers.items()}
    table.notes.append("Start of each process, import and compiling: " + _listing(first))
    return [table, _parts_table(workers, parts)]


def _check(library: str, worker: Worker, genomes: np.ndarray) -> None:
    difference = np.abs(np.array(worker.hello["fitness"]) - reference_fitness(genomes)).max()
    if not difference < TOLERANCE:
        raise AssertionError(f"{library} computes another fitness: off by {difference:.2g}")


def _measured(workers: dict[str, Worker], kind: str, effort: Effort) -> Samples:
    """Return the seconds of one child for each side, in turns."""
    samples: Samples = {}
    for repetition in range(effort.repetitions):
        for worker in workers.values():
            for side, about in worker.hello[kind].items():
                evaluations = about[0] if kind == "whole" else about
                known = samples.setdefault(side, [])
                # One call of a slow library takes seconds: after two of them it has been heard.
                if repetition >= (1 if effort.quick else 2) and known[-1] * evaluations > effort.most:
                    continue
                seconds, _ = worker.repeat(side, effort.seconds)
                known.append(seconds / evaluations)
    return samples


def _row(library: str, side: str, samples: Samples) -> dict[str, object]:
    row: dict[str, object] = {"algorithm": side, "evaluations/s": rate(samples[side], 1.0)}
    for mine in (side for side in ("tfsm, generational", "tfsm, 250 runs", "tfsm, 20 runs") if side in samples):
        times: Spread | None = None if library == "tfsm" else ratio(samples[side], samples[mine])
        row[f"{mine}: x"] = times
        if mine != "tfsm, 20 runs":
            row[f"{mine}: held"] = times.median >= AT_LEAST[side] if times is not None and side in AT_LEAST else None
    return row


def _parts_table(workers: dict[str, Worker], samples: Samples) -> Table:
    rows = [
        {"part": side, "us a child": spread([1e6 * s for s in samples[side]])}
        for worker in workers.values()
        for side in worker.hello["parts"]
    ]
    return Table("parts", "(c) parts of it", rows, [PART_NOTE])


def _listing(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
