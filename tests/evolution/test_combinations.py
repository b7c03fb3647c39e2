"""Any operator with any selection scheme on any domain: it works, or says why not."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from tfsm_domains.hard_maze.domain import deep_network

PLUGINS = load_plugins()
OPTIONS: dict[str, dict[str, Any]] = {
    "parity": {"bits": 2, "units": 2},
    "gym": {"env": "CartPole-v1", "episodes": 1, "steps": 5, "confirm": 0},
    "topdown-maze": {"steps": 2},
    "first-person-maze": {"frames": 8},
    "tournament": {"size": 3},
    "novelty": {"size": 3, "archive": 10},
    "lexicase": {"size": 3},
    "truncation": {"parents": 2},
    "map-elites": {"archive": "cvt", "beginners": 4},
}
"""Small ones, and those without a default."""
CANNOT = {
    ("mutation", "safe-crossover", "hill-climber"): "the population is one",
    ("domain", "gym", "map-elites"): "needs the bounds of behavior",
    ("domain", "simple-easy", "map-elites"): "needs the bounds of behavior",
    ("domain", "simple-medium", "map-elites"): "needs the bounds of behavior",
    ("domain", "simple-washout", "map-elites"): "needs the bounds of behavior",
    **{
        ("domain", name, "lexicase"): "reports no cases"
        for name in PLUGINS.domains
        if not name.startswith(("simple", "parity"))
    },
}
"""What cannot work, and what is said."""
NEEDS = {"gym": "gymnasium", "ple": "ple"}
QUICK = ("sm-g-rms", "sm-g-sum+r", "safe-crossover")


def cases() -> list[Any]:
    found = []
    for domain, mutation, selection in itertools.product(PLUGINS.domains, PLUGINS.mutations, PLUGINS.selections):
        # By default every scheme, and an operator of each new kind; the rest of the product takes a while.
        scheme = (domain, mutation) == ("parity", "control")
        once = scheme or (domain, mutation, selection) in [
            *(("simple-easy", name, "tournament") for name in QUICK),
            ("topdown-maze", "sm-g-rms", "tournament"),
        ]
        marks = [] if once else [pytest.mark.slow]
        needed = NEEDS.get(domain)
        if needed is not None:
            missing = importlib.util.find_spec(needed) is None
            marks.append(pytest.mark.skipif(missing, reason=f"{needed} is not installed"))
        found.append(pytest.param(domain, mutation, selection, marks=marks))
    return found


EVALUATORS: dict[Any, Evaluator] = {}
"""One per domain: what an evaluation returns does not depend on the operator or the scheme, and is traced once."""


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run without compiling, and with numbers that are random enough."""
    monkeypatch.setattr(noise, "_ROUNDS", 4)
    monkeypatch.setattr(TracedFunction, "__call__", lambda self, *tensors: self._function.python_function(*tensors))
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def mazes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Mazes that take a few steps only, as options by the beginning of a domain's name."""
    folder = tmp_path_factory.mktemp("mazes")
    text = (Path(tfsm_domains.hard_maze.__file__).parent / "hard-maze.toml").read_text()
    (folder / "hard.toml").write_text(re.sub(r"^steps *=.*$", "steps = 2", text, flags=re.MULTILINE))
    (folder / "pixels.txt").write_text("#####\n#S+E#\n#####\n")
    pixels = {"maze": str(folder / "pixels.txt")}
    hard = {"maze": str(folder / "hard.toml"), "remembered": 1, "hold": 2}
    return {"hard-maze": hard, "topdown": pixels, "first-person": pixels}


@functools.cache
def part(kind: str, name: str, **more: Any) -> Any:
    entry = PLUGINS.parts(kind)[name]  # type: ignore[arg-type]
    return build_part(entry, OPTIONS.get(name, {}) | more)


def reason(domain: str, mutation: str, selection: str) -> str | None:
    found = (CANNOT.get(("mutation", mutation, selection)), CANNOT.get(("domain", domain, selection)))
    return next((why for why in found if why is not None), None)


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")
@pytest.mark.parametrize(("domain", "mutation", "selection"), cases())
def test_it_works_or_says_why_not(domain: str, mutation: str, selection: str, mazes: dict[str, Any]) -> None:
    maze = next((options for start, options in mazes.items() if domain.startswith(start)), {})
    where = part("domain", domain, **maze)
    if where not in EVALUATORS:
        # The network does not matter here: a shallow one instead of those of the hard mazes.
        network = Network(deep_network(1, 2)) if "hold" in maze else make_network(where)
        EVALUATORS[where] = Evaluator(where, network, jit=True)
    population = 1 if selection == "hill-climber" else 4

    def run() -> Any:
        variation = Variation(
            EVALUATORS[where],
            part("mutation", mutation),
            intensity=0.01,
            initializer=Initializer("xavier-normal", None),
            seed=0,
            plan=make_plan(EVALUATORS[where].network, runs=1, population=population),
        )
        engine = Engine(variation, part("selection", selection), population=population)
        return evolve(engine, runs=1, evaluations=6, log_every=6)

    why = reason(domain, mutation, selection)
    if why is not None:
        with pytest.raises(TfsmError, match=why):
            run()
        return
    (result,), recorder = run()
    assert result.evaluations == 6 or result.solved
    assert np.isfinite(result.champion).all()
    assert np.isfinite(recorder.metrics[-1]["best_fitness"])
