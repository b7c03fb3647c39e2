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
from tfsm.runs.study import Member, StudyResult, run_study
from tfsm.settings import resolve

PLUGINS = load_plugins()
METHODS = ("control", "sm-g-abs")


def members(*names: str, **overrides: Any) -> list[Member]:
    values = {"runs": 3, "seed": 5, "evaluations": 60} | overrides
    return [
        Member(name, resolve(PLUGINS, domain="simple-medium", mutation=name, overrides=values))
        for name in names or METHODS
    ]


def run(out: Path, wanted: list[Member], **options: Any) -> StudyResult:
    return run_study(PLUGINS, wanted, kind="compare", out=out, watch=lambda *_: nullcontext(Observer()), **options)


def outcome(directory: Path) -> dict[str, Any]:
    """All that a study found: how each run ended and what was logged."""
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
    result = run(out, members())
    assert not result.interrupted
    assert set(result.seconds) == set(METHODS)
    assert json.loads((out / "study.json").read_text())["status"] == "finished"
    return outcome(out)


@pytest.mark.parametrize("calls", [2, *(pytest.param(calls, marks=pytest.mark.slow) for calls in (0, 5, 9))])
def test_interrupted_anywhere_and_continued_it_gives_the_same(
    calls: int, tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    left = iter([False] * calls)
    first = run(tmp_path / "s", members(), stop=lambda: next(left, True))
    assert first.interrupted
    assert json.loads((tmp_path / "s" / "study.json").read_text())["status"] == "interrupted"
    told: list[str] = []
    second = run(tmp_path / "s", members(), notify=told.append)
    assert not second.interrupted
    assert outcome(tmp_path / "s") == uninterrupted


def test_what_is_finished_is_not_run_again_and_methods_may_be_added(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    run(tmp_path / "s", members("control"))
    before = (tmp_path / "s" / "control" / "run.json").read_bytes()
    told: list[str] = []
    result = run(tmp_path / "s", members(), notify=told.append)
    assert set(result.seconds) == {"sm-g-abs"}
    assert any("1 of 2 already finished" in message for message in told)
    assert (tmp_path / "s" / "control" / "run.json").read_bytes() == before
    assert outcome(tmp_path / "s") == uninterrupted
    assert len(json.loads((tmp_path / "s" / "study.json").read_text())["commands"]) == 2


def test_other_settings_are_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    run(tmp_path / "s", members("control"))
    before = (tmp_path / "s" / "study.json").read_bytes()
    with pytest.raises(TfsmError, match="runs was 3 and is now 4"):
        run(tmp_path / "s", members("control", runs=4))
    with pytest.raises(TfsmError, match="contains a compare of simple-medium"):
        run_study(PLUGINS, members(), kind="sweep", out=tmp_path / "s", watch=lambda *_: nullcontext(Observer()))
    assert (tmp_path / "s" / "study.json").read_bytes() == before


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TfsmError, match="already exists"):
        run(tmp_path, members())


def test_an_engine_that_is_used_again_gives_what_a_new_one_does(tmp_path: Path) -> None:
    wanted = [
        Member(f"sm-g-abs-{x}", member.resolved) for x in (0.5, 0.2) for member in members("sm-g-abs", intensity=x)
    ]
    run(tmp_path / "both", wanted)
    run(tmp_path / "one", wanted[1:])
    assert outcome(tmp_path / "both")["sm-g-abs-0.2"] == outcome(tmp_path / "one")["sm-g-abs-0.2"]
    assert outcome(tmp_path / "both")["sm-g-abs-0.2"] != outcome(tmp_path / "both")["sm-g-abs-0.5"]
