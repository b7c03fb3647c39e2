"""Settings of an experiment that is gone on with: what may be given anew, and what not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.settings.settings_case import built_ins
from tfsm.cli.main import main
from tfsm.errors import TfsmError
from tfsm.runs.resume import describe_changes, fingerprint, resume_settings, use_saved_inputs
from tfsm.settings import ResolvedSettings, resolve


def settings(**overrides: Any) -> ResolvedSettings:
    values = {"runs": 2, "evaluations": 100, "seed": 3, "population": 20} | overrides
    return resolve(built_ins(), domain="parity", mutation="sm-r", overrides=values, sets=["bits=2", "log_every=10"])


def record(directory: Path, *, status: str = "interrupted", **more: Any) -> Path:
    """Write down an experiment."""
    told = settings()
    directory.mkdir(exist_ok=True)
    content = {"status": status, "runs": [], "settings": told.settings.as_dict(), "sources": told.sources} | more
    (directory / "run.json").write_text(json.dumps(content))
    return directory


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    found = resume_settings(built_ins(), record(tmp_path), {"runs": None})
    assert found.settings == settings().settings
    assert found.sources == settings().sources


def test_there_may_be_more_and_it_is_still_the_same_experiment(tmp_path: Path) -> None:
    anew = {"evaluations": 250, "runs": 5, "checkpoint_every": "5m", "evaluation_timeout": 9.0}
    found = resume_settings(built_ins(), record(tmp_path), anew)
    told = found.settings.as_dict()
    assert {key: told[key] for key in anew} == anew
    assert found.sources["evaluations"] == "command line"
    assert fingerprint(told) == fingerprint(settings().settings.as_dict())
    assert describe_changes(settings().settings.as_dict() | {"runs": 5, "evaluations": 250}, told) == []


@pytest.mark.parametrize(("key", "less"), [("evaluations", 99), ("runs", 1)])
def test_there_may_not_be_less(tmp_path: Path, key: str, less: int) -> None:
    with pytest.raises(TfsmError, match=rf"--{key} {less}: .* already has .*; it cannot be reduced"):
        resume_settings(built_ins(), record(tmp_path), {key: less})


@pytest.mark.parametrize(
    "given", [{"seed": 4}, {"population": 9}, {"intensity": 0.5}, {"selection": "drift"}, {"observers": ("x",)}]
)
def test_what_decides_the_result_may_not_be_given_anew(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(TfsmError, match=f"{next(iter(given))} cannot be changed.*evaluations, runs, checkpoint_every"):
        resume_settings(built_ins(), record(tmp_path), given)


@pytest.mark.parametrize("wrong", [{"evaluations": 0}, {"checkpoint_every": "soon"}, {"evaluation_timeout": -1.0}])
def test_what_is_given_anew_is_checked(tmp_path: Path, wrong: dict[str, Any]) -> None:
    key = next(iter(wrong))
    with pytest.raises(TfsmError, match=f"{key}|--{key.replace('_', '-')}"):
        resume_settings(built_ins(), record(tmp_path), wrong)


def test_trust_must_be_said_again(tmp_path: Path) -> None:
    trusting = settings().settings.as_dict() | {"trust_model": True}
    directory = record(tmp_path, settings=trusting)
    with pytest.raises(TfsmError, match="loaded with --trust-model, which must be given again"):
        resume_settings(built_ins(), directory, {})
    assert resume_settings(built_ins(), directory, {"trust_model": True}).settings.trust_model


def test_parts_that_came_ready_made_need_the_program_that_made_them(tmp_path: Path) -> None:
    directory = record(tmp_path, objects={"domain": "Mine()", "model": "a file"})
    with pytest.raises(TfsmError, match=r"its domain came from a Python program.*resume=True"):
        resume_settings(built_ins(), directory, {})
    resume_settings(built_ins(), record(tmp_path, objects={"model": "a file"}), {})


def test_files_that_were_kept_take_the_place_of_the_users_own(tmp_path: Path) -> None:
    directory = record(tmp_path / "run", inputs={"maze": "inputs/maze.txt"})
    found = use_saved_inputs(settings().settings, directory)
    assert found.domain_options == settings().settings.domain_options | {"maze": str(directory / "inputs/maze.txt")}
    assert use_saved_inputs(settings().settings, None) == settings().settings
    assert use_saved_inputs(settings().settings, tmp_path / "missing") == settings().settings


@pytest.mark.parametrize(
    "damage",
    [{"domain": "no-such"}, {"domain_options": {"bits": "many"}}, {"engine": {"width": -1}}, {"selection": None}],
)
def test_a_damaged_record_is_an_error_that_names_it(tmp_path: Path, damage: dict[str, Any]) -> None:
    with pytest.raises(TfsmError):
        resume_settings(built_ins(), record(tmp_path, settings=settings().settings.as_dict() | damage), {})
    with pytest.raises(TfsmError, match="not the record of a run"):
        resume_settings(built_ins(), record(tmp_path, settings={"domain": "parity"}), {})


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    return int(ended.value.code or 0)


def test_what_is_finished_says_so_and_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = record(tmp_path, status="finished")
    before = (directory / "run.json").read_bytes()
    assert command("--resume", str(directory)) == 0
    assert "already finished; raise --evaluations or --runs to continue" in capsys.readouterr().err
    assert (directory / "run.json").read_bytes() == before
    assert [path.name for path in directory.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    "more", [["parity"], ["--mutation", "control"], ["--set", "bits=3"], ["--out", "elsewhere"], ["--seed", "5"]]
)
def test_the_command_takes_nothing_that_would_change_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    assert command("--resume", str(record(tmp_path)), *more) == 2
    told = capsys.readouterr().err.strip()
    assert told.startswith("error: --resume")
    assert "\n" not in told


@pytest.mark.parametrize(("name", "words"), [("missing", "no such directory"), ("empty", "it has no run.json")])
def test_what_is_no_run_directory_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    (tmp_path / "empty").mkdir()
    assert command("--resume", str(tmp_path / name)) == 2
    assert words in capsys.readouterr().err
