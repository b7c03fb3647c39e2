"""The lockstep loop: budgets, intervals, ends of runs and interruptions."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from tests.helpers.domains import Target
from tests.helpers.engines import evolve, make_engine
from tfsm.evolution.engine import Engine
from tfsm.evolution.reporter import Reporter
from tfsm.interfaces import Evaluation, Tensor
from tfsm.models.network import Network


@dataclass(frozen=True, kw_only=True)
class SolvedBeyondTheOptimum(Target):
    """Solved by a last weight far above its optimum of three."""

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        return super().evaluate(network, genomes, seed)._replace(solved=genomes[:, 2] > 4.5)


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Return an engine that is compiled once; every loop resets it."""
    return make_engine(runs=4, compile="graph")


@pytest.fixture(scope="module")
def unsolvable() -> Engine:
    """Return an engine whose runs are never solved."""
    return make_engine(Target(near=0.0), runs=2, compile="graph")


def test_an_unsolved_run_spends_exactly_its_budget(unsolvable: Engine) -> None:
    results, _ = evolve(unsolvable, evaluations=57)
    assert [(result.solved, result.evaluations) for result in results] == [(False, 57), (False, 57)]


def test_the_initial_population_is_counted(unsolvable: Engine) -> None:
    results, recorder = evolve(unsolvable, evaluations=6)
    assert [result.evaluations for result in results] == [6, 6]
    assert all(metric["broken"] is None for metric in recorder.metrics), "no children, so no share of broken ones"


def test_a_solved_run_stops_and_reports_when(engine: Engine) -> None:
    results, recorder = evolve(engine, runs=4, evaluations=4000)
    assert all(result.solved for result in results)
    for result in results:
        assert 6 <= result.evaluations < 4000
        error = ((result.champion - np.array([1.0, 2.0, 3.0])) ** 2).sum()
        assert error < 0.05
        assert result.best_fitness == pytest.approx(-error, rel=1e-4)
    assert {result.run for result in recorder.results} == {0, 1, 2, 3}
    assert recorder.seen[-1].finished == recorder.seen[-1].solved == 4
    assert recorder.seen[-1].evaluations == sum(result.evaluations for result in results)


def test_a_run_solved_by_an_initial_network_ends_there() -> None:
    results, _ = evolve(make_engine(Target(near=1e9)), evaluations=60)
    assert [result.evaluations for result in results] == [1, 1]


def test_every_interval_logs_a_line_per_run(unsolvable: Engine) -> None:
    _, recorder = evolve(unsolvable, evaluations=70, log_every=20)
    seen = [(metric["run"], metric["evaluations"]) for metric in recorder.metrics]
    assert seen == [(run, number) for number in (20, 40, 60, 70) for run in (0, 1)]


def test_metrics_agree_with_the_state(unsolvable: Engine) -> None:
    _, recorder = evolve(unsolvable, evaluations=70, log_every=20)
    last = recorder.metrics[-1]
    fitness = unsolvable.state.fitness.numpy()[1]
    assert last["mean_fitness"] == pytest.approx(fitness.mean(), rel=1e-6)
    assert last["best_fitness"] >= fitness.max()
    assert 0 <= last["better"] + last["neutral"] <= 1
    assert last["divergence"] > 0
    assert json.loads(json.dumps(last)) == last


def test_the_length_of_calls_changes_nothing(unsolvable: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    long_calls, recorder = evolve(unsolvable, evaluations=120)
    monkeypatch.setattr("tfsm.evolution.lockstep_loop.CALL_SECONDS", 1e-9)
    short_calls, short_recorder = evolve(unsolvable, evaluations=120)
    assert recorder.metrics == short_recorder.metrics
    np.testing.assert_array_equal(long_calls[1].champion, short_calls[1].champion)


def test_an_interruption_keeps_every_run(unsolvable: Engine) -> None:
    calls: list[bool] = []

    def stop() -> bool:
        calls.append(True)
        return len(calls) > 3

    results, recorder = evolve(unsolvable, evaluations=10_000, log_every=10_000, stop=stop)
    assert [result.run for result in results] == [0, 1]
    assert all(6 <= result.evaluations < 10_000 for result in results)
    assert [metric["evaluations"] for metric in recorder.metrics[-2:]] == [r.evaluations for r in results]


def test_compiling_the_probe_of_the_first_interval_is_counted() -> None:
    engine = make_engine(Target(near=0.0))
    reporter = Reporter(engine, seed=0, log_every=20, observers=[])
    counted = []
    for _ in range(3):
        reporter.report_interval([0, 1])
        counted.append(reporter.compile_seconds)
    assert counted[0] > 0
    assert counted == counted[:1] * 3, "the probe is traced once, whatever the number of intervals"


def test_runs_beyond_the_width_follow_in_groups() -> None:
    engine = make_engine(Target(near=0.0), runs=5, width=2)
    results, recorder = evolve(engine, runs=5, evaluations=30)
    assert [result.run for result in results] == [0, 1, 2, 3, 4]
    assert all(result.evaluations == 30 for result in results)
    assert recorder.seen[-1].budget == recorder.seen[-1].evaluations == 150


@pytest.mark.slow
def test_progress_counts_evaluations_after_a_solution() -> None:
    engine = make_engine(Target(near=1e9), stop_when_solved=False)
    results, recorder = evolve(engine, evaluations=60)
    assert all(result.solved and result.evaluations < 60 for result in results)
    assert recorder.seen[-1].budget == recorder.seen[-1].evaluations == 120


def test_a_new_champion_is_reported_at_the_end_of_an_interval(unsolvable: Engine) -> None:
    results, recorder = evolve(unsolvable, evaluations=400, log_every=10)
    for run in (0, 1):
        champions = [champion for champion in recorder.champions if champion[0] == run]
        fitness = [champion[2] for champion in champions]
        assert fitness == sorted(set(fitness)), "reported only when the fitness rose"
        lines = {line["evaluations"]: line["best_fitness"] for line in recorder.metrics if line["run"] == run}
        for _, number, found, genome in champions:
            assert lines[number] == found
            assert found == pytest.approx(-((genome - np.array([1.0, 2.0, 3.0])) ** 2).sum(), rel=1e-4)
        assert set(lines.values()) == set(fitness), "and whenever it did"
        np.testing.assert_array_equal(champions[-1][3], results[run].champion)


def test_the_end_of_a_solved_run_is_reported_in_order() -> None:
    _, recorder = evolve(make_engine(Target(near=1e9)), evaluations=60)
    assert recorder.events == [
        "interval of 0 at 1",
        "champion of 0 at 1",
        "interval of 1 at 1",
        "champion of 1 at 1",
        "end of 0 at 1",
        "end of 1 at 1",
    ]


@pytest.mark.slow
def test_a_solution_is_reported_even_if_another_individual_was_fitter() -> None:
    _, recorder = evolve(
        make_engine(SolvedBeyondTheOptimum(), runs=1, intensity=1.0), runs=1, evaluations=2000, log_every=10
    )
    (result,) = recorder.results
    assert result.solved
    assert result.champion_fitness < result.best_fitness
    run, number, fitness, genome = recorder.champions[-1]
    assert (run, number, fitness) == (0, result.evaluations, result.champion_fitness)
    np.testing.assert_array_equal(genome, result.champion)


def test_an_unsolved_run_is_not_reported_as_solved(unsolvable: Engine) -> None:
    _, recorder = evolve(unsolvable, evaluations=20)
    assert not [result for result in recorder.results if result.solved]
