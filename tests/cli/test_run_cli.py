"""`tfsm run` as a user meets it: in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_distribution import FakeSite

QUICK = ["run", "parity", "--mutation", "control", "--population", "5", "--evaluations", "40", "--set", "bits=2"]


def tfsm(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tfsm", *arguments],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A finished run: where it was started, its JSON summary, and what it said on stderr."""
    cwd = tmp_path_factory.mktemp("finished")
    done = tfsm(*QUICK, "--runs", "3", "--seed", "7", "--set", "log_every=10", "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd, json.loads(done.stdout), done.stderr


def test_the_summary_says_how_each_run_ended(finished: tuple[Path, dict[str, Any], str]) -> None:
    _, summary, _ = finished
    assert [run["run"] for run in summary["runs"]] == [0, 1, 2]
    for run in summary["runs"]:
        assert run["seed"] == 7
        assert isinstance(run["solved"], bool)
        assert run["evaluations"] == 40 or run["solved"]
        assert run["best_fitness"] < 0
        assert run["directory"] == summary["directory"]
    assert summary["solved"] == sum(run["solved"] for run in summary["runs"])


def test_progress_goes_to_stderr_in_plain_lines(finished: tuple[Path, dict[str, Any], str]) -> None:
    _, _, stderr = finished
    assert "parity, control: " in stderr
    assert "\x1b" not in stderr
    assert "Traceback" not in stderr
    assert not [line for line in stderr.splitlines() if "cuda" in line.lower() or "onednn" in line.lower()]


def test_the_run_directory_holds_everything(finished: tuple[Path, dict[str, Any], str]) -> None:
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
    for run in summary["runs"]:
        assert last[run["run"]]["evaluations"] == run["evaluations"]
        assert last[run["run"]]["best_fitness"] == pytest.approx(run["best_fitness"])


def test_champions_load_in_plain_keras_and_are_as_good_as_said(finished: tuple[Path, dict[str, Any], str]) -> None:
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
    assert "never overwritten" in done.stderr
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
            "give --observer tensorboard",
        ),
        (["run", "parity", "--mutation", "control", "--intensity", "-1"], "intensity"),
        (["run", "parity", "--mutation", "control", "--intensity", "nan"], "intensity"),
        (["run", "parity", "--mutation", "control", "--runs", "0"], "runs"),
        (["run", "parity", "--mutation", "control", "--population", "3"], "larger than the population of 3"),
        (["run", "parity", "--mutation", "control", "--set", "bitts=3"], "bits"),
        (["run", "parity", "--mutation", "sm-g-sum", "--set", "floor=-1"], "floor=-1: expected a number > 0"),
        (["run", "parity", "--mutation", "control", "--config", "nowhere.toml"], "nowhere.toml"),
        (["run", "parity"], "--mutation"),
    ],
)
def test_bad_input_gets_one_message_and_writes_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = tfsm(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


def test_an_unwritable_place_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = tfsm(*QUICK, "--out", "file/below", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot make the run directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_quiet_shows_no_progress_and_ends_with_the_summary(tmp_path: Path) -> None:
    done = tfsm(*QUICK, "--quiet", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "of 1 runs" in done.stdout
    assert "results in here" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interruption_leaves_everything_so_far_on_disk(tmp_path: Path, number: signal.Signals) -> None:
    endless = ["run", "parity", "--mutation", "control", "--population", "5", "--evaluations", "1000000000"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tfsm",
            *endless,
            "--set",
            "log_every=100",
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
        assert time.monotonic() < deadline, "the run never got going"
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

    def ended(self, status):
        with open(self.file, "a") as file:
            print(status, file=file)

    def interval(self, metrics):
        if metrics[0]["evaluations"] > self.after > 0:
            raise RuntimeError("the disk of\\nthe log is full")

@hookimpl
def tfsm_register_observers(registry):
    registry.add("watcher", "watcher_dist_watch:Watcher", options=Watcher)
"""


@pytest.mark.slow
def test_an_observer_of_a_third_party_is_told_by_name_and_set_by_name(tmp_path: Path) -> None:
    site = FakeSite(tmp_path)
    site.install("watcher-dist", {"watch": WATCHER})
    (tmp_path / "tfsm.toml").write_text('[run]\nobservers = ["watcher"]\n[observers.watcher]\nfile = "from-the-file"')
    arguments = [*QUICK, "--quiet", "--set", "log_every=10"]
    done = tfsm(*arguments, cwd=tmp_path, **site.environ())
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "from-the-file").read_text() == "finished\n"

    done = tfsm(
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
    assert done.stderr == f"the observer 'watcher' failed and is told nothing more: {reason}\n"
    assert not (tmp_path / "by-hand").exists(), "it is told nothing more"
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["status"], record["settings"]["observers"]) == ("finished", ["watcher"])
    assert record["settings"]["observer_options"] == {"watcher": {"file": "by-hand", "after": 10}}
