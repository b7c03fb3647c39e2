"""Mutants of solutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfsm.analysis import Verdict, compare_retention, holm, retention
from tfsm.analysis.results import Method, RunOutcome, load_studies
from tfsm.errors import TfsmError
from tfsm.evolution.evaluation import Evaluator
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.variation import mutate_batch
from tfsm.interfaces import Domain, Evaluation, Mutation, Nest, SupportsPerformance, Tensor
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network, build_network
from tfsm.plugins import Plugins
from tfsm.plugins.registry import build_part
from tfsm.runs.finished_run import open_run
from tfsm.runs.records import read_json, write_json
from tfsm.settings import Settings, resolve

ROBUSTNESS_FILE: Final = "robustness.json"


@dataclass(frozen=True)
class MutantSample:
    """Mutants of one solution by one operator."""

    method: str
    """What evolved the solution."""
    run: int
    operator: str
    intensity: float
    before: float
    """The solution's performance."""
    performance: np.ndarray
    """`[n]`, of its mutants."""
    fraction: np.ndarray
    """`[n]`, of the solution's performance that they retain."""

    @property
    def mean(self) -> float:
        """The solution's robustness to this operator."""
        return float(self.fraction.mean())


@dataclass(frozen=True)
class OperatorComparison:
    """Two operators, on the solutions of one method."""

    method: str
    first: str
    second: str
    verdict: Verdict


@dataclass(frozen=True)
class Robustness:
    """All of it."""

    domain: str
    measure: str
    """What performance is."""
    perturbations: int
    nothing: float
    """The performance of somebody who has achieved nothing."""
    entries: tuple[MutantSample, ...]
    samples: tuple[MutantSample, ...]
    """Many mutants of one solution of each method, by its own operator."""

    @property
    def methods(self) -> list[str]:
        """What evolved solutions."""
        return list(dict.fromkeys(entry.method for entry in self.entries))

    @property
    def operators(self) -> list[str]:
        """What perturbed them."""
        return list(dict.fromkeys(entry.operator for entry in self.entries))

    def means(self, method: str, operator: str) -> np.ndarray:
        """Return the robustness `[n]` of each solution of a method to an operator."""
        return np.array([e.mean for e in self.entries if (e.method, e.operator) == (method, operator)])

    def pairs(self) -> list[OperatorComparison]:
        """Compare all operators on the solutions of each method; adjusted over all of it by Holm's method."""
        found = [
            OperatorComparison(
                method, first, second, compare_retention(self.means(method, first), self.means(method, second))
            )
            for method in self.methods
            for first, second in combinations(self.operators, 2)
        ]
        adjusted = holm([pair.verdict.p for pair in found])
        return [
            replace(pair, verdict=replace(pair.verdict, adjusted=p)) for pair, p in zip(found, adjusted, strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        plain = asdict(replace(self, entries=(), samples=()))
        return plain | {"entries": _plain(self.entries), "samples": _plain(self.samples)}


def _plain(entries: Sequence[MutantSample]) -> list[dict[str, Any]]:
    return [
        asdict(entry)
        | {
            # What is not finite has no place in JSON.
            "performance": [float(x) if np.isfinite(x) else None for x in entry.performance],
            "fraction": [round(float(x), 6) for x in entry.fraction],
        }
        for entry in entries
    ]


def save(robustness: Robustness, file: Path) -> None:
    """Write all of it to a file."""
    write_json(file, robustness.as_dict())


def load(file: Path) -> Robustness:
    """Read it again."""
    record = read_json(file)
    try:
        entries, samples = (tuple(map(_entry, record[key])) for key in ("entries", "samples"))
        rest = {key: record[key] for key in ("domain", "measure", "perturbations", "nothing")}
        return Robustness(entries=entries, samples=samples, **rest)
    except (KeyError, TypeError) as error:
        raise TfsmError(f"{file}: not the record of robustness: {type(error).__name__}: {error}") from None


def _entry(record: dict[str, Any]) -> MutantSample:
    arrays = {
        key: np.array([np.nan if x is None else x for x in record[key]], float) for key in ("performance", "fraction")
    }
    return MutantSample(**{**record, **arrays})


def build_operator(
    plugins: Plugins, settings: Settings, name: str, intensity: float | None, config: Path | None
) -> tuple[Settings, Mutation]:
    """Return an operator with the settings that it has for a domain; those of a run where it is the run's own."""
    if name != settings.mutation or intensity is not None:
        overrides = {"intensity": intensity}
        settings = resolve(plugins, domain=settings.domain, mutation=name, overrides=overrides, config=config).settings
    return settings, build_part(plugins.mutations[name], settings.mutation_options)


class MutantEvaluator:
    """Evaluates networks of one architecture, and makes mutants of them.

    Args:
        domain: the domain.
        network: a network of the architecture.
        jit: whether evaluations are compiled by XLA, as they were in the run.
    """

    def __init__(self, domain: Domain, network: Network, *, jit: bool) -> None:
        self._domain, self.network = domain, network
        self._evaluate = Evaluator(domain, network, jit=jit)
        self._evaluate.template(tf.constant(network.genome[None], network.dtype), tf.zeros([1, 2], tf.int32))
        self._makers: dict[tuple[int, int], Callable[..., Tensor]] = {}

    def evaluate(self, genomes: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]`."""
        count = genomes.shape[0]
        return self._evaluate(genomes, tf.zeros([count, 2], tf.int32), tf.ones([count], tf.bool))

    def gather_experience(self, genome: Tensor, count: int) -> tuple[Tensor, Nest]:
        """Return a genome `[P]` so many times, and what each saw."""
        # One alone would be rounded in another way.
        parents = tf.repeat(tf.convert_to_tensor(genome)[None], max(2, count), axis=0)
        return parents, self.evaluate(parents).experience

    def mutants(self, mutation: Mutation, intensity: float, parents: Tensor, seen: Nest, seed: Tensor) -> Tensor:
        """Return a mutant `[B, P]` of each of parents `[B, P]` that saw `seen`; each decided by the seed `[2]`."""
        given = (
            parents,
            seen,
            tf.constant(intensity, self.network.dtype),
            fold_in(seed, 0, tf.range(parents.shape[0])),
        )
        key = (id(mutation), parents.shape[0])
        if key not in self._makers:
            # Traced by hand: TensorFlow counts by the line of code, and would warn of retracing where there is none.
            specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), given)
            make = tf.function(_maker(mutation, self.network, self._domain))
            self._makers[key] = make.get_concrete_function(*specs)
        return self._makers[key](*given)


def _maker(mutation: Mutation, network: Network, domain: Domain) -> Callable[..., Tensor]:
    def make(parents: Tensor, experience: Nest, strength: Tensor, seeds: Tensor) -> Tensor:
        return mutate_batch(mutation, network, parents, domain.observe(experience), strength, seeds).genome

    return make


BATCH_SIZE = 50
"""Mutants made and evaluated together."""

RANDOM_NETWORKS = 100
"""Random networks that say what somebody gets who has learned nothing, where the domain does not."""


@dataclass(frozen=True)
class _Solution:
    """A champion, and which run of which method it is from."""

    method: str
    run: int
    genome: Tensor


def measure_robustness(
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
    studies = load_studies(directories)
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
    tryout = MutantEvaluator(domain, build_network(model, settings.mutated_layers), jit=pasts[first].jit)
    measure = _measure(domain, tryout, Initializer(settings.init, settings.init_scale), seed)
    used = {past.settings.mutation: past.settings for past in pasts.values()}
    operators = [build_operator(plugins, used.get(name, settings), name, None, config) for name in mutations]

    entries, samples = [], []
    total, done = sum(map(len, chosen.values())), 0
    for place, method in enumerate(study.methods):
        past = pasts[method.name]
        middle = _representative(chosen[method.name])
        for outcome in chosen[method.name]:
            tell(done, total, f"{method.name}, run {outcome.run}")
            genome = tf.constant(tryout.network.genome_of(past.champion(outcome.run)), tryout.network.dtype)
            solution = _Solution(method.name, outcome.run, genome)
            own_seed = fold_in(root_seed(seed), place, outcome.run)
            for number, operator in enumerate(operators):
                entries.append(_tried(tryout, measure, operator, solution, perturbations, fold_in(own_seed, number)))
            if outcome is middle and histogram:
                operator = build_operator(plugins, past.settings, past.settings.mutation, None, config)
                samples.append(_tried(tryout, measure, operator, solution, histogram, fold_in(own_seed, -1)))
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


def _measure(domain: Domain, tryout: MutantEvaluator, initial: Initializer, seed: int) -> _Measure:
    if isinstance(domain, SupportsPerformance):
        return _Measure(domain.performance_name, 0.0, domain.performance)
    seeds = fold_in(root_seed(seed), -2, tf.range(RANDOM_NETWORKS))
    fitness = tryout.evaluate(initial.genomes(tryout.network, seeds)).fitness.numpy()
    finite = fitness[np.isfinite(fitness)]
    nothing = float(np.median(finite)) if finite.size else 0.0
    return _Measure("fitness above that of random networks", nothing, lambda found: found.fitness)


def _tried(
    tryout: MutantEvaluator,
    measure: _Measure,
    operator: tuple[Settings, Mutation],
    solution: _Solution,
    count: int,
    seed: Tensor,
) -> MutantSample:
    """Return how mutants of a solution do."""
    settings, mutation = operator
    width = min(count, BATCH_SIZE)
    parents, seen = tryout.gather_experience(solution.genome, width)
    before = float(measure.of(tryout.evaluate(parents))[0])
    after: list[np.ndarray] = []
    for chunk in range(-(-count // width)):
        made = tryout.mutants(mutation, settings.intensity, parents, seen, fold_in(seed, chunk))
        after.append(measure.of(tryout.evaluate(made)).numpy())
    performance = np.concatenate(after)[:count]
    left = retention(before, performance, measure.nothing)
    return MutantSample(solution.method, solution.run, settings.mutation, settings.intensity, before, performance, left)


def _chosen(method: Method, everybody: bool) -> list[RunOutcome]:
    return [outcome for outcome in method.outcomes if outcome.solved or everybody]


def _representative(outcomes: Sequence[RunOutcome]) -> RunOutcome | None:
    """Return the run in the middle, by how long it took."""
    ordered = sorted(outcomes, key=lambda outcome: (outcome.evaluations, outcome.run))
    return ordered[len(ordered) // 2] if ordered else None


def _directory(method: Method) -> Path:
    assert method.directory is not None, "collected from a directory"
    return method.directory


FLOOR: Final = 0.01
"""The operators' default for the least sensitivity that noise is divided by."""


@dataclass(frozen=True)
class SensitivitySummary:
    """The sensitivities of some weights, summed up."""

    name: str
    """The layer's."""
    weights: int
    median: float
    low: float
    """5 % are below."""
    high: float
    """5 % are above."""
    zero: float
    """Share of weights that the outputs do not depend on at all."""
    floored: float
    """Share of the weights above zero but below the floor, which the operators raise to it."""


def summarize_sensitivity(name: str, values: np.ndarray) -> SensitivitySummary:
    """Sum up sensitivities.

    >>> found = summarize_sensitivity("dense", np.array([0.0, 0.005, 1.0, 3.0, 4.0]))
    >>> found.median, found.zero, found.floored
    (1.0, 0.2, 0.2)
    """
    low, median, high = (float(value) for value in np.quantile(values.astype(np.float64), [0.05, 0.5, 0.95]))
    floored = (values > 0) & (values < FLOOR)
    return SensitivitySummary(
        name, values.size, median, low, high, float(np.mean(values == 0)), float(np.mean(floored))
    )
