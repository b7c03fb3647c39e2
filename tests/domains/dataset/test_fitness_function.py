from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kl

import tfsm
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.testing.suite import PartUnderTest, checks_for, run_checks
from tfsm_domains.dataset.fitness_function import FitnessFunction

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
SEEDS = np.array([[1, 2], [3, 4]], np.int32)
MODEL = keras.Sequential([keras.Input((3,)), kl.Dense(4, "tanh"), kl.Dense(1)])


def score(model: keras.Model) -> float:
    return -float(np.mean((np.asarray(model(X)) - X[:, :1]) ** 2))


def score_batch(batch: Any) -> np.ndarray:
    return -np.mean((batch(X) - X[:, :1]) ** 2, axis=(1, 2))


def make(function: Any = score, **options: Any) -> FitnessFunction:
    instance, named = FitnessFunction.from_program(function)
    assert instance is not None
    return replace(instance, **named, **options).for_model(MODEL)


def genomes(network: Network) -> np.ndarray:
    return network.genome + np.array([[0.0], [0.2]], np.float32)


@pytest.mark.parametrize(("function", "batched"), [(score, False), (score_batch, True)])
def test_fitness_is_what_the_function_returns(function: Any, batched: bool) -> None:
    network = Network(MODEL)
    found = make(function, batched=batched, remembered=5, target=-1e9).evaluate(network, genomes(network), SEEDS)
    expected = [score(network.child(genome)) for genome in genomes(network)]
    np.testing.assert_allclose(found.fitness, expected, rtol=1e-4)
    assert found.solved.all()
    assert found.experience.shape == (2, 5, 3)
    assert {tuple(row) for row in found.experience[0]} <= {tuple(row) for row in X}


def test_the_function_may_take_the_seed_of_the_evaluation() -> None:
    network = Network(MODEL)
    domain = make(lambda model, seed: float(np.random.default_rng(seed).normal()))
    first, again = (domain.evaluate(network, genomes(network), SEEDS).fitness for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first[0] != first[1]


def test_a_function_that_never_calls_the_network_leaves_no_experience() -> None:
    network = Network(MODEL)
    domain = make(lambda model: 1.0)
    assert domain.evaluate(network, genomes(network), SEEDS).experience == ()
    assert domain.observe(()).shape == (1, 1, 3)
    with pytest.raises(TfsmError, match="never calls the model, so there is no experience on which 'sm-g-sum'"):
        tfsm.evolve(fitness=lambda model: 1.0, model=MODEL, mutation="sm-g-sum")


def fail(model: keras.Model) -> float:
    raise ValueError("it broke\nbadly")


def leave(model: keras.Model) -> float:
    raise SystemExit(3)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "failure": (lambda: call(fail), "the fitness function fail failed: ValueError: it broke"),
    "exit": (lambda: call(leave), "failed: SystemExit: 3"),
    "text": (lambda: call(lambda model: "much"), "returned str, expected a number"),
    "nothing": (lambda: call(lambda model: None), "returned None, expected a number"),
    "array": (lambda: call(lambda model: np.ones(2)), "returned an array of shape (2,), expected a number"),
    "bool": (lambda: call(lambda model: True), "returned bool, expected a number"),
    "batch": (
        lambda: call(lambda batch: 1.0, batched=True),
        "returned float, expected one number for each of 2 networks",
    ),
    "no function": (lambda: make(3), "fitness: expected a function from a model to a number, got int"),
    "no model": (lambda: FitnessFunction.from_program(score)[0].network(), "a fitness function needs a model"),  # type: ignore[union-attr]
    "no module": (lambda: FitnessFunction(function="no_such:f"), "there is no module 'no_such'"),
}


def call(function: Any, **options: Any) -> None:
    network = Network(MODEL)
    make(function, **options).evaluate(network, genomes(network), SEEDS)


@pytest.mark.parametrize("name", WRONG)
def test_a_function_that_misbehaves_is_reported_in_one_line(name: str) -> None:
    wrong, message = WRONG[name]
    with pytest.raises(TfsmError) as caught:
        wrong()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nan_is_a_broken_individual() -> None:
    network = Network(MODEL)
    found = make(lambda model: float("nan"), target=0.0).evaluate(network, genomes(network), SEEDS)
    assert np.isnan(found.fitness).all()
    assert not found.solved.any()
    assert np.isfinite(found.behavior).all()


@pytest.mark.parametrize("batched", [False, True])
def test_the_domain_passes_the_checks(batched: bool) -> None:
    entry = load_plugins().domains["fitness"]
    instance = make(score_batch if batched else score, batched=batched)
    subject = PartUnderTest(
        replace(entry, instance=instance), {"function": instance.function, "batched": batched, "remembered": 8}
    )
    checks = [check for check in checks_for("domain") if not check.target.startswith("check_runs:")]
    failed = [f"{each.check}: {each.message}" for each in run_checks(subject, checks) if each.state == "failed"]
    assert failed == []


def test_a_function_by_name_is_imported_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_fitness_task.py").write_text("def f(model):\n    return float(model.count_params())\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    network = Network(MODEL)
    domain = FitnessFunction(function="my_fitness_task:f").for_model(MODEL)
    assert domain.evaluate(network, genomes(network), SEEDS).fitness[0] == MODEL.count_params()
