"""The compiled step compared with a plain loop, and what must not affect a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.domains import BestReplacesWorst, HostTarget, OneGenomeNoise, Target
from tests.helpers.engines import evolve, make_engine
from tfsm.errors import TfsmError
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.variation import Adaptation
from tfsm.kernels.random import fold_in, root_seed, split
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm_plugins.mutations.crossover import SafeCrossover
from tfsm_plugins.mutations.gradient import SafeMutationAbs, SafeMutationSecondOrder, SafeMutationSum
from tfsm_plugins.mutations.gradient_free import Control, SafeMutationRescale
from tfsm_plugins.selections.map_elites import MapElites
from tfsm_plugins.selections.novelty import Novelty
from tfsm_plugins.selections.steady_state import HillClimber, Tournament
from tfsm_plugins.selections.truncation import Truncation


def plain_loop(
    run: int,
    seed: int,
    population: int,
    evaluations: int,
    mutation: Any,
    selection: Any,
    intensity: float,
    offspring: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Run the algorithm of the paper in Python, with parents from the population before each `offspring` children."""
    domain, root = Target(near=0.0), root_seed(seed)
    network = Network(domain.network())
    genomes, fitness, experiences = [], [], []
    for number in range(population):
        draw_seed, evaluate_seed = split(fold_in(root, run, number), 2)
        genome = Initializer("normal", 1.0).genomes(network, draw_seed[None])
        found = domain.evaluate(network, genome, evaluate_seed[None])
        genomes.append(genome[0].numpy())
        fitness.append(float(found.fitness[0]))
        experiences.append(found.experience)
    for number in range(population, evaluations):
        select_seed, mutate_seed, evaluate_seed = split(fold_in(root, run, number), 3)
        if (number - population) % offspring == 0:
            before = list(fitness), list(genomes), list(experiences)
        parent = int(selection.choose(tf.constant([before[0]], tf.float32), select_seed[None]).parent[0])
        replaced = int(selection.choose(tf.constant([fitness], tf.float32), select_seed[None]).replaced[0])
        inputs = domain.observe(before[2][parent])
        genome = tf.constant(before[1][parent][None])
        child = mutation(network, genome, inputs, tf.constant(intensity), mutate_seed[None])
        found = domain.evaluate(network, child, evaluate_seed[None])
        if bool(selection.accepts(found.fitness, tf.constant([fitness[replaced]]))[0]):
            genomes[replaced], fitness[replaced] = child[0].numpy(), float(found.fitness[0])
            experiences[replaced] = found.experience
    return np.array(genomes), np.array(fitness)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("mutation", "selection", "population", "offspring"),
    [
        (SafeMutationSum(), Tournament(size=2, removal="same"), 5, 8),
        (Control(), Tournament(size=3), 6, 1),
        (Control(), HillClimber(), 1, 1),
        (SafeMutationSum(), Tournament(size=2, removal="same"), 5, 1),
        (Control(), HillClimber(), 1, 4),
    ],
)
def test_the_compiled_loop_agrees_with_a_plain_loop(
    mutation: Any, selection: Any, population: int, offspring: int
) -> None:
    engine = make_engine(Target(near=0.0), mutation, selection, population=population, seed=3, offspring=offspring)
    evolve(engine, evaluations=40, seed=3)
    for run in (0, 1):
        genomes, fitness = plain_loop(run, 3, population, 40, mutation, selection, 0.1, offspring)
        np.testing.assert_allclose(engine.state.genomes.numpy()[run], genomes, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(engine.state.fitness.numpy()[run], fitness, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(Control(), marks=pytest.mark.slow),
        pytest.param(SafeMutationSum(), marks=pytest.mark.slow),
        pytest.param(SafeMutationAbs(), marks=pytest.mark.slow),
        pytest.param(SafeMutationSecondOrder(), marks=pytest.mark.slow),
        pytest.param(SafeMutationRescale(), marks=pytest.mark.slow),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_run_is_the_same_alone_or_among_others(mutation: Any) -> None:
    alone, recorder_alone = evolve(make_engine(mutation=mutation, runs=1), runs=1, evaluations=200)
    among, recorder = evolve(make_engine(mutation=mutation, runs=5), runs=5, evaluations=200)
    assert alone[0].evaluations == among[0].evaluations
    assert alone[0].best_fitness == among[0].best_fitness
    np.testing.assert_array_equal(alone[0].champion, among[0].champion)
    assert recorder_alone.metrics == [metric for metric in recorder.metrics if metric["run"] == 0]


def parity() -> Any:
    return build_part(load_plugins().domains["parity"], {"bits": 2, "units": 3})


OFFSPRING: list[Any] = [
    pytest.param({"mutation": SafeMutationSum()}, id="sum"),
    pytest.param({"domain": parity(), "mutation": SafeMutationSum()}, id="parity"),
    pytest.param({"mutation": SafeMutationRescale(), "adaptation": Adaptation("self", 0.3)}, id="self"),
    pytest.param({"domain": HostTarget(near=0.5), "selection": Novelty(size=2, archive=5)}, id="novelty, python"),
    pytest.param({"adaptation": Adaptation("divergence", 0.3, 0.01)}, id="divergence"),
    pytest.param({"mutation": SafeMutationSum(), "compile": "graph", "one_by_one": True}, id="one by one"),
    pytest.param({"domain": parity(), "mutation": SafeCrossover()}, id="recombines"),
    pytest.param({"domain": parity(), "mutation": SafeMutationSecondOrder()}, id="second order"),
]


@pytest.mark.sample(8)
@pytest.mark.parametrize("case", OFFSPRING)
def test_a_run_with_offspring_is_the_same_alone_or_among_others(case: dict[str, Any]) -> None:
    """Bit by bit, whatever shares the batch: other runs, or idle lanes."""
    case = {"domain": Target(near=0.5), "seed": 2, "offspring": 5, **case}
    alone, recorder_alone = evolve(make_engine(runs=1, **case), runs=1, evaluations=63, seed=2)
    among, recorder = evolve(make_engine(runs=5, width=3, **case), runs=5, evaluations=63, seed=2)
    assert alone[0].summary() == among[0].summary()
    assert alone[0].champion.tobytes() == among[0].champion.tobytes()
    assert recorder_alone.metrics == [metric for metric in recorder.metrics if metric["run"] == 0]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "case",
    [{"mutation": SafeMutationSum()}, {"domain": HostTarget(near=0.3), "adaptation": Adaptation("self", 0.3)}],
    ids=["reuse", "self"],
)
def test_a_generation_at_once_is_the_same_as_one_by_one(case: dict[str, Any]) -> None:
    scheme = Truncation(parents=3)
    case = {"domain": Target(near=0.3), "selection": scheme, "population": 10, "intensity": 0.5, **case}
    single, together = make_engine(offspring=1, **case), make_engine(**case)
    assert (single.batches.size, together.batches.size) == (1, 7)
    expected, recorder = evolve(single, evaluations=75)
    results, together_recorder = evolve(together, evaluations=75)
    assert together_recorder.metrics == recorder.metrics
    for before, after in zip(expected, results, strict=True):
        assert before.summary() == after.summary()
        assert before.champion.tobytes() == after.champion.tobytes()
    for name, table in single.state.tables().items():
        assert table.numpy().tobytes() == together.state.tables()[name].numpy().tobytes(), name


def test_a_parent_is_measured_once_per_batch() -> None:
    """A hill-climber has one parent, whatever the number of its children."""
    measured: list[int] = []

    class Counting(SafeMutationSum):
        def sensitivity(self, network: Any, genome: Any, *more: Any) -> Any:
            found = super().sensitivity(network, genome, *more)
            tf.py_function(lambda: measured.append(1), [], [])
            return found

    engine = make_engine(
        Target(near=0.0), Counting(), HillClimber(), population=1, runs=1, offspring=8, compile="graph"
    )
    evolve(engine, runs=1, evaluations=9, log_every=100)
    assert engine.reuses_sensitivities
    assert len(measured) == 2, "one portion for the batch, and one for the log"


@pytest.mark.slow
def test_runs_differ_from_each_other_and_between_seeds() -> None:
    first, _ = evolve(make_engine(runs=3), runs=3)
    other, _ = evolve(make_engine(runs=3, seed=1), runs=3)
    champions = [result.champion.tobytes() for result in (*first, *other)]
    assert len(set(champions)) == 6


@pytest.mark.slow
def test_results_do_not_depend_on_the_width() -> None:
    wide, _ = evolve(make_engine(runs=5), runs=5, evaluations=100)
    narrow, _ = evolve(make_engine(runs=5, width=2), runs=5, evaluations=100)
    assert [result.run for result in narrow] == [0, 1, 2, 3, 4]
    for one, other in zip(wide, narrow, strict=True):
        assert one.evaluations == other.evaluations
        np.testing.assert_array_equal(one.champion, other.champion)


def test_plain_python_domains_evolve_like_compiled_ones() -> None:
    compiled, _ = evolve(make_engine(Target()), evaluations=80)
    hosted, _ = evolve(make_engine(HostTarget()), evaluations=80)
    for one, other in zip(compiled, hosted, strict=True):
        assert one.evaluations == other.evaluations
        np.testing.assert_allclose(one.champion, other.champion, rtol=1e-6)


@pytest.mark.slow
def test_an_operator_for_one_genome_evolves_like_the_batched_one() -> None:
    batched, _ = evolve(make_engine(mutation=Control()))
    mapped, _ = evolve(make_engine(mutation=OneGenomeNoise()))
    for one, other in zip(batched, mapped, strict=True):
        np.testing.assert_allclose(one.champion, other.champion, rtol=1e-6)


def test_a_scheme_for_one_population_is_mapped_over_all() -> None:
    engine = make_engine(Target(near=0.0), selection=BestReplacesWorst())
    before, _ = evolve(engine, evaluations=6)
    after, _ = evolve(engine, evaluations=200)
    for start, end in zip(before, after, strict=True):
        assert end.best_fitness > start.best_fitness


@pytest.mark.slow
def test_a_broken_network_has_no_descendants() -> None:
    engine = make_engine(Target(near=0.0, broken_below=0.0), population=8, runs=4, intensity=0.5)
    _, recorder = evolve(engine, runs=4, evaluations=300)
    # Half of the initial networks and many children are broken; the sign of the first weight tells which.
    fitness, genomes = engine.state.fitness.numpy(), engine.state.genomes.numpy()
    assert any(metric["broken"] > 0 for metric in recorder.metrics)
    healthy = np.isfinite(fitness)
    assert healthy.any(axis=1).all()
    assert (genomes[..., 0][healthy] >= 0).all()
    assert (fitness[~healthy] == -np.inf).all()


def test_a_run_without_any_finite_fitness_is_an_error() -> None:
    engine = make_engine(Target(broken_below=float("inf")))
    with pytest.raises(TfsmError, match="none of the 6 initial networks has a finite fitness"):
        evolve(engine)


def test_a_hill_climber_never_gets_worse() -> None:
    engine = make_engine(Target(near=0.0), selection=HillClimber(), population=1)
    _, recorder = evolve(engine, evaluations=200)
    for run in (0, 1):
        best = [metric["best_fitness"] for metric in recorder.metrics if metric["run"] == run]
        assert best == sorted(best)
        assert engine.state.fitness.numpy()[run, 0] == np.float32(best[-1])


@pytest.mark.parametrize(
    "selection",
    [Tournament(size=3), pytest.param(BestReplacesWorst(), marks=pytest.mark.slow)],
    ids=lambda s: type(s).__name__,
)
def test_no_step_is_traced_twice(selection: Any) -> None:
    engine = make_engine(Target(near=0.0), selection=selection)
    evolve(engine, evaluations=200)
    assert engine.step.traces == 1
    assert engine.initialize.traces == 1
    assert engine.probe.traces == 1


@pytest.mark.slow
def test_a_run_that_continues_reports_when_it_was_first_solved() -> None:
    domain = Target(near=4.0)
    ended, _ = evolve(make_engine(domain, seed=3), evaluations=200)
    endless, recorder = evolve(make_engine(domain, seed=3, stop_when_solved=False), evaluations=200)
    assert all(result.solved for result in ended)
    for first, result in zip(ended, endless, strict=True):
        assert result.solved
        assert result.evaluations == first.evaluations < 200
        assert result.best_fitness > first.best_fitness
        # The champion is the best of those that solve.
        assert result.champion_fitness == result.best_fitness
    assert {line["evaluations"] for line in recorder.metrics} >= {180, 200}


@pytest.mark.slow
def test_an_archive_fills_and_reports_its_coverage() -> None:
    scheme = MapElites(bounds="-4:4,-4:4,-4:4", beginners=5)
    engine = make_engine(selection=scheme, population=27, intensity=1.0, stop_when_solved=False)
    assert engine.selector.initial_population == 5
    _, recorder = evolve(engine, evaluations=120, log_every=40)
    coverage = [line["coverage"] for line in recorder.metrics if line["run"] == 0]
    assert len(coverage) == 3
    assert coverage == sorted(coverage)
    fitness, behavior = engine.state.fitness.numpy()[0], engine.state.behavior.numpy()[0]
    filled = np.isfinite(fitness)
    assert coverage[-1] == pytest.approx(filled.mean())
    assert filled.sum() > 5
    # Each individual lies in the cell of its slot.
    middles = engine.state.selection_state["middles"].numpy()[0]
    nearest = (((np.clip(behavior[filled], -4, 4)[:, None] - middles) ** 2).sum(axis=-1)).argmin(axis=-1)
    np.testing.assert_array_equal(nearest, np.flatnonzero(filled))
    # And its fitness is that of its genome.
    expected = -((engine.state.genomes.numpy()[0][filled] - [1.0, 2.0, 3.0]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(fitness[filled], expected, rtol=1e-4)
