"""Complete runs: in lock step, on the command line, with custom networks, and to a solution."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

import tfsm
from tests.cli.test_model import run
from tests.domains.gym.made import NAME, ConfigurableEnv, registered_env, reward_sum
from tests.domains.gym.playing import make_domain
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.variation import Parents, mutate_batch
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.runs.build import build_engine
from tfsm.settings import resolve

NUMBERS = spaces.Box(-1.0, 1.0, (1,))
SMALL: dict[str, Any] = {"env": NAME, "population": 5, "evaluations": 15, "episodes": 2, "units": 4, "layers": 1}
OWN = """
import keras

def linear():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])

def wide():
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with custom networks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_players", raising=False)
    (tmp_path / "own_players.py").write_text(OWN)
    return tmp_path


@pytest.mark.slow
def test_a_run_does_not_depend_on_the_number_of_runs() -> None:
    with registered_env(acts=NUMBERS, pays=reward_sum, ends=6):
        few, many = (tfsm.evolve("gym", mutation="sm-g-sum", recurrent="gru", runs=runs, **SMALL) for runs in (1, 3))
    assert few.runs[0].best_fitness == many.runs[0].best_fitness
    np.testing.assert_array_equal(few.runs[0].champion, many.runs[0].champion)
    assert not np.array_equal(many.runs[0].champion, many.runs[2].champion)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", ["sm-r", "sm-g-abs", "sm-g-so"])
def test_every_operator_works_with_recurrent_experience(mutation: str) -> None:
    with registered_env(acts=NUMBERS, pays=reward_sum, ends=6):
        result = tfsm.evolve("gym", mutation=mutation, recurrent="lstm", remembered=4, **SMALL)
    assert result.runs[0].evaluations == 15
    assert np.isfinite(result.runs[0].champion).all()


def close_early(env: ConfigurableEnv, action: Any) -> float:
    if env.luck > 0.9:
        raise RuntimeError("closed")
    return 1.0


def test_a_failure_of_the_environment_is_reported_with_its_message(tmp_path: Path) -> None:
    with (
        registered_env(pays=close_early),
        pytest.raises(tfsm.TfsmError, match=rf"^the environment '{NAME}' failed in step\(\): RuntimeError: closed$"),
    ):
        tfsm.evolve("gym", mutation="control", out=tmp_path / "run", **SMALL | {"evaluations": 500})
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["status"] == "failed"


def test_a_custom_network_is_accepted_if_it_fits_and_filmed(folder: Path) -> None:
    pytest.importorskip("pygame")
    few = ("--evaluations", "8", "--population", "6", "--set", "steps=8", "--quiet", "--mutation", "sm-g-sum")
    cart = ("run", "gym", "--set", "env=CartPole-v1", "--out", "run", *few)
    done = run(*cart, "--model", "own_players:wide")
    assert done.returncode == 2
    assert "the model does not fit the domain 'gym': its inputs are (N, 5), the domain's are (N, 4)" in done.stderr
    done = run(*cart, "--model", "own_players:linear")
    assert done.returncode == 0, done.stderr
    assert tfsm.load_model(folder / "run/champions/run-000.keras").count_params() == 10
    done = run("replay", "run", "--save", "film.gif")
    assert done.returncode == 0, done.stderr
    assert (folder / "film.gif").read_bytes().startswith(b"GIF8")


def test_an_environment_must_be_named(folder: Path) -> None:
    done = run("run", "gym", "--mutation", "control")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("give --set domain.env=VALUE")


@pytest.mark.slow
@pytest.mark.parametrize("mutation", ["control", "sm-g-sum"])
def test_cart_pole_is_solved(mutation: str) -> None:
    result = tfsm.evolve("gym", env="CartPole-v1", mutation=mutation, runs=3, population=10, evaluations=1000)
    assert all(one.solved for one in result.runs)
    assert all(one.champion_fitness >= 475.0 for one in result.runs)


@pytest.mark.parametrize(
    ("mutation", "strength"),
    [
        ("control", {"intensity": 0.5}),
        pytest.param("sm-g-sum", {"divergence": 0.1}, marks=pytest.mark.slow),
        pytest.param("sm-r", {"divergence": 0.1}, marks=pytest.mark.slow),
        ("safe-crossover", {"intensity": 0.5}),
    ],
)
def test_children_have_the_statistics_of_what_their_parents_saw(mutation: str, strength: dict[str, float]) -> None:
    settings = resolve(
        load_plugins(),
        domain="gym",
        mutation=mutation,
        overrides={"runs": 1, "population": 6, "evaluations": 20, **strength},
        sets=["env=Pendulum-v1", "normalize=running", "episodes=1", "confirm=0", "steps=20", "units=4", "layers=1"],
    ).settings
    engine = build_engine(load_plugins(), settings)
    network, domain = engine.network, engine.domain
    place = network.statistics
    assert place == slice(0, 6)
    draw_seed, _ = engine.variation.initial_seeds(tf.constant([0, 0]), tf.constant([0, 1]))
    genomes = Initializer().genomes(network, draw_seed)
    np.testing.assert_array_equal(genomes[:, place], np.tile(network.genome[place], [2, 1]))
    seen = domain.evaluate(network, genomes, np.array([[1, 2], [3, 4]], np.int32)).experience
    mates = (genomes[::-1], tf.constant(seen[::-1])) if engine.variation.recombines else ()
    parents = Parents(genomes, tf.constant(seen), mates, tf.ones([2]))
    child = engine.variation.mutate(parents, tf.constant([[5, 6], [7, 8]])).genome.numpy()
    expected = domain.update_statistics(genomes.numpy()[:, place], seen)
    assert (expected != network.genome[place]).any()
    np.testing.assert_array_equal(child[:, place], expected)
    assert (child[:, place.stop :] != genomes.numpy()[:, place.stop :]).any()
    # An operator itself leaves them alone, in the mutants of a replay as well.
    raw = mutate_batch(
        engine.variation.mutation,
        network,
        genomes,
        domain.observe(parents.experience),
        tf.constant(0.1),
        tf.constant([[5, 6], [7, 8]]),
        (mates[0], domain.observe(mates[1])) if mates else None,
    ).genome
    np.testing.assert_array_equal(raw[:, place], genomes[:, place])


@pytest.mark.parametrize("init", ["xavier-normal", "xavier-pytorch", "xavier-biased", "normal", "uniform", "model"])
def test_statistics_are_not_drawn(init: Any) -> None:
    network = Network(make_domain(env="Pendulum-v1", normalize="running", recurrent="gru").network())
    assert network.statistics is not None
    drawn = Initializer(init).genomes(network, tf.constant([[1, 2], [3, 4]])).numpy()
    np.testing.assert_array_equal(drawn[:, network.statistics], np.tile(network.genome[network.statistics], [2, 1]))
    assert init == "model" or (drawn[0] != drawn[1]).any()
