"""Paths that the system itself will not have: the command says so, and ends with code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.outcomes import write_run
from tfsm.cli.main import main

LONG = "y" * 300
STUDY = '{"kind": "compare", "domain": "simple-easy", "members": [{"name": [], "directory": "x"}]}'


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    "words",
    [
        ("report", LONG),
        ("report", LONG, "--html", "page.html"),
        ("replay", LONG, "--save", "film.png"),
        ("robustness", LONG),
        ("runs", "list", LONG),
        ("runs", "show", LONG),
        ("runs", "rm", LONG),
        ("mutate", f"{LONG}.keras", "--experience", "x.npy", "--out", "child.keras"),
        ("mutate", "m.keras", "--experience", "x.npy", "--out", f"{LONG}.keras"),
        ("doctor", "--model", f"{LONG}.keras"),
        ("run", "simple-easy", "--mutation", "control", "--quiet", "--out", LONG),
        ("plugins", "new", "my-part", "--kind", "mutation", "--out", LONG),
    ],
    ids=lambda words: " ".join(words)[:20],
)
def test_names_that_are_too_long(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    said = told(capsys, *words)
    assert "File name too long" in said
    assert LONG in said


def test_links_that_lead_in_a_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    assert "loop: no such directory" in told(capsys, "report", "loop")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a name has to be text")
def test_names_that_are_no_text_are_shown_as_they_can_be(tmp_path: Path) -> None:
    write_run(tmp_path / os.fsdecode(b"run-\xff"))
    done = subprocess.run(
        [sys.executable, "-m", "tfsm", "runs", "list", "."], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"run-\udcff" in done.stdout


def test_a_study_that_is_damaged_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s").mkdir()
    Path("s/study.json").write_text(STUDY)
    said = told(capsys, "compare", "simple-easy", "--mutation", "control", "--out", "s")
    assert "s/study.json: not the record of a study: members.0.name: input should be a valid string" in said
    assert Path("s/study.json").read_text() == STUDY
