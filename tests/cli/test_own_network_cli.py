"""A network of the user's own on the command line: --model, --layers, and what the doctor says of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers as kl

import tfsm
from tests.cli.test_mutate_cli import run

SOURCE = """
import keras

def build():
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((4, 1)), layers.GRU(3, name="memory"), layers.LayerNormalization(name="even"),
         layers.Dense(2, name="answer")], name="own")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a function that builds a network for parity of four bits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_parity.py").write_text(SOURCE)
    yield tmp_path
    sys.modules.pop("own_parity", None)


def test_a_run_from_a_function_and_on_from_its_champion(here: Path) -> None:
    few = ("--evaluations", "30", "--population", "20", "--set", "bits=4", "--quiet", "--json")
    done = run("run", "parity", "--model", "own_parity:build", "--mutation", "control", "--out", "first", *few)
    assert done.code == 0, done.stderr
    record = json.loads((here / "first/run.json").read_text())
    assert record["settings"]["model"] == record["objects"]["model"] == "own_parity:build"
    assert record["settings"]["init"] == "xavier-normal"

    champion = "first/champions/run-000.keras"
    done = run("run", "parity", "--model", champion, "--layers", "@head", "--mutation", "control", "--out", "on", *few)
    assert done.code == 0, done.stderr
    record = json.loads((here / "on/run.json").read_text())
    assert record["settings"]["init"] == "model"
    assert record["sources"]["init"] == "the model comes with weights"
    assert record["settings"]["mutated_layers"] == ["@head"]
    assert record["objects"]["model"].startswith(f"{champion}, sha256 ")
    before, after = (tfsm.load_model(file) for file in (champion, "on/champions/run-000.keras"))
    np.testing.assert_array_equal(before.get_layer("memory").cell.kernel, after.get_layer("memory").cell.kernel)
    np.testing.assert_array_equal(before.get_layer("even").gamma, after.get_layer("even").gamma)
    assert after.get_layer("memory").trainable


def test_a_network_that_does_not_fit_is_told_with_both_shapes(here: Path) -> None:
    keras.Sequential([keras.Input((5,)), kl.Dense(2)]).save("wrong.keras")
    done = run("run", "parity", "--model", "wrong.keras", "--mutation", "control", "--set", "bits=4")
    assert done.code == 2
    assert "does not fit the domain 'parity': its inputs are (N, 5), the domain's are (N, 4, 1)" in done.stderr
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "gone.keras"), "error: gone.keras: no such file"),
        (("--model", "old.h5"), "error: old.h5: refused: a legacy HDF5 model"),
        (("--layers", "a=b"), "got 'a=b'"),
        (("--trust-model",), "there is no model file to trust"),
    ],
)
def test_a_mistake_is_told(here: Path, arguments: tuple[str, ...], says: str) -> None:
    done = run("run", "parity", "--mutation", "control", *arguments)
    assert done.code == 2
    assert says in done.stderr


def test_children_of_a_function_with_some_layers_mutated(here: Path) -> None:
    np.save("x.npy", np.ones((3, 4, 1)))
    done = run(
        "mutate", "own_parity:build", "--experience", "x.npy", "--layers", "answer", "--out", "c.keras", "--json"
    )
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["layers"] == "answer"
    assert tfsm.load_model("c.keras").name == "own"


def test_the_doctor_tells_the_path_of_every_layer(here: Path) -> None:
    done = run("doctor", "--model", "own_parity:build", "--json")
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["weights"], found["mutated"]) == (54 + 6 + 8, 68)
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert [layer["kind"] for layer in layers.values()] == ["GRU", "LayerNormalization", "Dense"]
    assert layers["memory"] == {
        "name": "memory", "kind": "GRU", "weights": 54, "way": "native", "per_experience": "by products", "why": "",
    }  # fmt: skip
    assert {layer["weights"] for layer in layers.values()} == {54, 6, 8}


def test_the_doctor_says_what_falls_back_and_why(here: Path) -> None:
    inputs = keras.Input((4, 1))
    keras.Model(inputs, kl.Dense(1)(kl.GRU(2, reset_after=False, name="old")(inputs))).save("old.keras")
    done = run("doctor", "--model", "old.keras")
    assert done.code == 0, done.stderr
    assert "slow: old (GRU) runs one genome after another: " in done.stdout
    assert "slow: sm-g-abs copies the weights for each experience, because of old" in done.stdout
    done = run("doctor", "--model", "old.keras", "--layers", "@head")
    assert "nothing falls back to a slow path" in done.stdout
    assert "of which 3 are mutated" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name the domain of a run, or a model"),
        (("parity",), "a run needs an operator"),
        (("--model", "own_parity:build", "--runs", "3"), "a model alone has no run"),
    ],
)
def test_the_doctor_asks_for_what_it_needs(here: Path, arguments: tuple[str, ...], says: str) -> None:
    done = run("doctor", *arguments)
    assert done.code == 2
    assert says in done.stderr
