"""Settings of a resumed experiment: which may be changed, and which may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.settings.settings_case import built_ins
from tfsm.cli.main import main
from tfsm.errors import TfsmError
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.runs.resume import describe_changes, fingerprint, resume_settings, use_saved_inputs
from tfsm.settings import ResolvedSettings, resolve
from tfsm_domains.pixel_maze.layout import read_layout


def make_settings(**overrides: Any) -> ResolvedSettings:
    values = {"runs": 2, "evaluations": 100, "seed": 3, "population": 20} | overrides
    return resolve(built_ins(), domain="parity", mutation="sm-r", overrides=values, sets=["bits=2", "log_every=10"])


def write_record(directory: Path, *, status: str = "interrupted", **more: Any) -> Path:
    """Write the record of an experiment."""
    resolved = make_settings()
    directory.mkdir(exist_ok=True)
    content = {
        "status": status,
        "runs": [],
        "settings": resolved.settings.as_dict(),
        "sources": resolved.sources,
    } | more
    (directory / "run.json").write_text(json.dumps(content))
    return directory


def test_settings_are_restored(tmp_path: Path) -> None:
    found = resume_settings(built_ins(), write_record(tmp_path), {"runs": None})
    assert found.settings == make_settings().settings
    assert found.sources == make_settings().sources


def test_budgets_may_grow_without_changing_the_fingerprint(tmp_path: Path) -> None:
    changes = {"evaluations": 250, "runs": 5, "checkpoint_every": "5m", "evaluation_timeout": 9.0}
    found = resume_settings(built_ins(), write_record(tmp_path), changes)
    resolved = found.settings.as_dict()
    assert {key: resolved[key] for key in changes} == changes
    assert found.sources["evaluations"] == "command line"
    assert fingerprint(resolved) == fingerprint(make_settings().settings.as_dict())
    assert describe_changes(make_settings().settings.as_dict() | {"runs": 5, "evaluations": 250}, resolved) == []


@pytest.mark.parametrize(("key", "less"), [("evaluations", 99), ("runs", 1)])
def test_budgets_may_not_shrink(tmp_path: Path, key: str, less: int) -> None:
    with pytest.raises(TfsmError, match=rf"--{key} {less}: .* already has .*; it cannot be reduced"):
        resume_settings(built_ins(), write_record(tmp_path), {key: less})


@pytest.mark.parametrize(
    "given", [{"seed": 4}, {"population": 9}, {"intensity": 0.5}, {"selection": "drift"}, {"observers": ("x",)}]
)
def test_settings_that_affect_the_result_cannot_be_changed(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(TfsmError, match=f"{next(iter(given))} cannot be changed.*evaluations, runs, checkpoint_every"):
        resume_settings(built_ins(), write_record(tmp_path), given)


@pytest.mark.parametrize("wrong", [{"evaluations": 0}, {"checkpoint_every": "soon"}, {"evaluation_timeout": -1.0}])
def test_changed_settings_are_validated(tmp_path: Path, wrong: dict[str, Any]) -> None:
    key = next(iter(wrong))
    with pytest.raises(TfsmError, match=f"{key}|--{key.replace('_', '-')}"):
        resume_settings(built_ins(), write_record(tmp_path), wrong)


def test_trust_model_must_be_given_again(tmp_path: Path) -> None:
    trusting = make_settings().settings.as_dict() | {"trust_model": True}
    directory = write_record(tmp_path, settings=trusting)
    with pytest.raises(TfsmError, match="loaded with --trust-model, which must be given again"):
        resume_settings(built_ins(), directory, {})
    assert resume_settings(built_ins(), directory, {"trust_model": True}).settings.trust_model


def test_parts_given_as_objects_must_be_resumed_from_their_program(tmp_path: Path) -> None:
    directory = write_record(tmp_path, objects={"domain": "Mine()", "model": "a file"})
    with pytest.raises(TfsmError, match=r"its domain came from a Python program.*resume=True"):
        resume_settings(built_ins(), directory, {})
    resume_settings(built_ins(), write_record(tmp_path, objects={"model": "a file"}), {})


def test_saved_inputs_replace_the_original_files(tmp_path: Path) -> None:
    directory = write_record(tmp_path / "run", inputs={"maze": "inputs/maze.txt"})
    found = use_saved_inputs(make_settings().settings, directory)
    assert found.domain_options == make_settings().settings.domain_options | {
        "maze": str(directory / "inputs/maze.txt")
    }
    assert use_saved_inputs(make_settings().settings, None) == make_settings().settings
    assert use_saved_inputs(make_settings().settings, tmp_path / "missing") == make_settings().settings


@pytest.mark.parametrize(
    "damage",
    [{"domain": "no-such"}, {"domain_options": {"bits": "many"}}, {"engine": {"width": -1}}, {"selection": None}],
)
def test_a_damaged_record_is_an_error_that_names_it(tmp_path: Path, damage: dict[str, Any]) -> None:
    with pytest.raises(TfsmError):
        resume_settings(built_ins(), write_record(tmp_path, settings=make_settings().settings.as_dict() | damage), {})
    with pytest.raises(TfsmError, match="not the record of a run"):
        resume_settings(built_ins(), write_record(tmp_path, settings={"domain": "parity"}), {})


def run_command(*message: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["run", *message])
    return int(caught.value.code or 0)


def test_a_finished_run_is_reported_and_left_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_record(tmp_path, status="finished")
    before = (directory / "run.json").read_bytes()
    assert run_command("--resume", str(directory)) == 0
    assert "already finished; raise --evaluations or --runs to continue" in capsys.readouterr().err
    assert (directory / "run.json").read_bytes() == before
    assert [path.name for path in directory.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    "more", [["parity"], ["--mutation", "control"], ["--set", "bits=3"], ["--out", "elsewhere"], ["--seed", "5"]]
)
def test_the_command_refuses_options_that_would_change_the_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    assert run_command("--resume", str(write_record(tmp_path)), *more) == 2
    resolved = capsys.readouterr().err.strip()
    assert resolved.startswith("error: --resume")
    assert "\n" not in resolved


@pytest.mark.parametrize(("name", "message"), [("missing", "no such directory"), ("empty", "it has no run.json")])
def test_a_directory_that_is_not_a_run_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    assert run_command("--resume", str(tmp_path / name)) == 2
    assert message in capsys.readouterr().err


def test_a_pixel_maze_recorded_without_a_name_keeps_its_layout(tmp_path: Path) -> None:
    """The default maze had no name in records; the default is another one now."""
    plugins = load_plugins()
    resolved = resolve(plugins, domain="topdown-maze", mutation="control")
    assert resolved.settings.domain_options["maze"] == "stairs"
    recorded = resolved.settings.as_dict()
    recorded["domain_options"]["maze"] = None
    found = resume_settings(plugins, write_record(tmp_path, settings=recorded), {"runs": 3}).settings
    maze = build_part(plugins.domains["topdown-maze"], found.domain_options)
    assert maze.layout.rows == read_layout("long").rows
    assert fingerprint(found.as_dict()) == fingerprint(recorded)
