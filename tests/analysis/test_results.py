"""Loading studies from directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.outcomes import write_run
from tfsm.analysis.results import RunOutcome, load_studies, method_names
from tfsm.errors import TfsmError


def write_study(folder: Path, **record: object) -> None:
    members = [{"name": path.name, "directory": path.name} for path in sorted(folder.iterdir())]
    content = {"kind": "compare", "domain": "made-up", "status": "finished", "members": members}
    (folder / "study.json").write_text(json.dumps(content | record))


def test_a_run_directory_is_a_method(tmp_path: Path) -> None:
    (study,) = load_studies([write_run(tmp_path / "r")])
    (method,) = study.methods
    assert (study.domain, method.name, method.budget, method.solved) == ("made-up", "control", 100, 1)
    assert method.outcomes == (RunOutcome(0, True, 40, 1.0), RunOutcome(1, False, 100, None))
    assert [line["run"] for line in method.metrics] == [0, 1]
    assert method.directory == tmp_path / "r"


def test_a_study_has_its_methods_and_its_scale(tmp_path: Path) -> None:
    write_run(tmp_path / "s" / "sm-r-0.1", mutation="sm-r")
    write_run(tmp_path / "s" / "control")
    write_study(tmp_path / "s", scale=0.1)
    (study,) = load_studies([tmp_path / "s"])
    assert method_names(study.methods) == ["control", "sm-r-0.1"]
    assert [method.record["scale"] for method in study.methods] == [0.1, 0.1]


def test_a_member_that_has_not_started_is_omitted(tmp_path: Path) -> None:
    write_run(tmp_path / "s" / "control")
    (tmp_path / "s" / "later").mkdir()
    write_study(tmp_path / "s")
    (study,) = load_studies([tmp_path / "s"])
    assert method_names(study.methods) == ["control"]
    assert "scale" not in study.methods[0].record


def test_a_folder_of_runs_becomes_a_study_for_each_domain(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "runs" / "b", domain="other")
    write_run(tmp_path / "runs" / "c" / "sm-r", mutation="sm-r")
    write_study(tmp_path / "runs" / "c")
    found = load_studies([tmp_path / "runs"])
    assert {study.domain: method_names(study.methods) for study in found} == {
        "made-up": ["control", "sm-r"],
        "other": ["control"],
    }


def test_the_same_directory_counts_once(tmp_path: Path) -> None:
    write_run(tmp_path / "r")
    (study,) = load_studies([tmp_path / "r", tmp_path / "." / "r"])
    assert len(study.methods) == 1


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"intensity": 0.5}, ["control, intensity 0.1", "control, intensity 0.5"]),
        ({"domain_options": {"bits": 5}}, ["control, bits None", "control, bits 5"]),
    ],
)
def test_methods_of_the_same_name_are_distinguished_by_their_settings(
    other: dict[str, object], expected: list[str], tmp_path: Path
) -> None:
    (study,) = load_studies([write_run(tmp_path / "a"), write_run(tmp_path / "b", **other)])
    assert method_names(study.methods) == expected


def test_identical_methods_are_distinguished_by_their_directories(tmp_path: Path) -> None:
    (study,) = load_studies([write_run(tmp_path / "a"), write_run(tmp_path / "b")])
    assert method_names(study.methods) == [f"control in {tmp_path / name}" for name in "ab"]


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    directory = write_run(tmp_path / "r")
    with (directory / "metrics.jsonl").open("a") as file:
        file.write('{"run": 0, "eval')
    (study,) = load_studies([directory])
    assert len(study.methods[0].metrics) == 2


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("run.json", '{"settings": {}', "not valid JSON"),
        ("run.json", "[]", "expected an object, got list"),
        ("run.json", '{"settings": {}, "runs": []}', "no 'status'"),
        ("run.json", '{"settings": {}, "runs": [{}], "status": "finished"}', "settings.domain: field required"),
        ("metrics.jsonl", '{"run": 0\n{"run": 1}\n', "line 1: not valid JSON"),
        ("study.json", '{"members": 3}', "no list of members"),
        ("study.json", '{"members": [{"name": [], "directory": "x"}]}', "members.0.name: input should be a valid str"),
        ("study.json", '{"members": [], "commands": [[[]]]}', "commands.0.0: input should be a valid string"),
        ("metrics.jsonl", "null\n", "metrics.jsonl, line 1: not the metrics of a run: input should be a valid dict"),
        ("metrics.jsonl", '{"run": [], "evaluations": 1, "best_fitness": 1}\n', "line 1: .*: run: input should be"),
        ("metrics.jsonl", '{"run": 0, "evaluations": 1e40, "best_fitness": 1}\n', "line 1: .*: evaluations: "),
        ("metrics.jsonl", "[" * 100_000 + "\n", "not valid JSON: nested too deeply"),
    ],
)
def test_damaged_files_are_named(file: str, text: str, message: str, tmp_path: Path) -> None:
    directory = write_run(tmp_path / "r")
    (directory / file).write_text(text)
    with pytest.raises(TfsmError, match=message):
        load_studies([directory])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": [None]}, "run.json: not the record of a run: runs.0: input should be a valid dict"),
        ({"runs": [{"run": 0, "solved": True, "evaluations": 2**63, "best_fitness": 1}]}, "runs.0.evaluations: "),
        ({"runs": [{"run": 0, "solved": "no", "evaluations": 1, "best_fitness": 1}]}, "runs.0.solved: "),
        ({"runs": [{"run": 0, "solved": True, "evaluations": 1, "best_fitness": "high"}]}, "runs.0.best_fitness: "),
        ({"settings": {"domain": 3, "mutation": "control", "evaluations": 5}}, "settings.domain: "),
        ({"started": 7}, "started: "),
        ({"command": [1]}, "command.0: "),
        ({"inputs": []}, "inputs: "),
    ],
)
def test_invalid_content_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    directory = write_run(tmp_path / "r")
    record = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps(record | change))
    with pytest.raises(TfsmError, match=message):
        load_studies([directory])


def test_a_directory_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(TfsmError, match="no such directory"):
        load_studies([tmp_path / "nowhere"])
    with pytest.raises(TfsmError, match=r"it has no run\.json"):
        load_studies([tmp_path])
