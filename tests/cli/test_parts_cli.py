from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_distribution import FakeSite

PLUGIN = """
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt
from typing_extensions import Doc

from tfsm import hookimpl


@dataclass(frozen=True, kw_only=True)
class FakeOptions:
    size: Annotated[int, Ge(1), Doc("how many")] = 5
    limit: Annotated[float | None, Gt(0), Doc("the most")] = None
    flag: Annotated[bool, Doc("[bold]whether[/bold]")] = True
    removal: Literal["fresh", "same"] = "fresh"
    layers: tuple[int, ...] = (20, 10)
    file: Path
    share: float = float("inf")


def add_to(registry):
    registry.add("fake-part", "fake_parts:Part", description="a fake part", options=FakeOptions)
    registry.add("fake-bare", "fake_parts:Bare")


@hookimpl
def tfsm_register_mutations(registry):
    add_to(registry)


@hookimpl
def tfsm_register_domains(registry):
    add_to(registry)


@hookimpl
def tfsm_register_selections(registry):
    add_to(registry)


@hookimpl
def tfsm_register_observers(registry):
    add_to(registry)
"""

COMMANDS = ["mutations", "domains", "selections", "observers"]


@pytest.fixture
def site(tmp_path: Path) -> FakeSite:
    site = FakeSite(tmp_path)
    site.install("foo-dist", {"foo": PLUGIN})
    return site


def shown(site: FakeSite, *arguments: str) -> str:
    result = site.tfsm(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_part_is_shown_with_its_options(site: FakeSite, command: str) -> None:
    lines = [" ".join(line.split()) for line in shown(site, command, "fake-part").splitlines()]
    assert lines == [
        "fake-part",
        "a fake part",
        "size int >= 1 how many [default 5]",
        "limit float or none, > 0 the most [default none]",
        "flag yes|no [bold]whether[/bold] [default yes]",
        "removal fresh|same [default fresh]",
        "layers list of int [default 20,10]",
        "file path [required]",
        "share float [default inf]",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_all_parts_are_listed_by_default(site: FakeSite, command: str) -> None:
    lines = shown(site, command).splitlines()
    assert {"fake-part", "fake-bare"} <= set(lines)


def test_the_built_in_parts_are_listed(site: FakeSite) -> None:
    assert {"control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so"} <= set(shown(site, "mutations").splitlines())
    assert "parity" in shown(site, "domains").splitlines()
    assert {"tournament", "hill-climber"} <= set(shown(site, "selections").splitlines())
    assert "tensorboard" in shown(site, "observers").splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_json_has_the_same_and_more(site: FakeSite, command: str) -> None:
    parts: list[dict[str, Any]] = json.loads(shown(site, command, "--json"))
    found = {part["name"]: part for part in parts}
    assert found["fake-bare"] == {
        "name": "fake-bare",
        "description": "",
        "target": "fake_parts:Bare",
        "plugin": "foo",
        "distribution": "foo-dist",
        "options": [],
    }
    options = {option["name"]: option for option in found["fake-part"]["options"]}
    assert options["size"] == {
        "name": "size",
        "type": "int",
        "constraints": ">= 1",
        "default": 5,
        "required": False,
        "help": "how many",
    }
    defaults = {name: option["default"] for name, option in options.items()}
    assert defaults["layers"] == [20, 10]
    assert (defaults["flag"], defaults["limit"]) == (True, None)
    assert defaults["share"] is None, "JSON has no infinity"
    assert [name for name, option in options.items() if option["required"]] == ["file"]


def test_json_of_one_part_is_a_list_of_one(site: FakeSite) -> None:
    parts = json.loads(shown(site, "mutations", "fake-bare", "--json"))
    assert [part["name"] for part in parts] == ["fake-bare"]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_part_is_an_error_with_the_nearest_name(site: FakeSite, command: str) -> None:
    result = site.tfsm(command, "fake-prt")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: no {command[:-1]} named 'fake-prt', did you mean 'fake-part'?\n"


def test_the_parts_of_a_disabled_plugin_are_unknown(site: FakeSite) -> None:
    assert "fake-part" not in shown(site, "mutations", "--disable-plugin", "foo").splitlines()
    result = site.tfsm("--disable-plugin", "foo", "mutations", "fake-part")
    assert result.returncode == 2
    assert result.stderr.startswith("error: no mutation named 'fake-part'")


def test_listing_does_not_import_the_parts(site: FakeSite) -> None:
    site.module("fake_parts", "raise AssertionError('imported')")
    assert "fake-part" in shown(site, "mutations").splitlines()


def test_a_narrow_terminal_wraps_the_help_and_keeps_names_whole(site: FakeSite) -> None:
    program = """
        import sys
        from rich.console import Console
        from tfsm.cli import parts
        parts.out = lambda: Console(width=40, markup=False)
        from tfsm.cli.main import main
        main(["mutations", "sm-r"])
    """
    site.module("narrow", program)
    result = site.python("narrow.py")
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 40
    assert "mean_over_outputs" in result.stdout
