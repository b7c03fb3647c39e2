"""Commands that need no TensorFlow must not import it, and must start at once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.helpers.fake_distribution import FakeSite

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


@pytest.mark.skipif(os.name == "nt", reason="Windows does not count the time of child processes")
@pytest.mark.parametrize("case", CASES)
def test_it_takes_less_than_a_second(site: FakeSite, case: str) -> None:
    arguments, variables, output = CASES[case]

    def seconds() -> float:
        # Processor time: on a busy machine the clock on the wall measures what else is running.
        before = os.times()
        result = site.tfsm(*arguments, **variables)
        after = os.times()
        assert output in result.stdout, result.stderr
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert 0 < min(seconds() for _ in range(3)) < 1


def test_importing_tfsm_imports_little(site: FakeSite) -> None:
    program = "import sys, tfsm; print(*sys.modules)"
    imported = set(site.python("-c", program).stdout.split())
    assert "tfsm.plugins.hookspecs" in imported
    assert not imported & (HEAVY | {"pydantic", "typer", "rich"})


def test_completion_leaves_out_a_plugin_that_is_broken(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "1 / 0"})
    result = site.tfsm(**COMPLETE)
    assert "sm-g-abs" in result.stdout.splitlines()
    assert result.stderr == ""


def test_completion_says_nothing_when_plugins_cannot_be_loaded(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "1 / 0"})
    result = site.tfsm(**COMPLETE, TFSM_STRICT_PLUGINS="1")
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "", "")


def test_completion_can_be_interrupted(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "raise KeyboardInterrupt"})
    result = site.tfsm(**COMPLETE)
    assert (result.returncode, result.stderr) == (130, "")
