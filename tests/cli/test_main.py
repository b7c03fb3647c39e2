"""Errors, start-up time, completion, and unusual file names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.helpers.fake_distribution import FakeSite
from tests.helpers.outcomes import write_run
from tfsm.cli import main as module
from tfsm.cli.main import main


def run_failing_app(monkeypatch: pytest.MonkeyPatch, error: BaseException, cause: BaseException | None) -> int:
    def app(**_: object) -> NoReturn:
        raise error from cause

    monkeypatch.setattr(module, "app", app)
    with pytest.raises(SystemExit) as found:
        module.main([])
    return int(str(found.value.code))


def test_an_interrupt_wrapped_by_a_library_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_failing_app(monkeypatch, KeyboardInterrupt(), None) == 130
    assert (
        run_failing_app(monkeypatch, SystemError("returned a result with an exception set"), KeyboardInterrupt()) == 130
    )


def test_an_internal_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemError, match="a bug"):
        run_failing_app(monkeypatch, SystemError("a bug"), ValueError("of a library"))


HEAVY = {"tensorflow", "keras", "scipy", "numpy", "matplotlib"}

COMPLETE = {"_TFSM_COMPLETE": "complete_bash", "COMP_WORDS": "tfsm mutations sm-", "COMP_CWORD": "2"}

CASES = {
    "help": (["--help"], {}, "Usage: tfsm"),
    "help of run": (["run", "--help"], {}, "Usage: tfsm run"),
    "version": (["--version"], {}, "tfsm "),
    "plugins": (["plugins", "list"], {}, "tfsm-mutations"),
    "mutations": (["mutations"], {}, "sm-g-abs"),
    "domains": (["domains", "--json"], {}, "parity"),
    "observers": (["observers"], {}, "tensorboard"),
    "complete a command": ([], {**COMPLETE, "COMP_WORDS": "tfsm mut", "COMP_CWORD": "1"}, "mutations"),
    "complete a name": ([], COMPLETE, "sm-g-abs"),
    "complete an observer": (
        [],
        {**COMPLETE, "COMP_WORDS": "tfsm run parity --observer tens", "COMP_CWORD": "4"},
        "tensorboard",
    ),
}

INSPECT = """
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path("modules.json").write_text(json.dumps(sorted(sys.modules))))
from tfsm.cli.main import main
main()
"""


@pytest.fixture
def site(tmp_path: Path) -> FakeSite:
    return FakeSite(tmp_path)


@pytest.mark.sample(5)
@pytest.mark.parametrize("case", CASES)
def test_nothing_heavy_is_imported(site: FakeSite, case: str) -> None:
    arguments, variables, output = CASES[case]
    site.module("inspected", INSPECT)
    result = site.python("inspected.py", *arguments, **variables)
    assert result.returncode == 0, result.stderr
    assert output in result.stdout
    imported = set(json.loads((site.root / "modules.json").read_text()))
    assert "tfsm.cli.main" in imported
    assert not imported & HEAVY


@pytest.mark.sample(2)
@pytest.mark.skipif(os.name == "nt", reason="Windows does not count the time of child processes")
@pytest.mark.parametrize(
    "case",
    [case if case in ("help", "complete a name") else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
)
def test_a_light_command_takes_less_than_a_second(site: FakeSite, case: str) -> None:
    arguments, variables, output = CASES[case]

    def seconds() -> float:
        # Processor time, because wall time depends on other processes.
        before = os.times()
        result = site.tfsm_process(*arguments, **variables)
        after = os.times()
        assert output in result.stdout, result.stderr
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert 0 < min(seconds() for _ in range(3)) < 1


def test_importing_tfsm_imports_little(site: FakeSite) -> None:
    program = "import sys, tfsm; print(*sys.modules)"
    imported = set(site.python("-c", program).stdout.split())
    assert "tfsm.plugins.hookspecs" in imported
    assert not imported & (HEAVY | {"pydantic", "typer", "rich"})


def test_completion_omits_a_broken_plugin(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "1 / 0"})
    result = site.tfsm_process(**COMPLETE)
    assert "sm-g-abs" in result.stdout.splitlines()
    assert result.stderr == ""


def test_completion_is_silent_if_plugins_cannot_be_loaded(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "1 / 0"})
    result = site.tfsm_process(**COMPLETE, TFSM_STRICT_PLUGINS="1")
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "", "")


def test_completion_can_be_interrupted(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "raise KeyboardInterrupt"})
    result = site.tfsm_process(**COMPLETE)
    assert (result.returncode, result.stderr) == (130, "")


LONG = "y" * 300
STUDY = '{"kind": "compare", "domain": "simple-easy", "members": [{"name": [], "directory": "x"}]}'


def get_error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    assert caught.value.code == 2
    error_output = capsys.readouterr().err
    assert error_output.startswith("error: ")
    assert "Traceback" not in error_output
    return error_output


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
def test_a_name_that_is_too_long_is_an_error(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    error_output = get_error(capsys, *words)
    assert "File name too long" in error_output
    assert LONG in error_output


def test_a_circular_link_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    assert "loop: no such directory" in get_error(capsys, "report", "loop")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a name has to be text")
def test_undecodable_names_are_escaped(tmp_path: Path) -> None:
    write_run(tmp_path / os.fsdecode(b"run-\xff"))
    done = subprocess.run(
        [sys.executable, "-m", "tfsm", "runs", "list", "."], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"run-\udcff" in done.stdout


def test_a_damaged_study_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s").mkdir()
    Path("s/study.json").write_text(STUDY)
    error_output = get_error(capsys, "compare", "simple-easy", "--mutation", "control", "--out", "s")
    assert "s/study.json: not the record of a study: members.0.name: input should be a valid string" in error_output
    assert Path("s/study.json").read_text() == STUDY
