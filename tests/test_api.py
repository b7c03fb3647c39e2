from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kl

import tfsm
import tfsm.api
import tfsm.errors

OPERATORS = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
X = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


@pytest.fixture
def model() -> keras.Model:
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [keras.Input((3,)), kl.Dense(4, "tanh"), kl.BatchNormalization(), kl.Dropout(0.5), kl.Dense(2)], name="mine"
    )


def stairs() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, keras.ops.round(5.0 * kl.Dense(2)(x)), name="stairs")


def get_refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(tfsm.TfsmError) as caught:
        call()
    return str(caught.value)


def test_exactly_the_public_names_are_exported() -> None:
    for name in tfsm.__all__:
        assert getattr(tfsm, name) is not None
    assert dir(tfsm) == sorted(tfsm.__all__)
    with pytest.raises(AttributeError, match="module 'tfsm' has no attribute 'mutat'"):
        _ = tfsm.mutat


@pytest.mark.sample(5)
@pytest.mark.parametrize("mutation", OPERATORS)
def test_a_child_differs_from_its_parent_in_trainable_variables_only(model: keras.Model, mutation: str) -> None:
    before = [v.numpy().copy() for v in model.variables]
    child = tfsm.mutate(model, X, mutation, intensity=0.05, seed=3)
    assert child is not model
    assert all(np.array_equal(v.numpy(), old) for v, old in zip(model.variables, before, strict=True))
    for mine, theirs in zip(child.non_trainable_variables, model.non_trainable_variables, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    for mine, theirs in zip(child.trainable_variables, model.trainable_variables, strict=True):
        assert (mine.numpy() != theirs.numpy()).any()
    assert child.layers[0].get_config()["units"] == 4


@pytest.mark.sample(9)
@pytest.mark.parametrize("mutation", OPERATORS)
def test_a_seed_determines_the_child(model: keras.Model, mutation: str) -> None:
    first, again, other = (tfsm.flatten(tfsm.mutate(model, X, mutation, 0.05, seed)) for seed in (3, 3, 2**63 - 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.sample(7)
@pytest.mark.parametrize("mutation", OPERATORS)
def test_no_intensity_is_no_change(model: keras.Model, mutation: str) -> None:
    np.testing.assert_array_equal(tfsm.flatten(tfsm.mutate(model, X, mutation, 0)), tfsm.flatten(model))


def test_sm_r_reaches_the_target_divergence(model: keras.Model) -> None:
    child = tfsm.mutate(model, X, "sm-r", 0.2)
    assert tfsm.divergence(model, child, X) == pytest.approx(0.2, rel=0.011)
    outputs = [np.asarray(m(X, training=False)) for m in (model, child)]
    assert ((outputs[0] - outputs[1]) ** 2).sum(axis=1).mean() == pytest.approx(0.2, rel=0.011)


def test_an_unreachable_divergence_causes_a_warning() -> None:
    bounded = keras.Sequential([keras.Input((3,)), kl.Dense(2, "sigmoid")])
    with pytest.warns(UserWarning, match=r"sm-r: along some directions no magnitude gives a divergence of 9"):
        child = tfsm.mutate(bounded, X, "sm-r", 9)
    assert np.isfinite(tfsm.flatten(child)).all()


def test_options_are_passed_to_the_operator(model: keras.Model) -> None:
    held = tfsm.flatten(tfsm.mutate(model, X, "sm-g-abs", 5.0, max_change=0.01)) - tfsm.flatten(model)
    assert np.abs(held).max() == pytest.approx(0.01, rel=1e-4)
    assert np.abs(tfsm.flatten(tfsm.mutate(model, X, "sm-g-abs", 5.0)) - tfsm.flatten(model)).max() > 1


class Stretch:
    """An operator of a user's own, which is not hashable and has no options."""

    batched = False
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent * (1.0 + intensity)


def test_mutate_takes_an_operator_object(model: keras.Model) -> None:
    child = tfsm.mutate(model, X, Stretch(), 0.5)
    np.testing.assert_allclose(tfsm.flatten(child), 1.5 * tfsm.flatten(model), rtol=1e-6)
    child = tfsm.mutate(model, X, Stretch(), divergence=0.01)
    assert tfsm.divergence(model, child, X) == pytest.approx(0.01, rel=0.05)


def test_divergence_takes_a_model_or_a_genome(model: keras.Model) -> None:
    child = tfsm.mutate(model, X, "control", 0.1)
    assert tfsm.divergence(model, child, X) == pytest.approx(tfsm.divergence(model, tfsm.flatten(child), X))
    assert tfsm.divergence(model, model, X) == 0.0
    assert tfsm.divergence(model, child, X) > 0


def test_the_default_direction_of_a_sensitivity_is_a_random_unit_vector(model: keras.Model) -> None:
    found = tfsm.sensitivity(model, X, "sm-g-so")
    assert found.shape == tfsm.flatten(model).shape
    np.testing.assert_array_equal(found, tfsm.sensitivity(model, X, "sm-g-so"))
    along = np.ones_like(found)
    np.testing.assert_allclose(
        tfsm.sensitivity(model, X, "sm-g-so", 4 * along), 2 * tfsm.sensitivity(model, X, "sm-g-so", along), rtol=1e-4
    )


@pytest.mark.sample(7)
@pytest.mark.parametrize("mutation", ["sm-g-sum", "sm-g-abs", "sm-g-so"])
def test_a_model_without_a_gradient_needs_sm_r(mutation: str) -> None:
    many = np.random.default_rng(1).standard_normal((100, 3))
    for call in (lambda: tfsm.mutate(stairs(), many, mutation), lambda: tfsm.sensitivity(stairs(), many, mutation)):
        message = get_refusal(call)
        assert "the model 'stairs' is not differentiable" in message
        assert "use the mutation 'sm-r'" in message
    model = stairs()
    child = tfsm.mutate(model, many, "sm-r", 0.5)
    assert tfsm.divergence(model, child, many) > 0


WRONG: dict[str, tuple[Callable[[keras.Model], Any], str]] = {
    "shape": (lambda m: tfsm.mutate(m, X[:, :2]), "takes [N, 3], the experience has [6, 2]"),
    "empty": (lambda m: tfsm.mutate(m, X[:0]), "the experience is empty"),
    "nan": (lambda m: tfsm.mutate(m, X * np.nan), "NaN or infinite"),
    "unbuilt": (lambda m: tfsm.mutate(keras.Sequential([kl.Dense(2)]), X), "is not built"),
    "nothing trainable": (lambda m: tfsm.mutate(_frozen(m), X), "no trainable variables"),
    "no model": (lambda m: tfsm.mutate("model", X), "expected a Keras model, got str"),
    "operator": (lambda m: tfsm.mutate(m, X, "sm-gabs"), "no mutation named 'sm-gabs', did you mean 'sm-g-abs'?"),
    "option": (lambda m: tfsm.mutate(m, X, "sm-g-abs", flor=1), "flor: no such option, did you mean 'floor'?"),
    "option of another": (lambda m: tfsm.mutate(m, X, "control", floor=1.0), "floor: no such option"),
    "options of an object": (lambda m: tfsm.mutate(m, X, Stretch(), floor=1.0), "an operator object has its own"),
    "operator's class": (lambda m: tfsm.mutate(m, X, Stretch), "expected the name of an operator or an operator"),
    "insensitive object": (lambda m: tfsm.sensitivity(m, X, Stretch()), "measures no sensitivity"),
    "option's value": (lambda m: tfsm.mutate(m, X, "sm-g-abs", floor=-1.0), "floor=-1.0: expected a number > 0"),
    "negative intensity": (lambda m: tfsm.mutate(m, X, intensity=-0.1), "intensity: expected a number >= 0"),
    "nan intensity": (lambda m: tfsm.mutate(m, X, intensity=float("nan")), "intensity: expected a number >= 0"),
    "infinite intensity": (lambda m: tfsm.mutate(m, X, intensity=float("inf")), "intensity: expected a number >= 0"),
    "intensity in words": (lambda m: tfsm.mutate(m, X, intensity="much"), "intensity: expected a number >= 0"),
    "negative seed": (lambda m: tfsm.mutate(m, X, seed=-1), "seed: expected a whole number from 0 to 2**63 - 1"),
    "large seed": (lambda m: tfsm.mutate(m, X, seed=2**63), "seed: expected a whole number"),
    "broken seed": (lambda m: tfsm.mutate(m, X, seed=1.5), "seed: expected a whole number"),
    "seed of bool": (lambda m: tfsm.mutate(m, X, seed=True), "seed: expected a whole number"),
    "insensitive operator": (lambda m: tfsm.sensitivity(m, X, "sm-r"), "'sm-r' measures no sensitivity: use sm-g-sum"),
    "unknown operator": (lambda m: tfsm.sensitivity(m, X, "sm-g-sun"), "did you mean 'sm-g-sum'?"),
    "direction": (lambda m: tfsm.sensitivity(m, X, "sm-g-so", np.ones(3)), "got an array of shape (3,)"),
    "genome": (lambda m: tfsm.divergence(m, np.ones(3), X), "got an array of shape (3,)"),
    "other model": (lambda m: tfsm.divergence(m, stairs(), X), "got an array of shape (8,)"),
    "unflatten": (lambda m: tfsm.unflatten(m, np.ones(3)), "got an array of shape (3,)"),
    "file": (lambda m: tfsm.load_model("no/such.keras"), "no such file"),
    "domain": (lambda m: tfsm.evolve("simple-esy"), "did you mean 'simple-easy'?"),
    "no task": (lambda m: tfsm.evolve(model=m), "give exactly one of domain, data and fitness, got none"),
    "two tasks": (lambda m: tfsm.evolve("parity", data=(X, X)), "got domain and data"),
    "three tasks": (lambda m: tfsm.evolve("parity", data=1, fitness=1), "got domain and data and fitness"),
    "loss of a domain": (lambda m: tfsm.evolve("parity", loss="mse"), "loss is for data: tfsm.evolve(data=(x, y), "),
    "data": (lambda m: tfsm.evolve(model=m, data=X), "data: expected a pair (x, y) of arrays"),
    "option of data": (
        lambda m: tfsm.evolve(model=m, data=(X, X), bach=3),
        "unknown key 'bach', did you mean 'batch'?",
    ),
    "labels": (lambda m: tfsm.evolve(model=m, data=(X, np.arange(6))), "y has the label 5, but the network has 2"),
    "fitness": (lambda m: tfsm.evolve(model=m, fitness=len), "the fitness function len failed: TypeError"),
}


def _frozen(model: keras.Model) -> keras.Model:
    model.trainable = False
    return model


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_reported_in_one_message(name: str, model: keras.Model) -> None:
    call, message = WRONG[name]
    assert message in get_refusal(lambda: call(model))


def test_a_saved_child_can_be_loaded(model: keras.Model, tmp_path: Path) -> None:
    child = tfsm.mutate(model, X)
    child.save(tmp_path / "child.keras")
    np.testing.assert_array_equal(tfsm.flatten(tfsm.load_model(tmp_path / "child.keras")), tfsm.flatten(child))


def test_evolve_returns_a_champion_of_the_domains_network() -> None:
    result = tfsm.evolve("simple-easy", mutation="sm-g-abs", runs=2, seed=1, evaluations=300, compile="graph")
    assert len(result.runs) == 2
    champion = result.champion()
    np.testing.assert_array_equal(tfsm.flatten(champion), result.best.champion)
    assert result.solved == sum(run.solved for run in result.runs)


def test_evolve_fits_data_from_the_weights_of_the_model(model: keras.Model, tmp_path: Path) -> None:
    y = np.asarray(model(X))
    losses: list[float] = []

    class Watch(tfsm.Observer):
        def on_interval(self, interval: Any) -> None:
            losses.append(interval.metrics["validation_loss"])

    result = tfsm.evolve(
        model=model,
        data=(X, y + 0.1),
        validation=(X[:3], y[:3]),
        mutation="control",
        intensity=0.01,
        population=4,
        evaluations=40,
        log_every=20,
        out=tmp_path / "run",
        observers=[Watch()],
        size=2,
    )
    # The loss of the model itself is 0.01, that of other weights is larger by far.
    assert -0.01 < result.best.best_fitness < 0
    assert losses
    assert all(0 < loss < 0.1 for loss in losses)
    with np.load(tmp_path / "run" / "inputs" / "data.npz") as saved:
        np.testing.assert_array_equal(saved["y_validation"], y[:3])


def test_evolve_maximizes_a_function_of_a_model(model: keras.Model) -> None:
    result = tfsm.evolve(
        fitness=lambda network: -float(np.abs(np.asarray(network(X))).mean()),
        model=model,
        mutation="control",
        intensity=0.05,
        population=4,
        evaluations=30,
        size=2,
    )
    assert result.best.best_fitness > -np.abs(np.asarray(model(X))).mean()
    champion = result.champion()
    assert result.best.best_fitness == pytest.approx(-np.abs(np.asarray(champion(X))).mean(), rel=1e-4)
