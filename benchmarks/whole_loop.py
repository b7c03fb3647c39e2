"""Part (b): evaluations per second of the whole loop, in lock step, beside plain Keras loops of the same algorithm."""

from __future__ import annotations

import gc
from collections.abc import Callable

from benchmarks.agreement import check
from benchmarks.arithmetic import Spread, rate, ratio
from benchmarks.cases import OPERATORS
from benchmarks.engines import advance, begun, engine_of, settings_of, started
from benchmarks.logged import logged_table
from benchmarks.measure import Effort, Failure, Timing, clock, interleave, needed
from benchmarks.plain.eager import Eager
from benchmarks.plain.graph import Graph
from benchmarks.plain.population import Population
from benchmarks.plain.tasks import task_of
from benchmarks.results import Table
from tfsm.evolution.engine import Engine
from tfsm.settings import Settings

WIDEST = 20
DOMAINS = {"simple-washout": (WIDEST,), "parity": (1, 5, WIDEST), "hard-maze": (WIDEST,)}
"""One domain of each kind, with the numbers of runs: the other simple models differ in their data alone, and large
networks are part (a)'s and (d)'s. Compiling takes most of the time, so that only one domain is worth three widths.
"""
STEPS = 16
TARGET = {"control": 16_000, "sm-g-sum": 6_000, "sm-g-so": 5_000, "sm-g-abs": 3_000, "sm-r": 2_500}
NOTES = [
    "Evaluations a second of all runs together: select, mutate, evaluate, replace; one core, compiling left out.",
    "'eager': model.set_weights, model(x) and GradientTape, one child at a time. 'tf.function': child and evaluation "
    "in one compiled call, one child at a time. Both have the same population, selection and operator.",
    "Targets for parity at 20 runs: 100 x eager, 5 x tf.function, and the rate in the column 'target'.",
]


def run(effort: Effort) -> list[Table]:
    table = Table("whole_loop", "(b) evaluations a second of the whole loop", notes=NOTES)
    agreement = Table("agreement", "(b) do the plain loops compute the same? largest difference from tfsm")
    domains = {"parity": (WIDEST,)} if effort.quick else DOMAINS
    operators = ("control",) if effort.quick else OPERATORS
    for domain, widths in domains.items():
        donor = begun(engine_of(settings_of(domain, "control", WIDEST)))
        for operator in operators:
            table.rows += rows(domain, operator, widths, donor, effort, agreement)
            gc.collect()
    # The faster the step, the more logging weighs: what holds for the control holds for all.
    logged = [] if effort.quick else [logged_table(("control",))]
    return [table, agreement, *logged]


def rows(
    domain: str, operator: str, widths: tuple[int, ...], donor: Engine, effort: Effort, agreement: Table
) -> list[dict[str, object]]:
    sides: dict[str, Callable[[], object]] = {}
    compiling: dict[str, float] = {}
    for runs in widths:
        engine = started(engine_of(settings_of(domain, operator, runs)), donor)
        sides[str(runs)] = advance(engine, STEPS)
        compiling[str(runs)] = clock(sides[str(runs)])
        if engine.reuses and not effort.quick:
            # A generation later the share of parents that had a child before is what it will stay.
            clock(sides[str(runs)], -(-engine.state.population // STEPS))
    loops = plain_loops(settings_of(domain, operator, 1), donor)
    if loops:
        agreement.rows.append({"domain": domain, "operator": operator, **check(domain, operator, donor, loops)})
    sides |= {name: stepping(loop, donor, domain) for name, loop in loops.items()}
    found = interleave(sides, effort)
    return [row(domain, operator, runs, found) | {"first call s": compiling[str(runs)]} for runs in widths]


def row(domain: str, operator: str, runs: int, found: dict[str, Timing | Failure]) -> dict[str, object]:
    mine = needed(found, str(runs))
    work = float(runs * STEPS)
    speed = rate(mine.seconds, work)
    filled: dict[str, object] = {"domain": domain, "operator": operator, "runs": runs, "evaluations/s": speed}
    target = TARGET.get(operator) if domain == "parity" and runs == WIDEST else None
    filled |= {"target": target, "held": None if target is None else speed.median >= target}
    for name, least in (("eager", 100), ("tf.function", 5)):
        other = found.get(name)
        if isinstance(other, Timing):
            times: Spread = ratio(other.seconds, mine.seconds, work)
            filled |= {name: rate(other.seconds, 1.0), f"x {name}": times}
            filled[f">= {least}"] = times.median >= least if target is not None else None
        elif other is not None:
            filled[name] = other.reason
    return filled


def plain_loops(settings: Settings, donor: Engine) -> dict[str, Eager | Graph]:
    """Return the plain loops of a domain's task, if somebody has written it out."""
    task = task_of(settings.domain)
    if task is None:
        return {}
    arguments = (task, settings.mutation, settings.intensity, settings.mutation_options)
    model = donor.network.model
    return {"eager": Eager(model, *arguments), "tf.function": Graph(model, *arguments)}


def stepping(loop: Eager | Graph, donor: Engine, domain: str) -> Callable[[], object]:
    """Return one step of a plain loop that starts from run 0's population."""
    state = donor.state
    selection = settings_of(domain, "control", 1).selection
    population = Population(state.genomes[0].numpy(), state.fitness[0].numpy(), selection)
    return lambda: population.advance(loop.reproduce)
