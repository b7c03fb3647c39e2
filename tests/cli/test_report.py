"""The command `tfsm report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.commands import CommandResult, tfsm
from tests.helpers.fake_distribution import FakeSite
from tests.report.cases import EVIL, RICH, make_log, method, study, write_runs

INSPECT = """
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path("modules.json").write_text(json.dumps(sorted(sys.modules))))
from tfsm.cli.main import main
main()
"""


def report(*arguments: str, cwd: Path) -> CommandResult:
    return tfsm("report", *arguments, cwd=cwd)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with a directory `runs` of two run directories."""
    write_runs(tmp_path / "runs", study().methods)
    return tmp_path


def test_tables_are_printed_line_by_line(runs: Path) -> None:
    done = report("runs", "--at", "500", cwd=runs)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "parity, up to 1,000 evaluations per run"
    assert "control 2 of 4 50% (15% to 85%) 950 (interval unknown) 1.15 (1 to 1.3)" in lines
    assert "sm-r 4 of 4 100% (51% to 100%) 250 (interval unknown) 1.15 (1 to 1.3)" in lines
    assert "faster, unsolved runs last? Mann-Whitney U 0.0286 0.0286 significant" in lines
    assert any(line.startswith("more runs solved within 500? Barnard's exact") for line in lines)
    assert not [file for file in runs.iterdir() if file.name != "runs"]


def test_directories_can_be_named_one_by_one_and_a_baseline_chosen(runs: Path) -> None:
    done = report("runs/run-1", "runs/run-0", "--baseline", "control", cwd=runs)
    assert done.returncode == 0, done.stderr
    assert "sm-r vs. control" in done.stdout
    assert "control vs. sm-r" not in done.stdout


@pytest.mark.slow
def test_json_is_one_document_and_nothing_else(runs: Path) -> None:
    done = report("runs", "--json", "--html", "page.html", "--band", "wilson", cwd=runs)
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["studies"]
    assert document["band"] == "wilson"
    assert [(own["name"], own["summary"]["solved"]) for own in document["methods"]] == [("control", 2), ("sm-r", 4)]
    assert document["methods"][1]["directory"] == "runs/run-1"
    assert (runs / "page.html").is_file()
    assert done.stderr == "wrote page.html\n"


@pytest.mark.slow
def test_page_and_figures_replace_older_ones(runs: Path) -> None:
    (runs / "page.html").write_text("an older report")
    (runs / "to" / "figures").mkdir(parents=True)
    (runs / "to" / "figures" / "solved.png").write_text("an older figure")
    done = report("runs", "--html", "page.html", "--figures", "to/figures", cwd=runs)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines() == ["wrote 8 files to to/figures", "wrote page.html"]
    assert (runs / "to" / "figures" / "solved.png").read_bytes().startswith(b"\x89PNG")
    assert (runs / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert len(list((runs / "to" / "figures").iterdir())) == 8
    assert {file.name for file in runs.iterdir()} == {"runs", "page.html", "to"}


@pytest.mark.slow
def test_domains_are_reported_one_after_the_other(runs: Path) -> None:
    record = json.loads((runs / "runs" / "run-1" / "run.json").read_text())
    record["settings"]["domain"] = "hard-maze"
    (runs / "runs" / "run-1" / "run.json").write_text(json.dumps(record))
    done = report("runs", "--figures", "figures", cwd=runs)
    assert done.returncode == 0, done.stderr
    names = {file.name for file in (runs / "figures").iterdir()}
    assert {"parity-solved.png", "hard-maze-solved.svg"} <= names
    done = report("runs", cwd=runs)
    assert "hard-maze, up to 1,000 evaluations" in done.stdout


def test_unfinished_runs_are_reported_first(tmp_path: Path) -> None:
    write_runs(tmp_path, [method("control", [10, None], status="interrupted", runs=6)])
    done = report("run-0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith("warning: Unfinished: control (interrupted, 2 of 6 runs completed)")


@pytest.mark.slow
def test_unusual_names_are_escaped(tmp_path: Path) -> None:
    odd = [EVIL, "[red]mark[/red] \x1b[2J"]
    write_runs(tmp_path / "<img src=x>", [method(name, [10, None], metrics=make_log(2, **RICH)) for name in odd])
    done = report("<img src=x>", "--html", "page.html", "--figures", "figures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<img" not in page
    assert "<script" not in page
    done = report("<img src=x>", cwd=tmp_path)
    assert EVIL in done.stdout
    assert "[red]mark[/red]" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no such directory"),
        (["empty"], "empty: not a run directory, it has no run.json"),
        (["broken"], "not valid JSON"),
        (["runs", "--at", "1001"], "--at 1001: expected 1 to 1000"),
        (["runs", "--at", "0"], "--at 0: expected 1 to 1000"),
        (["runs", "--baseline", "contrl"], "no method named 'contrl', did you mean 'control'?"),
        (["--html", "runs", "runs"], "runs: is a directory; --html expects a file"),
        (["runs", "--html", "runs/run-0/run.json"], "run.json: expected a file name ending in .html or .htm"),
        (["runs", "--html", "no/page.html"], "no/page.html: there is no directory 'no'"),
        (["runs", "--figures", "file"], "file: is a file; --figures expects a directory"),
        (["runs", "--figures", "file/below"], "file/below: cannot create the directory"),
    ],
)
def test_mistakes_are_reported_in_one_line_and_leave_no_files(runs: Path, arguments: list[str], message: str) -> None:
    (runs / "empty").mkdir()
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text("{")
    (runs / "file").write_text("in the way")
    before = sorted((file, file.stat().st_mtime_ns) for file in runs.rglob("*"))
    done = report(*arguments, cwd=runs)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
    assert sorted((file, file.stat().st_mtime_ns) for file in runs.rglob("*")) == before


def test_an_unknown_band_is_refused(runs: Path) -> None:
    done = report("runs", "--band", "wald", cwd=runs)
    assert done.returncode == 2
    assert "kaplan-meier" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_failed_write_leaves_no_temporary_file(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    done = report("runs", "--html", "page.html", cwd=runs)
    assert done.returncode == 2
    assert done.stderr == "error: page.html: cannot be written: No space left on device\n"
    assert [file.name for file in runs.iterdir()] == ["runs"]


@pytest.mark.slow
def test_tensorflow_is_never_imported_nor_pyplot_and_matplotlib_only_to_draw(tmp_path: Path) -> None:
    site = FakeSite(tmp_path)
    write_runs(tmp_path / "runs", study().methods)
    site.module("inspected", INSPECT)
    for arguments in (["runs"], ["runs", "--json"], ["runs", "--html", "page.html", "--figures", "figures"]):
        done = site.python("inspected.py", "report", *arguments)
        assert done.returncode == 0, done.stderr
        imported = set(json.loads((tmp_path / "modules.json").read_text()))
        assert not imported & {"tensorflow", "keras", "matplotlib.pyplot"}
        assert ("matplotlib" in imported) == ("--html" in arguments)


@pytest.mark.slow
def test_without_matplotlib_only_figures_are_refused(tmp_path: Path) -> None:
    site = FakeSite(tmp_path)
    write_runs(tmp_path / "runs", study().methods)
    site.module("matplotlib", "raise ImportError('not installed')")
    for option in (["--html", "page.html"], ["--figures", "figures"]):
        done = site.tfsm_process("report", "runs", *option)
        assert done.returncode == 2
        assert done.stderr == "error: a report with figures needs matplotlib: pip install 'tfsm[plot]'\n"
    done = site.tfsm_process("report", "runs")
    assert done.returncode == 0, done.stderr
    assert "2 of 4" in done.stdout
    assert {file.name for file in tmp_path.iterdir()} - {"__pycache__"} == {"runs", "matplotlib.py"}


@pytest.mark.slow
def test_every_process_writes_the_same_bytes(tmp_path: Path) -> None:
    site = FakeSite(tmp_path)
    write_runs(tmp_path / "runs", study().methods)
    for number in ("1", "2"):
        words = ["report", "runs", "--figures", number, "--html", f"{number}.html"]
        done = site.tfsm_process(*words, PYTHONHASHSEED=number)
        assert done.returncode == 0, done.stderr
    for file in (tmp_path / "1").iterdir():
        assert file.read_bytes() == (tmp_path / "2" / file.name).read_bytes(), file.name
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()
