"""Robustness of solutions to mutation, and summaries of their sensitivity to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import tensorflow as tf

from tfsm.abilities import SupportsAnyModel, SupportsPerformance
from tfsm.analysis import Verdict, compare_retention, holm, retention
from tfsm.analysis.results import Method, RunOutcome, load_studies
from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import needs_autograph
from tfsm.evolution.evaluation import Evaluator
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.variation import mutate_batch
from tfsm.interfaces import Domain, Evaluation, Mutation, Nest, Tensor
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network, build_network
from tfsm.plugins import Plugins
from tfsm.plugins.options import NoOptions, describe
from tfsm.plugins.registry import build_part
from tfsm.runs.build import divergence_target
from tfsm.runs.result import open_run
from tfsm.settings import Settings, resolve
from tfsm.utils.files import read_json, to_json, write_json

ROBUSTNESS_FOLDER: Final = "robustness"
ROBUSTNESS_FILE: Final = "robustness.json"
BATCH_SIZE: Final = 50
"""Mutants made and evaluated together."""
RANDOM_NETWORKS: Final = 100
"""Random networks whose median fitness is the zero of performance, if the domain does not define performance."""
FLOOR: Final = 0.01
"""The paper's guard: the operators' default for the smallest sensitivity that noise is divided by."""
GUARD_SHARE: Final = 0.01
"""The relative guard: the same as a share of the root mean square, by the operators' default."""


@dataclass(frozen=True)
class MutantSample:
    """Mutants of one solution by one operator."""

    method: str
    """The method that evolved the solution."""
    run: int
    operator: str
    intensity: float
    before: float
    """Performance of the solution itself."""
    performance: np.ndarray
    """`[n]`: performance of its mutants."""
    fraction: np.ndarray
    """`[n]`: the fraction of the solution's performance that each retains."""

    @property
    def mean(self) -> float:
        """Mean fraction retained: the robustness of the solution to this operator."""
        return float(self.fraction.mean())


@dataclass(frozen=True)
class OperatorComparison:
    """Test of two operators on the solutions of one method."""

    method: str
    first: str
    second: str
    verdict: Verdict


@dataclass(frozen=True)
class Robustness:
    """Performance of mutants of all solutions, by all operators."""

    domain: str
    measure: str
    """What performance means."""
    perturbations: int
    nothing: float
    """The performance that counts as zero."""
    entries: tuple[MutantSample, ...]
    samples: tuple[MutantSample, ...]
    """Many mutants of one solution per method, by the operator that evolved it."""

    @property
    def methods(self) -> list[str]:
        """The methods that evolved solutions."""
        return list(dict.fromkeys(entry.method for entry in self.entries))

    @property
    def operators(self) -> list[str]:
        """The operators that perturbed them."""
        return list(dict.fromkeys(entry.operator for entry in self.entries))

    def means(self, method: str, operator: str) -> np.ndarray:
        """Return the robustness `[n]` of each solution of a method to an operator."""
        return np.array([e.mean for e in self.entries if (e.method, e.operator) == (method, operator)])

    def pairs(self) -> list[OperatorComparison]:
        """Compare all pairs of operators per method; p-values are adjusted over all tests by Holm's method."""
        comparisons = [
            OperatorComparison(
                method, first, second, compare_retention(self.means(method, first), self.means(method, second))
            )
            for method in self.methods
            for first, second in combinations(self.operators, 2)
        ]
        adjusted = holm([pair.verdict.p for pair in comparisons])
        return [
            replace(pair, verdict=replace(pair.verdict, adjusted=p))
            for pair, p in zip(comparisons, adjusted, strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        header = asdict(replace(self, entries=(), samples=()))
        return header | {"entries": _to_json(self.entries), "samples": _to_json(self.samples)}

    def save(self, file: Path) -> None:
        """Write it to a JSON file."""
        write_json(file, self.as_dict())

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read it from a JSON file."""
        record = read_json(file)
        try:
            entries, samples = (tuple(map(_from_json, record[key])) for key in ("entries", "samples"))
            header = {key: record[key] for key in ("domain", "measure", "perturbations", "nothing")}
            return cls(entries=entries, samples=samples, **header)
        except (KeyError, TypeError) as error:
            raise TfsmError(f"{file}: not a robustness record: {type(error).__name__}: {error}") from None


def _to_json(entries: Sequence[MutantSample]) -> list[dict[str, Any]]:
    return [
        asdict(entry)
        | {
            "performance": to_json(entry.performance),
            "fraction": [round(float(x), 6) for x in entry.fraction],
        }
        for entry in entries
    ]


def _from_json(record: dict[str, Any]) -> MutantSample:
    arrays = {
        key: np.array([np.nan if x is None else x for x in record[key]], float) for key in ("performance", "fraction")
    }
    return MutantSample(**{**record, **arrays})


def build_operator(
    plugins: Plugins, settings: Settings, name: str, intensity: float | None, config: Path | None
) -> tuple[Settings, Mutation]:
    """Build an operator with its settings for a domain, or with those of the run if it is the run's own operator."""
    if name != settings.mutation or intensity is not None:
        # Other operators are compared at the run's own divergence, if it has one.
        overrides = {"intensity": intensity, "divergence": settings.divergence if intensity is None else None}
        # Options without a default, such as an environment, are those of the run.
        options = describe(plugins.domains[settings.domain].with_options().options or NoOptions)
        sets = [f"domain.{option.name}={settings.domain_options[option.name]}" for option in options if option.required]
        settings = resolve(
            plugins, domain=settings.domain, mutation=name, overrides=overrides, sets=sets, config=config
        ).settings
    return settings, build_part(plugins.mutations[name], settings.mutation_options)


class MutantEvaluator:
    """Makes mutants of networks of one architecture, and evaluates them.

    Args:
        domain: The domain.
        network: A network of the architecture.
        jit: Whether XLA compiles the evaluations, as in the run.
    """

    def __init__(self, domain: Domain, network: Network, *, jit: bool) -> None:
        self._domain, self.network = domain, network
        self._evaluate = Evaluator(domain, network, jit=jit)
        _ = self._evaluate.template  # before the first call
        # By the identity of the operator, which is kept alive so that no other operator can get its identity.
        self._compiled: dict[tuple[int, int], tuple[Mutation, Callable[..., Tensor]]] = {}

    def evaluate(self, genomes: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]`."""
        count = genomes.shape[0]
        return self._evaluate(genomes, tf.zeros([count, 2], tf.int32), tf.ones([count], tf.bool))

    def gather_experience(self, genome: Tensor, count: int) -> tuple[Tensor, Nest]:
        """Return `count` copies of a genome `[P]`, and the experience of each."""
        # A single copy would be rounded differently.
        parents = tf.repeat(tf.convert_to_tensor(genome)[None], max(2, count), axis=0)
        return parents, self.evaluate(parents).experience

    def mutate(self, mutation: Mutation, settings: Settings, parents: Tensor, experience: Nest, seed: Tensor) -> Tensor:
        """Return one mutant per parent `[B, P]` at the settings' intensity or divergence; the seed is `[2]`."""
        target = divergence_target(settings)
        arguments = (
            parents,
            experience,
            tf.constant(settings.strength, self.network.dtype),
            fold_in(seed, 0, tf.range(parents.shape[0])),
        )
        key = (id(mutation), parents.shape[0])
        if key not in self._compiled:
            # Traced by hand: TensorFlow counts traces per line of code, and would warn of retracing here.
            specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), arguments)

            def make(parents: Tensor, experience: Nest, intensity: Tensor, seeds: Tensor) -> Tensor:
                observed = self._domain.observe(experience)
                return mutate_batch(mutation, self.network, parents, observed, intensity, seeds, target=target).genome

            self._compiled[key] = (
                mutation,
                tf.function(make, autograph=needs_autograph(self._domain, mutation)).get_concrete_function(*specs),
            )
        _, compiled = self._compiled[key]
        return compiled(*arguments)


@dataclass(frozen=True)
class _Solution:
    """A champion, with its method and run."""

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
    include_unsolved: bool = False,
    trust: bool = False,
    on_progress: Callable[[int, int, str], None] = lambda done, total, description: None,
) -> Robustness:
    """Perturb every solution with every operator, and measure how much of its performance it retains.

    Args:
        plugins: The loaded plugins.
        directories: Run directories or studies, all of one domain.
        mutations: Names of the operators; each has its settings for the domain.
        perturbations: Mutants per solution and operator.
        histogram: Mutants of each method's representative solution by its own operator; 0 for none.
        seed: Random seed of the mutants.
        config: The user's settings file.
        include_unsolved: Include the champions of unsolved runs.
        trust: Load champions without safety checks.
        on_progress: Called with the number of solutions done, their total, and a description.
    """
    studies = load_studies(directories)
    if len(studies) > 1:
        raise TfsmError(
            f"expected one domain, got {', '.join(study.domain for study in studies)}: measure them one at a time"
        )
    study = studies[0]
    chosen = {method.name: _select_outcomes(method, include_unsolved) for method in study.methods}
    if not any(chosen.values()):
        raise TfsmError(
            f"no run of {study.domain} was solved, so there is no solution to perturb; --all includes unsolved runs"
        )
    finished_runs = {method.name: open_run(_directory(method), trust=trust) for method in study.methods}
    first = next(method.name for method in study.methods if chosen[method.name])
    settings = finished_runs[first].settings
    domain: Domain = build_part(plugins.domains[study.domain], settings.domain_options)
    model = finished_runs[first].champion(chosen[first][0].run)
    domain = domain.for_model(model) if isinstance(domain, SupportsAnyModel) else domain
    network = build_network(model, settings.mutated_layers)
    evaluator = MutantEvaluator(domain, network, jit=finished_runs[first].jit)
    measure = _choose_measure(domain, evaluator, Initializer(settings.init, settings.init_scale), seed)
    own_settings = {run.settings.mutation: run.settings for run in finished_runs.values()}
    operators = [build_operator(plugins, own_settings.get(name, settings), name, None, config) for name in mutations]

    entries, samples = [], []
    total, done = sum(map(len, chosen.values())), 0
    for index, method in enumerate(study.methods):
        finished_run = finished_runs[method.name]
        representative = _median_run(chosen[method.name])
        for outcome in chosen[method.name]:
            on_progress(done, total, f"{method.name}, run {outcome.run}")
            champion = network.genome_of(finished_run.champion(outcome.run))
            solution = _Solution(method.name, outcome.run, tf.constant(champion, network.dtype))
            solution_seed = fold_in(root_seed(seed), index, outcome.run)
            for number, operator in enumerate(operators):
                operator_seed = fold_in(solution_seed, number)
                entries.append(_perturb(evaluator, measure, operator, solution, perturbations, operator_seed))
            if outcome is representative and histogram:
                run_settings = finished_run.settings
                operator = build_operator(plugins, run_settings, run_settings.mutation, None, config)
                samples.append(_perturb(evaluator, measure, operator, solution, histogram, fold_in(solution_seed, -1)))
            done += 1
    on_progress(done, total, "done")
    return Robustness(study.domain, measure.name, perturbations, measure.zero, tuple(entries), tuple(samples))


@dataclass(frozen=True)
class _PerformanceMeasure:
    """How performance is computed."""

    name: str
    zero: float
    """The performance that counts as zero."""
    compute: Callable[[Evaluation], Tensor]


def _choose_measure(domain: Domain, evaluator: MutantEvaluator, initial: Initializer, seed: int) -> _PerformanceMeasure:
    if isinstance(domain, SupportsPerformance):
        return _PerformanceMeasure(domain.performance_name, 0.0, domain.performance)
    seeds = fold_in(root_seed(seed), -2, tf.range(RANDOM_NETWORKS))
    fitness = evaluator.evaluate(initial.genomes(evaluator.network, seeds)).fitness.numpy()
    finite = fitness[np.isfinite(fitness)]
    zero = float(np.median(finite)) if finite.size else 0.0
    return _PerformanceMeasure("fitness above that of random networks", zero, lambda evaluation: evaluation.fitness)


def _perturb(
    evaluator: MutantEvaluator,
    measure: _PerformanceMeasure,
    operator: tuple[Settings, Mutation],
    solution: _Solution,
    count: int,
    seed: Tensor,
) -> MutantSample:
    """Evaluate mutants of a solution."""
    settings, mutation = operator
    width = min(count, BATCH_SIZE)
    parents, experience = evaluator.gather_experience(solution.genome, width)
    before = float(measure.compute(evaluator.evaluate(parents))[0])
    after: list[np.ndarray] = []
    for chunk in range(-(-count // width)):
        mutants = evaluator.mutate(mutation, settings, parents, experience, fold_in(seed, chunk))
        after.append(measure.compute(evaluator.evaluate(mutants)).numpy())
    performance = np.concatenate(after)[:count]
    fraction = retention(before, performance, measure.zero)
    return MutantSample(
        solution.method, solution.run, settings.mutation, settings.strength, before, performance, fraction
    )


def _select_outcomes(method: Method, include_unsolved: bool) -> list[RunOutcome]:
    return [outcome for outcome in method.outcomes if outcome.solved or include_unsolved]


def _median_run(outcomes: Sequence[RunOutcome]) -> RunOutcome | None:
    """Return the run with the median number of evaluations."""
    ordered = sorted(outcomes, key=lambda outcome: (outcome.evaluations, outcome.run))
    return ordered[len(ordered) // 2] if ordered else None


def _directory(method: Method) -> Path:
    assert method.directory is not None, "loaded from a directory"
    return method.directory


@dataclass(frozen=True)
class SensitivitySummary:
    """Distribution of the sensitivities of some weights."""

    name: str
    """Name of the layer."""
    weights: int
    median: float
    low: float
    """5th percentile."""
    high: float
    """95th percentile."""
    zero: float
    """Share of weights with sensitivity zero: the outputs do not depend on them."""
    floored: float
    """Share of weights above zero but below `FLOOR`, which the paper's guard raises to it."""
    guarded: float
    """Share of weights at zero, or below `GUARD_SHARE` of the whole network's root mean square: the relative guard."""


def summarize_sensitivity(name: str, values: np.ndarray, whole: np.ndarray) -> SensitivitySummary:
    """Summarize the sensitivities of some weights of a network with the sensitivities `whole`.

    >>> values = np.array([0.0, 0.005, 1.0, 3.0, 4.0])
    >>> summary = summarize_sensitivity("dense", values, values)
    >>> summary.median, summary.zero, summary.floored, summary.guarded
    (1.0, 0.2, 0.2, 0.4)
    """
    low, median, high = (float(value) for value in np.quantile(values.astype(np.float64), [0.05, 0.5, 0.95]))
    floored = (values > 0) & (values < FLOOR)
    bound = GUARD_SHARE * np.sqrt(np.mean(np.square(whole, dtype=np.float64)))
    guarded = (values == 0) | (values < bound)
    return SensitivitySummary(
        name,
        values.size,
        median,
        low,
        high,
        zero=float(np.mean(values == 0)),
        floored=float(np.mean(floored)),
        guarded=float(np.mean(guarded)),
    )
