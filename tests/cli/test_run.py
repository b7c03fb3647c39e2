"""The command `tfsm run`, in this process where possible, or in a subprocess."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kl

from tests.cli.test_model import run
from tests.faults.lab import list_child_processes
from tests.helpers.commands import tfsm, tfsm_process
from tests.helpers.fake_distribution import FakeSite
from tfsm.models.loading import load_model

QUICK = ["run", "parity", "--mutation", "control", "--population", "5", "--evaluations", "40", "--set", "bits=2"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """Return the working directory of a finished run, its JSON summary, and its standard error."""
    cwd = tmp_path_factory.mktemp("finished")
    done = tfsm_process(*QUICK, "--runs", "3", "--seed", "7", "--set", "log_every=10", "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd, json.loads(done.stdout), done.stderr


def test_the_summary_lists_how_each_run_ended(finished: tuple[Path, dict[str, Any], str]) -> None:
    _, summary, _ = finished
    assert [run["run"] for run in summary["runs"]] == [0, 1, 2]
    for one in summary["runs"]:
        assert one["seed"] == 7
        assert isinstance(one["solved"], bool)
        assert one["evaluations"] == 40 or one["solved"]
        assert one["best_fitness"] < 0
        assert one["directory"] == summary["directory"]
    assert summary["solved"] == sum(one["solved"] for one in summary["runs"])


def test_progress_is_printed_to_stderr_in_plain_lines(finished: tuple[Path, dict[str, Any], str]) -> None:
    _, _, stderr = finished
    assert "parity, control: " in stderr
    assert "\x1b" not in stderr
    assert "Traceback" not in stderr
    assert not [line for line in stderr.splitlines() if "cuda" in line.lower() or "onednn" in line.lower()]


def test_the_run_directory_is_complete(finished: tuple[Path, dict[str, Any], str]) -> None:
    cwd, summary, _ = finished
    directory = cwd / summary["directory"]
    record = json.loads((directory / "run.json").read_text())
    assert record["status"] == "finished"
    assert record["seed"] == 7
    assert record["command"][:3] == ["tfsm", "run", "parity"]
    assert record["settings"]["domain_options"]["bits"] == 2
    assert record["settings"]["intensity"] == 0.05, "the paper's value for this domain and operator"
    assert record["sources"]["domain_options.bits"] == "--set bits=2"
    assert {"python", "tfsm", "tensorflow", "keras", "numpy"} <= record["versions"].keys()
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    keys = {"run", "evaluations", "best_fitness", "mean_fitness", "divergence", "broken"}
    assert all(keys <= line.keys() for line in lines)
    last = {line["run"]: line for line in lines}
    for one in summary["runs"]:
        assert last[one["run"]]["evaluations"] == one["evaluations"]
        assert last[one["run"]]["best_fitness"] == pytest.approx(one["best_fitness"])


def test_champions_are_plain_keras_models_with_the_recorded_fitness(finished: tuple[Path, dict[str, Any], str]) -> None:
    cwd, summary, _ = finished
    record = json.loads((cwd / summary["directory"] / "run.json").read_text())
    file = cwd / summary["directory"] / record["runs"][1]["champion"]
    with zipfile.ZipFile(file) as archive:
        config = archive.read("config.json").decode()
    modules = re.findall(r'"module": "(.*?)"', config)
    assert modules
    assert all(module.partition(".")[0] == "keras" for module in modules)
    x = np.array([[[0], [0]], [[0], [1]], [[1], [0]], [[1], [1]]], "float32")
    p = keras.models.load_model(file).predict(x, verbose=0)
    fitness = np.log(p[np.arange(4), [0, 1, 1, 0]]).mean()
    assert fitness == pytest.approx(summary["runs"][1]["best_fitness"], abs=1e-5)


@pytest.mark.slow
def test_champions_load_without_tfsm_with_the_recorded_fitness(finished: tuple[Path, dict[str, Any], str]) -> None:
    cwd, summary, _ = finished
    record = json.loads((cwd / summary["directory"] / "run.json").read_text())
    code = """
import sys, keras, numpy as np
assert "tfsm" not in sys.modules
x = np.array([[[0], [0]], [[0], [1]], [[1], [0]], [[1], [1]]], "float32")
p = keras.models.load_model(sys.argv[1]).predict(x, verbose=0)
print(np.log(p[np.arange(4), [0, 1, 1, 0]]).mean())
"""
    file = cwd / summary["directory"] / record["runs"][1]["champion"]
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, cwd=cwd, check=True)
    assert float(done.stdout) == pytest.approx(summary["runs"][1]["best_fitness"], abs=1e-5)


def test_an_earlier_run_is_never_overwritten(finished: tuple[Path, dict[str, Any], str]) -> None:
    cwd, summary, _ = finished
    before = sorted((file, file.stat().st_mtime_ns) for file in cwd.rglob("*"))
    done = tfsm(*QUICK, "--out", summary["directory"], cwd=cwd)
    assert done.returncode == 2
    assert "never overwrites a run" in done.stderr
    assert sorted((file, file.stat().st_mtime_ns) for file in cwd.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "parityy", "--mutation", "control"], "no domain named 'parityy', did you mean 'parity'?"),
        (["run", "parity", "--mutation", "sm-gabs"], "no mutation named 'sm-gabs', did you mean 'sm-g-abs'?"),
        (["run", "parity", "--mutation", "control", "--selection", "turnament"], "did you mean 'tournament'?"),
        (["run", "parity", "--mutation", "control", "--observer", "tensorbord"], "did you mean 'tensorboard'?"),
        (
            ["run", "parity", "--mutation", "control", "--set", "tensorboard.histograms=no"],
            "add --observer tensorboard",
        ),
        (["run", "parity", "--mutation", "control", "--intensity", "-1"], "intensity"),
        (["run", "parity", "--mutation", "control", "--intensity", "nan"], "intensity"),
        (["run", "parity", "--mutation", "control", "--runs", "0"], "runs"),
        (["run", "parity", "--mutation", "control", "--population", "3"], "larger than the population of 3"),
        (["run", "parity", "--mutation", "control", "--set", "bitts=3"], "bits"),
        (["run", "parity", "--mutation", "sm-g-sum", "--set", "floor=-1"], "floor=-1: expected a number > 0"),
        (["run", "parity", "--mutation", "control", "--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_invalid_input_is_one_message_and_writes_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = tfsm(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = tfsm(*QUICK, "--out", "file/below", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot create the run directory" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_quiet_shows_no_progress_and_ends_with_the_summary(tmp_path: Path) -> None:
    done = tfsm(*QUICK, "--quiet", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "of 1 runs" in done.stdout
    assert "results in here" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interruption_leaves_everything_so_far_on_disk(tmp_path: Path, number: signal.Signals) -> None:
    endless = ["run", "simple-medium", "--mutation", "control", "--evaluations", "1000000000"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tfsm",
            *endless,
            "--set",
            "log_every=100",
            "--set",
            "engine.compile=graph",
            "--intensity",
            "0",
            "--out",
            "cut",
            "--json",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "cut" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") > 2):
        assert time.monotonic() < deadline, "the run never started"
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    summary = json.loads(stdout)
    assert summary["interrupted"] is True
    record = json.loads((tmp_path / "cut" / "run.json").read_text())
    assert record["status"] == "interrupted"
    assert record["runs"][0]["evaluations"] == summary["runs"][0]["evaluations"] > 5
    assert (tmp_path / "cut" / record["runs"][0]["champion"]).is_file()


WATCHER = """
from dataclasses import dataclass
from tfsm import hookimpl

@dataclass(frozen=True, kw_only=True)
class Watcher:
    file: str
    after: int = 0

    def on_experiment_end(self, status):
        with open(self.file, "a") as file:
            print(status, file=file)

    def on_interval(self, interval):
        if interval.evaluations > self.after > 0:
            raise RuntimeError("the disk of\\nthe log is full")

@hookimpl
def tfsm_register_observers(registry):
    registry.add("watcher", "watcher_dist_watch:Watcher", options=Watcher)
"""


@pytest.mark.slow
def test_a_third_party_observer_is_selected_and_configured_by_name(tmp_path: Path) -> None:
    site = FakeSite(tmp_path)
    site.install("watcher-dist", {"watch": WATCHER})
    (tmp_path / "tfsm.toml").write_text('[run]\nobservers = ["watcher"]\n[observers.watcher]\nfile = "from-the-file"')
    arguments = [*QUICK, "--quiet", "--set", "log_every=10"]
    done = tfsm_process(*arguments, cwd=tmp_path, **site.environ())
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "from-the-file").read_text() == "finished\n"

    done = tfsm_process(
        *arguments,
        "--out",
        "out",
        "--observer",
        "watcher",
        "--set",
        "watcher.file=by-hand",
        "--set",
        "watcher.after=10",
        cwd=tmp_path,
        **site.environ(),
    )
    assert done.returncode == 0
    reason = "RuntimeError: the disk of"
    assert done.stderr == f"observer 'watcher' failed and is disabled: {reason}\n"
    assert not (tmp_path / "by-hand").exists(), "it is disabled"
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["status"], record["settings"]["observers"]) == ("finished", ["watcher"])
    assert record["settings"]["observer_options"] == {"watcher": {"file": "by-hand", "after": 10}}


SOURCE = """
import keras

def build():
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((4, 1)), layers.GRU(3, name="memory"), layers.LayerNormalization(name="even"),
         layers.Dense(2, name="answer")], name="own")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a working directory with a function that builds a network for parity of four bits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_parity.py").write_text(SOURCE)
    yield tmp_path
    sys.modules.pop("own_parity", None)


@pytest.mark.slow
def test_a_run_can_start_from_a_function_or_a_champion(folder: Path) -> None:
    few = ("--evaluations", "30", "--population", "20", "--set", "bits=4", "--quiet", "--json")
    done = run("run", "parity", "--model", "own_parity:build", "--mutation", "control", "--out", "first", *few)
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "first/run.json").read_text())
    assert record["settings"]["model"] == record["objects"]["model"] == "own_parity:build"
    assert record["settings"]["init"] == "xavier-normal"

    champion = "first/champions/run-000.keras"
    done = run("run", "parity", "--model", champion, "--layers", "@head", "--mutation", "control", "--out", "on", *few)
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "on/run.json").read_text())
    assert record["settings"]["init"] == "model"
    assert record["sources"]["init"] == "the model comes with weights"
    assert record["settings"]["mutated_layers"] == ["@head"]
    assert record["objects"]["model"].startswith(f"{champion}, sha256 ")
    before, after = (load_model(file) for file in (champion, "on/champions/run-000.keras"))
    np.testing.assert_array_equal(before.get_layer("memory").cell.kernel, after.get_layer("memory").cell.kernel)
    np.testing.assert_array_equal(before.get_layer("even").gamma, after.get_layer("even").gamma)
    assert after.get_layer("memory").trainable


def test_a_mismatching_network_is_reported_with_both_shapes(folder: Path) -> None:
    keras.Sequential([keras.Input((5,)), kl.Dense(2)]).save("wrong.keras")
    done = run("run", "parity", "--model", "wrong.keras", "--mutation", "control", "--set", "bits=4")
    assert done.returncode == 2
    assert "does not fit the domain 'parity': its inputs are (N, 5), the domain's are (N, 4, 1)" in done.stderr
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "gone.keras"), "error: gone.keras: no such file"),
        (("--model", "old.h5"), "error: old.h5: refused: a legacy HDF5 model"),
        (("--layers", "a=b"), "got 'a=b'"),
        (("--trust-model",), "there is no model file to trust"),
    ],
)
def test_mistakes_are_reported(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    done = run("run", "parity", "--mutation", "control", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_children_of_a_function_with_some_layers_mutated(folder: Path) -> None:
    np.save("x.npy", np.ones((3, 4, 1)))
    done = run(
        "mutate", "own_parity:build", "--experience", "x.npy", "--layers", "answer", "--out", "c.keras", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["layers"] == "answer"
    assert load_model("c.keras").name == "own"


def test_doctor_prints_the_path_of_every_layer(folder: Path) -> None:
    done = run("doctor", "--model", "own_parity:build", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["weights"], found["mutated"]) == (54 + 6 + 8, 68)
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert [layer["kind"] for layer in layers.values()] == ["GRU", "LayerNormalization", "Dense"]
    assert layers["memory"] == {
        "name": "memory", "kind": "GRU", "weights": 54, "way": "native", "per_experience": "by products", "why": "",
    }  # fmt: skip
    assert {layer["weights"] for layer in layers.values()} == {54, 6, 8}


@pytest.mark.slow
def test_a_run_without_an_operator_uses_the_default_one(folder: Path) -> None:
    np.savez("data.npz", x=np.eye(4, dtype=np.float32), y=np.arange(4))
    done = run("run", "dataset", "--set", "data=data.npz", "--evaluations", "8", "--population", "5", "--out", "out")
    assert done.returncode == 0, done.stderr
    settings = json.loads((folder / "out" / "run.json").read_text())["settings"]
    assert (settings["mutation"], settings["intensity"]) == ("sm-g-sum", None)
    assert "needs a DOMAIN" in run("run").stderr


def test_doctor_prints_which_layers_fall_back_and_why(folder: Path) -> None:
    inputs = keras.Input((4, 1))
    keras.Model(inputs, kl.Dense(1)(kl.GRU(2, reset_after=False, name="old")(inputs))).save("old.keras")
    done = run("doctor", "--model", "old.keras")
    assert done.returncode == 0, done.stderr
    assert "slow: old (GRU) runs one genome after another: " in done.stdout
    assert "slow: sm-g-abs copies the weights for each experience, because of old" in done.stdout
    done = run("doctor", "--model", "old.keras", "--layers", "@head")
    assert "nothing falls back to a slow path" in done.stdout
    assert "of which 3 are mutated" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name the DOMAIN of a run, or a model"),
        (("parity",), "a run needs an operator"),
        (("--model", "own_parity:build", "--runs", "3"), "a model alone has no run"),
    ],
)
def test_doctor_reports_missing_arguments(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    done = run("doctor", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


STUDY = ["compare", "parity", "--mutation", "control,sm-g-sum", "--runs", "8", "--evaluations", "3000", "--quiet"]


def start_study(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tfsm", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def list_workers(pid: int) -> list[int]:
    """Return the worker processes of a process, without the other processes of Ray."""
    below = [child for own in list_child_processes(pid) for child in (own, *list_workers(own))]
    words = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in below if Path(f"/proc/{child}").exists()}
    return [child for child, line in words.items() if b"ray::Actor" in line or b"tfsm.parallel" in line]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["processes", "ray"])
def test_a_study_on_workers_gives_the_same_results_if_one_is_killed(backend: str, tmp_path: Path) -> None:
    if backend == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray")
    local = start_study(tmp_path, *STUDY, "--out", "local")
    _, stderr = local.communicate(timeout=600)
    assert local.returncode == 0, stderr
    there = start_study(
        tmp_path, *STUDY, "--out", "there", "--backend", backend, "--workers", "2", "--checkpoint-every", "500"
    )
    killed = None
    deadline = time.monotonic() + 600
    while there.poll() is None and time.monotonic() < deadline:
        started = list((tmp_path / "there").glob("*/checkpoints/*.checkpoint"))
        if killed is None and started and (found := list_workers(there.pid)):
            killed = found[0]
            os.kill(killed, signal.SIGKILL)
        time.sleep(0.1)
    _, stderr = there.communicate()
    assert there.returncode == 0, stderr
    assert killed is not None
    assert "a worker died" in stderr
    for method in ("control", "sm-g-sum"):
        one, other = tmp_path / "local" / method, tmp_path / "there" / method
        assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
        ends = [json.loads((path / "run.json").read_text())["runs"] for path in (one, other)]
        assert ends[0] == ends[1]
