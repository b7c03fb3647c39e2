"""The five operators on every architecture: against finite differences of the model's own call, and as plain Keras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models.architectures import CASES, QUICK
from tests.models.plain import all_variables, own_weights, run
from tests.models.trials import LEAST, OPERATORS, Trial, as_rows, double, rows_of, some_weights
from tests.models.write_architectures import COMMAND, PAGE, update_page
from tests.reference import measures
from tfsm.errors import TfsmError
from tfsm.kernels.random import split
from tfsm.models.loading import check_differentiable

SEEDS = np.array([[1, 2], [3, 4], [5, 6]], np.int32)

# By default some architectures, each with one of the operators in turn.
TAKEN = {
    (name, mutation)
    for i, name in enumerate(name for name in CASES if name in QUICK)
    for j, mutation in enumerate(OPERATORS)
    if (i + j) % len(OPERATORS) == 0 and i % 3 == 0
}
ALL = [
    pytest.param(name, mutation, id=f"{name}-{mutation}", marks=() if (name, mutation) in TAKEN else pytest.mark.slow)
    for name in CASES
    for mutation in OPERATORS
]


@pytest.mark.sample(11)
@pytest.mark.parametrize(("name", "mutation"), ALL)
def test_an_operator_works_on_an_architecture(name: str, mutation: str, tmp_path: Path) -> None:
    trial, operator = Trial.of(CASES[name]), OPERATORS[mutation]
    before = [variable.numpy().copy() for variable in all_variables(trial.model)]
    if trial.case.stairs and operator.needs_gradient:
        with pytest.raises(TfsmError, match=r"is not differentiable: .*; use the mutation 'sm-r'"):
            check_differentiable(trial.network, tf.constant(trial.genomes), trial.inputs)
        return
    children = trial.children(operator)
    intensity = 0.25 if trial.case.exact else 0.01
    found = children(trial.genomes, intensity, SEEDS)
    changes = found.genome.numpy() - trial.genomes

    np.testing.assert_array_equal(children(trial.genomes, 0.0, SEEDS).genome, trial.genomes)
    for b in range(len(SEEDS)):
        alone = children(trial.genomes[b : b + 1], intensity, SEEDS[b : b + 1])
        close = {"rtol": 0.1, "atol": 1e-3} if trial.case.exact else {"rtol": 1e-6, "atol": 1e-12}
        np.testing.assert_allclose(alone.genome[0] - trial.genomes[b], changes[b], **close)
    if mutation == "sm-r":
        check_divergence(trial, found, intensity)
    else:
        check_sensitivity(trial, operator, changes[0], intensity)
    check_child(trial, found.genome[0].numpy(), tmp_path / "child.keras")
    for variable, value in zip(all_variables(trial.model), before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=f"{variable.path} was changed")


def check_divergence(trial: Trial, found: Any, intensity: float) -> None:
    """Check that the outputs of plain Keras moved by the target divergence, unless the operator reports otherwise."""
    rows, close = rows_of(trial.model), 0.2 if trial.case.exact else 0.0101
    for b, parent in enumerate(trial.genomes):
        moved = (rows(genome, trial.seen) for genome in (parent, found.genome[b].numpy()))
        reached = measures.divergence(*moved) == pytest.approx(intensity, rel=close)
        assert reached or found.diagnostics["unreached"][b] == 1
        assert trial.case.stairs or reached


def check_sensitivity(trial: Trial, operator: Any, change: np.ndarray, intensity: float) -> None:
    """Check that the noise was divided by the sensitivity from finite differences."""
    noise_seed, _ = split(tf.constant(SEEDS[:1]), 2) if operator.needs_gradient else (tf.constant(SEEDS[:1]), None)
    noise = intensity * trial.network.noise(noise_seed)[0].numpy()
    weights = some_weights(trial.model)
    if not operator.needs_gradient:
        np.testing.assert_allclose(change, noise, rtol=1e-6, atol=1e-6 if trial.case.exact else 1e-12)
        return
    divided = np.abs(noise / change)[weights]
    genome, rows, inputs = trial.genomes[0].astype(np.float64), rows_of(trial.exact), trial.seen
    gradients = measures.jacobian(rows, genome, inputs, weights=weights)
    expected = formula(operator, gradients, noise, lambda v: measures.along(rows, genome, inputs, v))
    assert (expected > LEAST).any()
    expected = np.maximum(expected, LEAST)
    close = {"rtol": 0.1, "atol": 0.1 * expected.max()} if trial.case.exact else {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(divided, expected, **close)


def formula(operator: Any, gradients: np.ndarray, noise: np.ndarray, along: Any) -> np.ndarray:
    name = next(name for name, known in OPERATORS.items() if known == operator)
    if name == "sm-g-sum":
        return measures.sum_sensitivity(gradients)
    if name == "sm-g-abs":
        return measures.abs_sensitivity(gradients)
    pushed = along(noise / np.linalg.norm(noise))  # g_ik . v, [I, K]
    return np.sqrt(np.abs(2 * (gradients * pushed[..., None]).sum(axis=(0, 1)) / len(gradients)))


def check_child(trial: Trial, genome: np.ndarray, path: Path) -> None:
    """Check that the child is a Keras model that differs in trainable weights only, with the outputs of tfsm."""
    close = trial.case.tolerance if trial.case.exact else 1e-9
    with double():  # from which a custom class takes the types of its layers
        child = trial.network.child(genome)
        child.save(path)
        loaded = keras.models.load_model(path)
    np.testing.assert_allclose(own_weights(child), genome, rtol=close)
    for own, theirs in zip(trial.model.variables, child.variables, strict=True):
        assert own.trainable == theirs.trainable
        if not own.trainable:
            np.testing.assert_array_equal(theirs.numpy(), own.numpy())
    adapted = any(getattr(layer, "lora_enabled", False) for layer in child.layers)
    for own, theirs in zip(child.variables, loaded.variables, strict=True):
        if own.dtype.startswith("float") and not adapted:  # a file has no seeds, and adapters are merged into kernels
            np.testing.assert_array_equal(theirs.numpy(), own.numpy())
    rows = trial.network.rows(tf.constant(genome[None]), trial.inputs)[0]
    answers = as_rows(run(loaded, own_weights(loaded), trial.seen))
    np.testing.assert_allclose(answers, rows, rtol=close, atol=close)


@pytest.mark.slow
def test_the_tables_in_the_documents_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert update_page(page) == page, f"docs/reference/architectures.md is out of date: run `{COMMAND}`"
