"""The paper's look back: how much of what was evolved survives a mutation, by each operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfsm.contracts import Domain, Evaluation, Mutation, Scored, Tensor
from tfsm.errors import TfsmError
from tfsm.evolution.initial import Initial
from tfsm.experiments.collect import collect
from tfsm.experiments.mutants import Tryout, operator_for
from tfsm.experiments.outcomes import Method, Outcome
from tfsm.experiments.parts import build_part
from tfsm.experiments.past import open_run
from tfsm.experiments.retention import Retained, Robustness
from tfsm.experiments.settings import Settings
from tfsm.experiments.statistics import retained
from tfsm.kernels.noise import fold, root_seed
from tfsm.models.selecting import network_of
from tfsm.plugins import Plugins

AT_ONCE = 50
"""Mutants made and evaluated together."""

RANDOM = 100
"""Random networks that say what somebody gets who has learned nothing, where the domain does not."""


@dataclass(frozen=True)
class _Solution:
    """A champion, and which run of which method it is from."""

    method: str
    run: int
    genome: Tensor


def robustness(
    plugins: Plugins,
    directories: Sequence[Path],
    *,
    mutations: Sequence[str],
    perturbations: int,
    histogram: int,
    seed: int = 0,
    config: Path | None = None,
    everybody: bool = False,
    trust: bool = False,
    tell: Callable[[int, int, str], None] = lambda done, of, what: None,
) -> Robustness:
    """Perturb every solution by every operator, and say how much of its performance is left.

    Args:
        plugins: where the parts come from.
        directories: run directories or studies, all of one domain.
        mutations: the operators; each as it is set for the domain.
        perturbations: mutants of each solution by each operator.
        histogram: mutants of each method's representative solution by its own operator; 0 for none.
        seed: decides the mutants.
        config: the user's settings file.
        everybody: take champions of runs that were not solved, too.
        trust: load champions whatever is in their files.
        tell: told how many of how many solutions are done.
    """
    studies = collect(directories)
    if len(studies) > 1:
        raise TfsmError(
            f"expected one domain, got {', '.join(study.domain for study in studies)}: name them one by one"
        )
    study = studies[0]
    chosen = {method.name: _chosen(method, everybody) for method in study.methods}
    if not any(chosen.values()):
        raise TfsmError(
            f"no run of {study.domain} was solved, so there is no solution to perturb; --all takes all runs"
        )
    pasts = {method.name: open_run(_directory(method), trust=trust) for method in study.methods}
    first = next(method.name for method in study.methods if chosen[method.name])
    settings = pasts[first].settings
    domain: Domain = build_part(plugins.domains[study.domain], settings.domain_options)
    model = pasts[first].champion(chosen[first][0].run)
    tryout = Tryout(domain, network_of(model, settings.mutated_layers), jit=pasts[first].jit)
    measure = _measure(domain, tryout, Initial(settings.init, settings.init_scale), seed)
    used = {past.settings.mutation: past.settings for past in pasts.values()}
    operators = [operator_for(plugins, used.get(name, settings), name, None, config) for name in mutations]

    entries, samples = [], []
    total, done = sum(map(len, chosen.values())), 0
    for place, method in enumerate(study.methods):
        past = pasts[method.name]
        middle = _representative(chosen[method.name])
        for outcome in chosen[method.name]:
            tell(done, total, f"{method.name}, run {outcome.run}")
            genome = tf.constant(tryout.network.genome_of(past.champion(outcome.run)), tryout.network.dtype)
            solution = _Solution(method.name, outcome.run, genome)
            own_seed = fold(root_seed(seed), place, outcome.run)
            for number, operator in enumerate(operators):
                entries.append(_tried(tryout, measure, operator, solution, perturbations, fold(own_seed, number)))
            if outcome is middle and histogram:
                operator = operator_for(plugins, past.settings, past.settings.mutation, None, config)
                samples.append(_tried(tryout, measure, operator, solution, histogram, fold(own_seed, -1)))
            done += 1
    tell(done, total, "done")
    return Robustness(study.domain, measure.name, perturbations, measure.nothing, tuple(entries), tuple(samples))


@dataclass(frozen=True)
class _Measure:
    """How well somebody did."""

    name: str
    nothing: float
    """What somebody gets who has achieved nothing."""
    of: Callable[[Evaluation], Tensor]


def _measure(domain: Domain, tryout: Tryout, initial: Initial, seed: int) -> _Measure:
    if isinstance(domain, Scored):
        return _Measure(domain.performance_name, 0.0, domain.performance)
    seeds = fold(root_seed(seed), -2, tf.range(RANDOM))
    fitness = tryout.evaluate(initial.genomes(tryout.network, seeds)).fitness.numpy()
    finite = fitness[np.isfinite(fitness)]
    nothing = float(np.median(finite)) if finite.size else 0.0
    return _Measure("fitness above that of random networks", nothing, lambda found: found.fitness)


def _tried(
    tryout: Tryout,
    measure: _Measure,
    operator: tuple[Settings, Mutation],
    solution: _Solution,
    count: int,
    seed: Tensor,
) -> Retained:
    """Return how mutants of a solution do."""
    settings, mutation = operator
    width = min(count, AT_ONCE)
    parents, seen = tryout.seen_by(solution.genome, width)
    before = float(measure.of(tryout.evaluate(parents))[0])
    after: list[np.ndarray] = []
    for chunk in range(-(-count // width)):
        made = tryout.mutants(mutation, settings.intensity, parents, seen, fold(seed, chunk))
        after.append(measure.of(tryout.evaluate(made)).numpy())
    performance = np.concatenate(after)[:count]
    left = retained(before, performance, measure.nothing)
    return Retained(solution.method, solution.run, settings.mutation, settings.intensity, before, performance, left)


def _chosen(method: Method, everybody: bool) -> list[Outcome]:
    return [outcome for outcome in method.outcomes if outcome.solved or everybody]


def _representative(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the run in the middle, by how long it took."""
    ordered = sorted(outcomes, key=lambda outcome: (outcome.evaluations, outcome.run))
    return ordered[len(ordered) // 2] if ordered else None


def _directory(method: Method) -> Path:
    assert method.directory is not None, "collected from a directory"
    return method.directory
