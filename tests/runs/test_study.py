"""Studies: several experiments in one directory, interrupted and continued."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tfsm.errors import TfsmError
from tfsm.interfaces import Observer
from tfsm.plugins import load_plugins
from tfsm.runs.study import Member, StudyResult, _notify_once, run_study
from tfsm.settings import resolve

PLUGINS = load_plugins()
METHODS = ("control", "sm-g-abs")


def make_members(*names: str, **overrides: Any) -> list[Member]:
    values = {"runs": 3, "seed": 5, "evaluations": 60} | overrides
    return [
        Member(name, resolve(PLUGINS, domain="simple-medium", mutation=name, overrides=values))
        for name in names or METHODS
    ]


def run(out: Path, study_members: list[Member], **options: Any) -> StudyResult:
    return run_study(
        PLUGINS, study_members, kind="compare", out=out, watch=lambda *_: nullcontext(Observer()), **options
    )


def read_outcome(directory: Path) -> dict[str, Any]:
    """Return the results of a study: how each run ended, and its metrics."""
    found = {}
    for member in json.loads((directory / "study.json").read_text())["members"]:
        path = directory / member["directory"]
        runs = json.loads((path / "run.json").read_text())["runs"]
        metrics = sorted(
            (json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()),
            key=lambda line: (line["run"], line["evaluations"]),
        )
        found[member["name"]] = (runs, metrics)
    return found


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("whole") / "study"
    result = run(out, make_members())
    assert not result.interrupted
    assert set(result.seconds) == set(METHODS)
    assert json.loads((out / "study.json").read_text())["status"] == "finished"
    return read_outcome(out)


@pytest.mark.parametrize("calls", [2, *(pytest.param(calls, marks=pytest.mark.slow) for calls in (0, 5, 9))])
def test_an_interrupted_study_continues_to_the_same_results(
    calls: int, tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    calls_before_stop = iter([False] * calls)
    first = run(tmp_path / "s", make_members(), stop=lambda: next(calls_before_stop, True))
    assert first.interrupted
    assert json.loads((tmp_path / "s" / "study.json").read_text())["status"] == "interrupted"
    ended = {
        member["name"]: json.loads((tmp_path / "s" / member["directory"] / "run.json").read_text())["status"]
        for member in json.loads((tmp_path / "s" / "study.json").read_text())["members"]
        if (tmp_path / "s" / member["directory"]).is_dir()
    }
    messages: list[str] = []
    second = run(tmp_path / "s", make_members(), notify=messages.append)
    assert not second.interrupted
    finished = [name for name, status in ended.items() if status == "finished"]
    assert set(second.seconds) == set(METHODS) - set(finished)
    assert [f"{len(finished)} of 2 already finished" in message for message in messages] == [True] * bool(finished)
    assert read_outcome(tmp_path / "s") == uninterrupted


@pytest.mark.slow
def test_finished_members_are_not_repeated_and_methods_may_be_added(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    run(tmp_path / "s", make_members("control"))
    before = (tmp_path / "s" / "control" / "run.json").read_bytes()
    messages: list[str] = []
    result = run(tmp_path / "s", make_members(), notify=messages.append)
    assert set(result.seconds) == {"sm-g-abs"}
    assert any("1 of 2 already finished" in message for message in messages)
    assert (tmp_path / "s" / "control" / "run.json").read_bytes() == before
    assert read_outcome(tmp_path / "s") == uninterrupted
    assert len(json.loads((tmp_path / "s" / "study.json").read_text())["commands"]) == 2


def test_other_settings_are_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    run(tmp_path / "s", make_members("control"))
    before = (tmp_path / "s" / "study.json").read_bytes()
    with pytest.raises(TfsmError, match="runs was 3 and is now 4"):
        run(tmp_path / "s", make_members("control", runs=4))
    with pytest.raises(TfsmError, match="contains a compare of simple-medium"):
        run_study(PLUGINS, make_members(), kind="sweep", out=tmp_path / "s", watch=lambda *_: nullcontext(Observer()))
    assert (tmp_path / "s" / "study.json").read_bytes() == before


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TfsmError, match="already exists"):
        run(tmp_path, make_members())


@pytest.mark.slow
def test_a_reused_engine_gives_the_same_results_as_a_new_one(tmp_path: Path) -> None:
    study_members = [
        Member(f"control-{x}", member.resolved) for x in (0.5, 0.2) for member in make_members("control", intensity=x)
    ]
    run(tmp_path / "both", study_members)
    run(tmp_path / "one", study_members[1:])
    assert read_outcome(tmp_path / "both")["control-0.2"] == read_outcome(tmp_path / "one")["control-0.2"]
    assert read_outcome(tmp_path / "both")["control-0.2"] != read_outcome(tmp_path / "both")["control-0.5"]


def test_a_note_of_several_members_is_shown_once() -> None:
    shown: list[str] = []
    notify = _notify_once(shown.append)
    for message in ("old", "new", "old"):
        notify(message)
    assert shown == ["old", "new"]
