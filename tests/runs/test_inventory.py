"""Run directories and studies on disk are listed, summarized and removed safely."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.outcomes import write_run
from tfsm.errors import TfsmError
from tfsm.runs.inventory import list_directories, remove, summarize_directory
from tfsm.runs.records import DirectoryLock


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "a")
    write_run(tmp_path / "deep" / "b", mutation="sm-r", status="running")
    write_run(tmp_path / "s" / "control")
    study = {"kind": "compare", "domain": "made-up", "status": "finished", "started": "2026-02-01T00:00:00+00:00"}
    members = [{"name": "control", "directory": "control"}, {"name": "sm-r", "directory": "sm-r"}]
    (tmp_path / "s" / "study.json").write_text(json.dumps(study | {"members": members}))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    return tmp_path


def test_everything_is_listed_once_newest_first(runs: Path) -> None:
    found = [(item.directory.relative_to(runs).as_posix(), item.kind, item.status) for item in list_directories(runs)]
    assert found[0] == ("s", "compare", "finished")
    assert sorted(found[1:]) == [
        ("a", "run", "finished"),
        ("broken", "damaged", "damaged"),
        ("deep/b", "run", "killed"),
    ]


def test_the_summary_of_a_study_covers_all_members(runs: Path) -> None:
    summary = summarize_directory(runs / "s")
    assert (summary.methods, summary.solved, summary.runs, summary.evaluations) == (("control", "sm-r"), 1, 2, 100)
    assert summary.size == sum(file.stat().st_size for file in (runs / "s").rglob("*") if file.is_file())


def test_remove_deletes_runs_and_studies(runs: Path) -> None:
    remove(runs / "s", force=False)
    remove(runs / "a", force=False)
    remove(runs / "broken", force=False)
    assert sorted(path.name for path in runs.iterdir()) == ["deep"]


@pytest.mark.parametrize(
    ("name", "message"),
    [(".", "neither a run directory nor a study"), ("deep", "neither"), ("deep/b", "in use by another process")],
)
def test_remove_refuses_other_directories_and_those_in_use(name: str, message: str, runs: Path) -> None:
    with DirectoryLock(runs / "deep" / "b"):
        before = sorted(runs.rglob("*"))
        with pytest.raises(TfsmError, match=message):
            remove(runs / name, force=False)
        assert sorted(runs.rglob("*")) == before


def test_a_run_recorded_as_running_without_a_process_was_killed(runs: Path) -> None:
    with DirectoryLock(runs / "deep" / "b"):
        assert summarize_directory(runs / "deep" / "b").status == "running"
    assert summarize_directory(runs / "deep" / "b").status == "killed"
    remove(runs / "deep" / "b", force=False)


@pytest.mark.parametrize("folder", ["a", "s/control"])
def test_a_user_file_is_kept_unless_forced(folder: str, runs: Path) -> None:
    (runs / folder / "thesis.tex").write_text("mine")
    top = runs / folder.split("/")[0]
    with pytest.raises(TfsmError, match=r"thesis\.tex"):
        remove(top, force=False)
    assert (runs / folder / "thesis.tex").exists()
    remove(top, force=True)
    assert not top.exists()


def test_a_link_is_never_followed(runs: Path) -> None:
    (runs / "link").symlink_to(runs / "a")
    with pytest.raises(TfsmError, match="neither"):
        remove(runs / "link", force=True)
    assert (runs / "a" / "run.json").exists()
