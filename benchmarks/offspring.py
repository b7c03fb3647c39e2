"""Part (f): evaluations per second of a single run that makes many children at once."""

from __future__ import annotations

import gc
from typing import NamedTuple

from benchmarks.engines import build_endless_engine, copy_populations, make_stepper, resolve_settings, start_engine
from benchmarks.measure import Effort, compute_rate, compute_ratio, interleave, require_timing, time_call
from benchmarks.results import BenchmarkTable
from tfsm.evolution.engine import Engine

RUNS = 20
STEPS = 16
NOTES = [
    "Evaluations per second (select, mutate, evaluate, replace) on one core, without compiling: one run with one child "
    f"at a time, one run with several children at once (`--offspring`), and {RUNS} runs in lock step with one child "
    "each. All three start from the same populations and take turns.",
    "Targets: parity 15,000 evaluations/s with the control and 5,000 with SM-G-SUM; the hard maze 80 % of 20 runs.",
]


class Case(NamedTuple):
    """What is measured, and the target."""

    domain: str
    operator: str
    offspring: int
    rate: int | None = None
    """The target in evaluations per second."""
    share: float | None = None
    """The target as a share of the rate of all runs in lock step."""


CASES = (
    Case("parity", "control", 64, rate=15_000),
    Case("parity", "sm-g-sum", 64, rate=5_000),
    Case("hard-maze", "sm-g-so", 20, share=0.8),
)


def run(effort: Effort) -> list[BenchmarkTable]:
    table = BenchmarkTable("offspring", "(f) evaluations per second of one run with offspring", notes=NOTES)
    for case in CASES[:1] if effort.quick else CASES:
        table.rows.append(measure_case(case, effort))
        gc.collect()
    return [table]


def measure_case(case: Case, effort: Effort) -> dict[str, object]:
    donor = start_engine(build_endless_engine(resolve_settings(case.domain, "control", RUNS)))
    sizes = {"one": (1, None), "offspring": (1, case.offspring), "runs": (RUNS, None)}
    calls, work = {}, {}
    for name, (runs, offspring) in sizes.items():
        engine: Engine = build_endless_engine(resolve_settings(case.domain, case.operator, runs, offspring))
        copy_populations(engine, donor)
        work[name] = float(runs * (offspring or 1) * STEPS)
        calls[name] = make_stepper(engine, STEPS)
        time_call(calls[name])
        if engine.reuses_sensitivities and not effort.quick:
            # After a generation, the share of parents that already had a child no longer changes.
            time_call(calls[name], -(-engine.state.population * runs // int(work[name])))
    timings = interleave(calls, effort)
    seconds = {name: require_timing(timings, name).seconds for name in calls}
    rates = {name: compute_rate(seconds[name], work[name]) for name in calls}
    share = compute_ratio(seconds["runs"], seconds["offspring"], work["offspring"] / work["runs"])
    held = rates["offspring"].median >= case.rate if case.rate is not None else share.median >= (case.share or 0.0)
    return {
        "domain": case.domain,
        "operator": case.operator,
        "offspring": case.offspring,
        "one child": rates["one"],
        "offspring: evaluations/s": rates["offspring"],
        f"{RUNS} runs": rates["runs"],
        "x one child": compute_ratio(seconds["one"], seconds["offspring"], work["offspring"] / work["one"]),
        f"x {RUNS} runs": share,
        "target": case.rate if case.rate is not None else case.share,
        "held": held,
    }
