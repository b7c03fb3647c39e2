"""The package of docs/plugins.md, exactly as it is written there, installed and run by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import package
from tests.docs.markdown import Command, commands
from tests.helpers.fake_distribution import FakeSite

# The last one counts where an option is given twice.
SMALL = ("--population", "6", "--evaluations", "12", "--quiet", "--json")

COMMANDS = [command for command in commands(package.PAGE) if package.names() & set(command.words)]
RUNS = [command for command in COMMANDS if "run" in command.words]


@pytest.fixture
def site(tmp_path: Path) -> FakeSite:
    package.install(tmp_path)
    return FakeSite(tmp_path)


def tfsm(site: FakeSite, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tfsm", *arguments],
        env=site.environ(),
        cwd=site.root,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_document_has_all_that_a_package_needs() -> None:
    assert set(package.files()) == {
        "pyproject.toml",
        "tfsm_xor/__init__.py",
        "tfsm_xor/csv.py",
        "tfsm_xor/options.py",
        "tfsm_xor/parts.py",
    }
    assert package.names() == {"sparse-noise", "xor", "random-parent", "csv"}
    used = {word for command in RUNS for word in command.words}
    assert package.names() <= used


def test_it_is_listed_with_what_it_registers(site: FakeSite) -> None:
    result = tfsm(site, "plugins", "list", "--json")
    (info,) = [info for info in json.loads(result.stdout) if info["name"] == "xor"]
    assert (info["distribution"], info["version"], info["state"], info["reason"]) == ("tfsm-xor", "0.1.0", "loaded", "")
    assert info["registers"] == {
        "mutation": ["sparse-noise"],
        "domain": ["xor"],
        "selection": ["random-parent"],
        "observer": ["csv"],
    }


def test_its_options_are_listed(site: FakeSite) -> None:
    (part,) = json.loads(tfsm(site, "mutations", "sparse-noise", "--json").stdout)
    (option,) = part["options"]
    assert (option["name"], option["default"], option["constraints"]) == ("share", 0.1, "> 0 and <= 1")


@pytest.mark.parametrize("command", RUNS, ids=str)
def test_its_parts_run_by_name(site: FakeSite, command: Command) -> None:
    result = tfsm(site, *command.words[1:], *SMALL, "--out", "out")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    summary = json.loads(result.stdout)
    (run,) = summary["runs"]
    assert 6 <= run["evaluations"] <= 12
    assert (site.root / "out" / "champions" / "run-000.keras").is_file()
    table = site.root / "out" / "metrics.csv"
    assert table.exists() is ("csv" in command.words)
    if table.exists():
        heading, *rows = table.read_text().splitlines()
        assert heading == "run,evaluations,divergence"
        assert [row.split(",")[:2] for row in rows] == [["0", str(run["evaluations"])]]


def test_an_operator_without_a_known_intensity_asks_for_one(site: FakeSite) -> None:
    result = tfsm(site, "run", "xor", "--mutation", "sparse-noise")
    assert result.returncode == 2
    assert "no intensity is known for mutation 'sparse-noise'" in result.stderr
