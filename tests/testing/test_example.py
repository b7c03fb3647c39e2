"""The example as a third-party package: listed, run, disabled, broken, and too new for this tfsm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import DOCS, Command, commands
from tests.docs.package import EXAMPLE
from tests.helpers.commands import CommandResult
from tests.helpers.fake_distribution import FakeSite

PLUGIN = "example"
PARTS = {"mutation": "sparse-noise", "domain": "xor", "selection": "random-parent", "observer": "csv"}
# The last one counts if an option is given twice.
SMALL = ("--population", "6", "--evaluations", "12", "--set", "compile=graph", "--quiet", "--json")
RUNS = [
    command
    for command in commands(DOCS / "guides" / "plugins.md")
    if command.words[1:2] == ("run",) and set(PARTS.values()) & set(command.words)
]


@pytest.fixture
def site(tmp_path: Path) -> FakeSite:
    found = FakeSite(tmp_path)
    found.install_source(EXAMPLE)
    return found


@pytest.fixture(scope="module")
def command_results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[CommandResult]]:
    """Run all commands of the document that use the example."""
    site = FakeSite(tmp_path_factory.mktemp("example"))
    site.install_source(EXAMPLE)
    lines = [(*command.words[1:], *SMALL, "--out", f"out{number}") for number, command in enumerate(RUNS)]
    return site.root, [site.tfsm(*line) for line in lines]


def list_parts(site: FakeSite, *arguments: str) -> dict[str, Any]:
    infos = json.loads(site.tfsm("plugins", "list", "--json", *arguments).stdout)
    (info,) = [info for info in infos if info["name"] == PLUGIN]
    return dict(info)


def edit_file(site: FakeSite, file: str, before: str, after: str) -> None:
    path = site.root / "tfsm_example" / file
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_the_example_is_listed_with_its_parts(site: FakeSite) -> None:
    assert list_parts(site) == {
        "name": PLUGIN,
        "distribution": "tfsm-example-plugin",
        "version": "0.1.0",
        "state": "loaded",
        "reason": "",
        "hooks": 2,
        "registers": {kind: [name] for kind, name in PARTS.items()},
    }
    (part,) = json.loads(site.tfsm("mutations", "sparse-noise", "--json").stdout)
    (option,) = part["options"]
    assert (option["name"], option["default"], option["constraints"]) == ("share", 0.1, "> 0 and <= 1")


def test_the_document_runs_every_part_of_the_example() -> None:
    assert set(PARTS.values()) <= {word for command in RUNS for word in command.words}


@pytest.mark.parametrize("number", range(len(RUNS)), ids=[str(command) for command in RUNS])
def test_parts_of_the_example_run_by_name(command_results: tuple[Path, list[CommandResult]], number: int) -> None:
    root, ended = command_results
    command: Command = RUNS[number]
    assert (ended[number].returncode, ended[number].stderr) == (0, "")
    (run,) = json.loads(ended[number].stdout)["runs"]
    assert 6 <= run["evaluations"] <= 12
    out = root / f"out{number}"
    assert (out / "champions" / "run-000.keras").is_file()
    table = out / "metrics.csv"
    assert table.exists() is ("csv" in command.words)
    if table.exists():
        heading, *rows = table.read_text().splitlines()
        assert heading == "run,evaluations,divergence"
        assert [row.split(",")[:2] for row in rows] == [["0", str(run["evaluations"])]]


def test_parts_of_the_example_have_default_settings(site: FakeSite) -> None:
    shown = json.loads(site.tfsm("config", "show", "xor", "--mutation", "sparse-noise", "--json").stdout)
    settings, sources = shown["settings"], shown["sources"]
    assert (settings["intensity"], sources["intensity"]) == (0.5, "plugin example")
    assert (settings["population"], sources["population"]) == (50, "plugin example")
    assert sources["seed"] == "built-in tfsm.toml [run]"


def test_invalid_defaults_are_one_line_that_names_the_plugin(site: FakeSite) -> None:
    edit_file(site, "__init__.py", '"population": 50', '"populaton": 50')
    result = site.tfsm("run", "xor", "--mutation", "sparse-noise")
    assert (result.returncode, result.stderr.splitlines()) == (
        2,
        [
            "error: plugin 'example' (tfsm-example-plugin): [domains.xor] populaton: unknown key, "
            "did you mean 'population'?"
        ],
    )


def test_a_disabled_example_is_not_available(site: FakeSite) -> None:
    assert list_parts(site, "--disable-plugin", PLUGIN)["state"] == "disabled"
    result = site.tfsm("--disable-plugin", PLUGIN, "domains", "xor")
    assert (result.returncode, result.stderr.partition(";")[0]) == (2, "error: no domain named 'xor'")


@pytest.mark.parametrize(
    ("file", "before", "after", "reason"),
    [
        ("options.py", "from dataclasses import", "from dataclass import", "ModuleNotFoundError: No module named"),
        ("__init__.py", "tfsm_register_domains", "tfsm_register_domain", "unknown hook 'tfsm_register_domain'"),
        ("__init__.py", '"sparse-noise"', '"control"', "mutation 'control' of plugin 'example' (tfsm-example-plugin)"),
        (
            "__init__.py",
            "tfsm_hooks = 2",
            "tfsm_hooks = 3",
            "it was written for version 3 of tfsm's plugin interface, this tfsm has version 2: upgrade tfsm",
        ),
    ],
    ids=["an import", "a hook", "a name", "too new"],
)
def test_a_broken_example_is_reported_in_one_line(
    site: FakeSite, file: str, before: str, after: str, reason: str
) -> None:
    edit_file(site, file, before, after)
    result = site.tfsm("mutations", "control")
    assert (result.returncode, result.stdout.split()[0]) == (0, "control")
    (warning,) = result.stderr.splitlines()
    assert warning.startswith(f"warning: plugin 'example' (tfsm-example-plugin 0.1.0) is broken: {reason}")
    assert list_parts(site)["state"] == "broken"
