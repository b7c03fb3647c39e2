"""`tfsm compare`, `sweep`, `robustness` and `reproduce`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.commands import tfsm
from tfsm.analysis.reproduce import FIGURES
from tfsm.cli.options import SharedOptions
from tfsm.cli.reproduce import DEFAULT_PROFILE, plan_figure
from tfsm.plugins import load_plugins

METHODS = "control,sm-g-abs"
QUICK = ["simple-medium", "--mutation", METHODS, "--runs", "3", "--seed", "5", "--evaluations", "300",
         "--set", "engine.compile=graph"]  # fmt: skip


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cwd = tmp_path_factory.mktemp("compared")
    done = tfsm("compare", *QUICK, "--out", "whole", cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "1/2 control: " in done.stderr
    assert "\nsm-g-abs" in done.stdout
    return cwd


@pytest.mark.slow
def test_an_interrupted_comparison_resumes_to_the_same_tables(comparison: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tfsm", "compare", *QUICK, "--out", "cut"],
        cwd=comparison,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = comparison / "cut" / "control" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not metrics.exists():
        assert time.monotonic() < deadline, "the run never started"
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "resume with: tfsm compare simple-medium" in stderr
    again = tfsm("compare", *QUICK, "--out", "cut", "--json", cwd=comparison)
    assert again.returncode == 0, again.stderr
    whole = tfsm("report", "whole", "--json", cwd=comparison)

    def split_tables(text: str) -> list[object]:
        (study,) = json.loads(text)["studies"]
        return [[method["summary"], method["runs"]] for method in study["methods"]] + [study["comparisons"]]

    assert split_tables(again.stdout) == split_tables(whole.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "simple-medium", "--mutation", "control,sm-gabs"], "did you mean 'sm-g-abs'?"),
        (["compare", "simple-medium", "--mutation", "control,control"], "control is given twice"),
        (["compare", "simple-medium", "--mutation", ","], "expected comma-separated names"),
        (["compare", "nowhere", "--mutation", "control"], "no domain named 'nowhere'"),
        (["compare", *QUICK, "--runs", "4", "--out", "whole"], "runs was 3 and is now 4"),
        (["compare", *QUICK, "--at", "301"], "--at 301: expected a number from 1 to 300"),
        (["sweep", *QUICK, "--out", "whole"], "contains a compare of simple-medium"),
        (["sweep", *QUICK, "--grid", "0.1,much"], "--grid 0.1,much: expected comma-separated numbers"),
        (["sweep", *QUICK, "--grid", "0.1,0.1"], "expected different numbers >= 0"),
        (["sweep", *QUICK, "--grid", "-1"], "expected different numbers >= 0"),
        (["robustness", "nowhere"], "nowhere: no such directory"),
        (["robustness", "."], "not a run directory"),
        (["robustness", "whole/control"], "no run of simple-medium was solved"),
        (["reproduce", "parities"], "did you mean 'parity'?"),
        (["reproduce", "parity", "--scale", "0"], "expected a number above 0 and at most 1"),
        (["reproduce", "parity", "--scale", "nan"], "expected a number above 0 and at most 1"),
        (["reproduce", "all", "--quick", "--scale", "0.1"], "--quick has its own scale"),
        (["reproduce", "all", "--profile", "publish"], "did you mean 'published'?"),
    ],
)
def test_mistakes_are_reported_in_one_message_and_leave_no_files(
    arguments: list[str], message: str, comparison: Path
) -> None:
    before = sorted(comparison.rglob("*"))
    done = tfsm(*arguments, cwd=comparison)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(comparison.rglob("*")) == before


@pytest.mark.slow
def test_a_sweep_writes_settings_for_the_next_command(tmp_path: Path) -> None:
    grid = ["--grid", "0.5,0.01", "--out", "tuning", "--json"]
    done = tfsm("sweep", *QUICK, *grid, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    best = {choice["mutation"]: choice["scores"][0]["intensity"] for choice in summary["choices"]}
    assert best["sm-g-abs"] == 0.5
    shown = tfsm(
        "config",
        "show",
        "simple-medium",
        "--mutation",
        "sm-g-abs",
        "--config",
        "tuning/tfsm.toml",
        "--json",
        cwd=tmp_path,
    )
    assert json.loads(shown.stdout)["settings"]["intensity"] == 0.5
    again = tfsm("sweep", *QUICK, *grid, cwd=tmp_path)
    assert json.loads(again.stdout)["choices"] == summary["choices"]
    assert "4 of 4 already finished" in again.stderr


@pytest.mark.slow
def test_robustness_writes_numbers_and_figure(comparison: Path) -> None:
    done = tfsm(
        "robustness", "whole/sm-g-abs", "--mutation", METHODS, "--histogram", "20", "--out", "left", cwd=comparison
    )
    assert done.returncode == 0, done.stderr
    assert "fraction of performance" in done.stdout
    assert sorted(path.name for path in (comparison / "left").iterdir()) == [
        "robustness.json",
        "robustness.png",
        "robustness.svg",
    ]
    entries = json.loads((comparison / "left" / "robustness.json").read_text())["entries"]
    assert {(entry["operator"], len(entry["fraction"])) for entry in entries} == {("control", 50), ("sm-g-abs", 50)}


def test_a_reproduction_is_planned_at_the_papers_scale_with_a_profile() -> None:
    options = SharedOptions(profile="described")
    plan = plan_figure(load_plugins(), "parity", runs=None, scale=1.0, quick=False, options=options)
    settings = dict(plan.members["parity"])["sm-g-sum"].settings
    assert (settings.runs, settings.evaluations, settings.init) == (20, 100_000, "xavier-normal")


def test_a_quick_look_is_small() -> None:
    plugins, options = load_plugins(), SharedOptions(profile=DEFAULT_PROFILE)
    for name, figure in FIGURES.items():
        plan = plan_figure(plugins, name, runs=None, scale=figure.quick, quick=True, options=options)
        resolved = [settings.settings for members in plan.members.values() for _, settings in members]
        assert all(settings.runs == 2 and settings.evaluations <= 5_000 for settings in resolved), name
        assert all(settings.evaluations >= settings.population for settings in resolved)


@pytest.mark.slow
def test_a_scaled_reproduction_is_marked_everywhere(tmp_path: Path) -> None:
    done = tfsm("reproduce", "simple", "--scale", "0.1", "--out", "small", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "scaled down to 0.1" in done.stdout
    folder = tmp_path / "small" / "summary" / "simple"
    assert "caled down to 0.1" in (folder / "claims.md").read_text()
    assert json.loads((folder / "claims.json").read_text())["scale"] == 0.1
    assert "0.1" in (folder / "report.html").read_text().split("<main", 1)[1][:3000]
    assert (folder / "simple-washout-solved.png").stat().st_size > 1000
    claims = json.loads((folder / "claims.json").read_text())["claims"]
    assert {claim["holds"] for claim in claims} <= {True, False, None}
    assert len(claims) == 16
