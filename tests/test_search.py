"""Ask and tell: the same run as `tfsm run`, what is refused, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsm
from tfsm.errors import TfsmError
from tfsm.evolution.evaluation import Evaluator
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.runs.build import build_engine
from tfsm.settings import resolve

OPTIONS: dict[str, Any] = {"population": 12, "size": 3, "seed": 4}
TARGET = np.array([1.0, -1.0, 0.5])


def make_model() -> keras.Model:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="only")])


def measure(genomes: np.ndarray) -> np.ndarray:
    return -((genomes - TARGET) ** 2).sum(axis=1)


def see(genomes: np.ndarray) -> np.ndarray:
    """Return an experience `[n, 3, 2]` that differs between genomes."""
    return np.stack([genomes[:, :2], genomes[:, 1:], np.ones([len(genomes), 2])], axis=1)


def read_state(search: tfsm.Search) -> dict[str, bytes]:
    engine = search._engine
    assert engine is not None
    return {name: table.numpy().tobytes() for name, table in engine.state.tables().items()}


@pytest.mark.parametrize(
    ("mutation", "offspring"),
    [
        ("sm-g-sum", 1),
        pytest.param("control", 8, marks=pytest.mark.slow),
        pytest.param("sm-r", 5, marks=pytest.mark.slow),
    ],
)
def test_a_search_on_parity_is_the_same_run_as_tfsm_run(mutation: str, offspring: int) -> None:
    plugins = load_plugins()
    sets = ["bits=2", "units=3", "size=3", f"offspring={offspring}", "intensity=0.05", "stop=budget"]
    overrides = {"runs": 1, "evaluations": 52, "population": 12, "seed": 4}
    settings = resolve(plugins, domain="parity", mutation=mutation, overrides=overrides, sets=sets).settings
    engine = build_engine(plugins, settings)
    LockstepLoop(engine, seed=4, runs=1, evaluations=52, log_every=1000).run()

    domain: Any = build_part(plugins.domains["parity"], {"bits": 2, "units": 3})
    evaluator = Evaluator(domain, Network(domain.network()), jit=True)
    given = {key: value for key, value in settings.mutation_options.items() if value is not None}
    search = tfsm.Search(domain.network(), mutation, 0.05, experience=domain.observe(())[0].numpy(), **OPTIONS, **given)
    while search.evaluations < 52:
        genomes = search.ask(offspring)
        wide = np.concatenate([genomes, genomes[:1]])  # two genomes at least
        found = evaluator(tf.constant(wide), tf.zeros([len(wide), 2], tf.int32), tf.ones([len(wide)], tf.bool))
        search.tell(found.fitness[:-1].numpy(), solved=found.solved[:-1].numpy())
    own, expected = read_state(search), engine.state.tables()
    assert set(own) | {"tallies.children"} >= set(own)
    for name in ("genomes", "fitness", "champion", "best_fitness", "evaluations", "solved", "solved_at", "baseline"):
        assert own[name] == expected[name].numpy().tobytes(), name
    assert search.solved == bool(engine.state.solved.numpy()[0])


def drive(search: tfsm.Search, until: int, count: int = 7, **more: Any) -> None:
    while search.evaluations < until:
        genomes = search.ask(count)
        search.tell(measure(genomes), experience=see(genomes), **more)


def test_a_saved_search_continues_bit_for_bit(tmp_path: Path) -> None:
    model, file = make_model(), tmp_path / "search.ckpt"
    search, again = (tfsm.Search(model, "sm-g-abs", 0.1, **OPTIONS) for _ in range(2))
    search.save(file)
    again.load(file)
    assert again.evaluations == 0
    drive(search, 26)
    assert search.evaluations == 26, "7, 5 that are left of the initial population, 7, and 7"
    expected = search.ask(7)
    search.save(file)
    search.tell(measure(expected), experience=see(expected))
    drive(search, 60)
    again.load(file)
    assert again.evaluations == 26
    np.testing.assert_array_equal(again.ask(7), expected, "what has no fitness yet is asked for again")
    again.tell(measure(expected), experience=see(expected))
    drive(again, 60)
    assert read_state(again) == read_state(search)
    assert again.best_fitness == search.best_fitness == measure(search.best_genome[None]).astype(np.float32)[0]
    np.testing.assert_array_equal(tfsm.flatten(search.best_model()), search.best_genome)
    with pytest.raises(TfsmError, match="was saved with another seed: 4, and not 5"):
        tfsm.Search(model, "sm-g-abs", 0.1, **OPTIONS | {"seed": 5}).load(file)


@pytest.mark.slow
def test_a_broken_genome_has_no_children() -> None:
    search = tfsm.Search(make_model(), "control", 0.5, **OPTIONS)
    broken = set()
    while search.evaluations < 60:
        genomes = search.ask(6)
        fitness = np.where(genomes[:, 0] < 0, np.nan, measure(genomes))
        broken |= {genome.tobytes() for genome in genomes[genomes[:, 0] < 0]}
        search.tell(fitness)
    assert search._engine is not None
    kept = {
        genome.tobytes()
        for genome, fitness in zip(
            *(table.numpy()[0] for table in (search._engine.state.genomes, search._engine.state.fitness)), strict=True
        )
        if np.isfinite(fitness)
    }
    assert broken
    assert not broken & kept
    assert np.isfinite(search.best_fitness)


def test_an_initial_population_of_broken_genomes_is_an_error() -> None:
    search = tfsm.Search(make_model(), "control", 0.5, **OPTIONS)
    search.tell(np.full(len(search.ask(12)), np.nan))
    with pytest.raises(TfsmError, match="none of the 12 initial networks has a finite fitness"):
        search.ask()


@pytest.fixture(scope="module")
def asked() -> tfsm.Search:
    search = tfsm.Search(make_model(), "sm-g-sum", 0.1, **OPTIONS)
    genomes = search.ask(4)
    search.tell(measure(genomes), experience=see(genomes))
    search.ask(3)
    return search


SEEN = np.ones([3, 3, 2])


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ({"fitness": np.zeros(2), "experience": SEEN}, r"fitness: expected numbers \[3\], got float64 \[2\]"),
        ({"fitness": ["a", "b", "c"], "experience": SEEN}, r"fitness: expected numbers \[3\], got"),
        ({"fitness": np.zeros(3)}, "the operator sm-g-sum needs experience="),
        ({"fitness": np.zeros(3), "experience": SEEN[:2]}, r"experience: expected \[3, I, ...\], got \[2, 3, 2\]"),
        ({"fitness": np.zeros(3), "experience": SEEN[:, :1]}, r"experience: expected \[\[3, 2\]\] for each genome"),
        ({"fitness": np.zeros(3), "experience": SEEN * np.nan}, "the experience has NaN or infinite values"),
        ({"fitness": np.zeros(3), "experience": SEEN, "solved": [0.5] * 3}, "solved: expected"),
    ],
)
def test_what_does_not_fit_is_refused_and_can_be_corrected(asked: tfsm.Search, report: Any, message: str) -> None:
    with pytest.raises(TfsmError, match=message) as error:
        asked.tell(**report)
    assert "\n" not in str(error.value)
    assert asked.evaluations == 4


def test_asking_and_telling_take_turns(asked: tfsm.Search) -> None:
    with pytest.raises(TfsmError, match="tell the fitness of the last 3 genomes first"):
        asked.ask()
    new = tfsm.Search(make_model(), "control", 0.1, **OPTIONS)
    with pytest.raises(TfsmError, match="call ask first"):
        new.tell([1.0])
    with pytest.raises(TfsmError, match="expected a whole number >= 1"):
        new.ask(0)
    with pytest.raises(TfsmError, match="there is no best genome yet"):
        new.best_model()


@pytest.mark.slow
def test_a_scheme_says_what_it_needs() -> None:
    search = tfsm.Search(make_model(), "control", 0.1, selection="novelty", **OPTIONS)
    search.ask(12)
    with pytest.raises(TfsmError, match="the selection scheme novelty needs behavior="):
        search.tell(np.zeros(12))
    search.tell(np.zeros(12), behavior=np.random.default_rng(0).normal(size=[12, 2]))
    genomes = search.ask(3)
    search.tell(np.zeros(3), behavior=genomes[:, :2])
    assert search.evaluations == 15


def test_settings_that_a_search_does_not_have_are_refused() -> None:
    with pytest.raises(TfsmError, match=r"as many children at once as you ask for: ask\(64\)"):
        tfsm.Search(make_model(), offspring=8)
    with pytest.raises(TfsmError, match="unknown key 'sizes', did you mean 'size'"):
        tfsm.Search(make_model(), sizes=8)
