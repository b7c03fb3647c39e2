"""Every combination of operator, selection scheme and domain works, or is refused with a reason."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsm_domains.hard_maze
from tests.helpers.engines import evolve
from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import TracedFunction, make_plan
from tfsm.evolution.engine import Engine
from tfsm.evolution.evaluation import Evaluator
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.variation import Variation
from tfsm.kernels import random as noise
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.testing.check_mutations import make_network
from tfsm_domains.hard_maze.domain import SENSORS, deep_network

PLUGINS = load_plugins()
OPTIONS: dict[str, dict[str, Any]] = {
    "parity": {"bits": 2, "units": 2},
    "gym": {"env": "CartPole-v1", "episodes": 1, "steps": 5, "confirm": 0},
    "fitness": {"function": f"{__name__}:score"},
    "topdown-maze": {"steps": 2},
    "first-person-maze": {"frames": 8},
    "tournament": {"size": 3},
    "novelty": {"size": 3, "archive": 10},
    "lexicase": {"size": 3},
    "truncation": {"parents": 2},
    "map-elites": {"archive": "cvt", "beginners": 4},
}
"""Options that keep the parts small, and options without a default."""
IMPOSSIBLE = {
    ("mutation", "safe-crossover", "hill-climber"): "the population is one",
    **{
        ("domain", name, "map-elites"): "needs the bounds of behavior"
        for name in ("gym", "dataset", "fitness", "simple-easy", "simple-medium", "simple-washout")
    },
    **{
        ("domain", name, "lexicase"): "reports no cases"
        for name in PLUGINS.domains
        if not name.startswith(("simple", "parity", "dataset"))
    },
}
"""Combinations that cannot work, with their error messages."""
PACKAGES = {"gym": "gymnasium", "ple": "ple"}
QUICK = ("sm-g-rms", "safe-crossover")


def list_cases() -> list[Any]:
    cases = []
    for domain, mutation, selection in itertools.product(PLUGINS.domains, PLUGINS.mutations, PLUGINS.selections):
        # By default every scheme and one operator of each kind; the full product is slow.
        scheme = (domain, mutation) == ("parity", "control")
        is_default = scheme or (domain, mutation, selection) in [
            *(("simple-easy", name, "tournament") for name in QUICK),
            ("topdown-maze", "sm-g-rms", "tournament"),
        ]
        marks = [] if is_default else [pytest.mark.slow]
        package = PACKAGES.get(domain)
        if package is not None:
            missing = importlib.util.find_spec(package) is None
            marks.append(pytest.mark.skipif(missing, reason=f"{package} is not installed"))
        cases.append(pytest.param(domain, mutation, selection, marks=marks))
    return cases


EVALUATORS: dict[Any, Evaluator] = {}
"""One per domain, because evaluations do not depend on the operator or the scheme; each is traced once."""


@pytest.fixture(autouse=True)
def eager_execution(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run eagerly, and with fewer rounds of the random generator."""
    monkeypatch.setattr(noise, "_ROUNDS", 4)
    monkeypatch.setattr(TracedFunction, "__call__", lambda self, *tensors: self._function.python_function(*tensors))
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Data, and mazes of a few steps, as options by the prefix of a domain's name."""
    folder = tmp_path_factory.mktemp("files")
    np.savez(folder / "data.npz", x=np.eye(4, 2, dtype=np.float32), y=np.arange(4) % 2)
    text = (Path(tfsm_domains.hard_maze.__file__).parent / "hard-maze.toml").read_text()
    (folder / "hard.toml").write_text(re.sub(r"^steps *=.*$", "steps = 2", text, flags=re.MULTILINE))
    (folder / "pixels.txt").write_text("#####\n#S+E#\n#####\n")
    pixels = {"maze": str(folder / "pixels.txt")}
    hard = {"maze": str(folder / "hard.toml"), "remembered": 1, "hold": 2}
    data = {"data": str(folder / "data.npz"), "units": 2}
    return {"hard-maze": hard, "topdown": pixels, "first-person": pixels, "dataset": data}


def score(model: keras.Model) -> float:
    """Return the fitness of a model: its outputs on one input."""
    return float(np.sum(model(np.ones((1, SENSORS), np.float32))))


@functools.cache
def make_part(kind: str, name: str, **more: Any) -> Any:
    entry = PLUGINS.parts(kind)[name]  # type: ignore[arg-type]
    return build_part(entry, OPTIONS.get(name, {}) | more)


def find_reason(domain: str, mutation: str, selection: str) -> str | None:
    cases = (IMPOSSIBLE.get(("mutation", mutation, selection)), IMPOSSIBLE.get(("domain", domain, selection)))
    return next((reason for reason in cases if reason is not None), None)


@pytest.mark.sample(6)
@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
@pytest.mark.parametrize(("domain", "mutation", "selection"), list_cases())
def test_every_combination_works_or_is_refused_with_a_reason(
    domain: str, mutation: str, selection: str, files: dict[str, Any]
) -> None:
    options = next((options for start, options in files.items() if domain.startswith(start)), {})
    domain_part = make_part("domain", domain, **options)
    if domain_part not in EVALUATORS:
        if domain.startswith(("hard-maze", "fitness")):
            # A shallow network instead of those of the hard mazes, and a model for the function.
            network = Network(deep_network(1, 2))
        else:
            network = make_network(domain_part)
        EVALUATORS[domain_part] = Evaluator(domain_part, network, jit=domain_part.compiled)
    population = 1 if selection == "hill-climber" else 4

    def run() -> Any:
        variation = Variation(
            EVALUATORS[domain_part],
            make_part("mutation", mutation),
            intensity=0.01,
            initializer=Initializer("xavier-normal", None),
            seed=0,
            plan=make_plan(EVALUATORS[domain_part].network, runs=1, population=population),
        )
        engine = Engine(variation, make_part("selection", selection), population=population)
        return evolve(engine, runs=1, evaluations=6, log_every=6)

    reason = find_reason(domain, mutation, selection)
    if reason is not None:
        with pytest.raises(TfsmError, match=reason):
            run()
        return
    (result,), recorder = run()
    assert result.evaluations == 6 or result.solved
    assert np.isfinite(result.champion).all()
    assert np.isfinite(recorder.metrics[-1]["best_fitness"])
