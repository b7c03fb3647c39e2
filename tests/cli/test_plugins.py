""""""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import CommandResult
from tests.helpers.fake_distribution import FakeSite, make_plugin_source
from tfsm.errors import TfsmError
from tfsm.plugins import load_plugins
from tfsm.testing.suite import find_targets, parts_under_test

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


def show_part(site: FakeSite, *arguments: str) -> str:
    result = site.tfsm(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_part_is_shown_with_its_options(site: FakeSite, command: str) -> None:
    lines = [" ".join(line.split()) for line in show_part(site, command, "fake-part").splitlines()]
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
    lines = show_part(site, command).splitlines()
    assert {"fake-part", "fake-bare"} <= set(lines)


def test_the_built_in_parts_are_listed(site: FakeSite) -> None:
    assert {"control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so"} <= set(show_part(site, "mutations").splitlines())
    assert "parity" in show_part(site, "domains").splitlines()
    assert {"tournament", "hill-climber"} <= set(show_part(site, "selections").splitlines())
    assert "tensorboard" in show_part(site, "observers").splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_json_has_the_same_and_more(site: FakeSite, command: str) -> None:
    parts: list[dict[str, Any]] = json.loads(show_part(site, command, "--json"))
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
    parts = json.loads(show_part(site, "mutations", "fake-bare", "--json"))
    assert [part["name"] for part in parts] == ["fake-bare"]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_part_is_an_error_with_the_nearest_name(site: FakeSite, command: str) -> None:
    result = site.tfsm(command, "fake-prt")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: no {command[:-1]} named 'fake-prt', did you mean 'fake-part'?\n"


def test_the_parts_of_a_disabled_plugin_are_unknown(site: FakeSite) -> None:
    assert "fake-part" not in show_part(site, "mutations", "--disable-plugin", "foo").splitlines()
    result = site.tfsm("--disable-plugin", "foo", "mutations", "fake-part")
    assert result.returncode == 2
    assert result.stderr.startswith("error: no mutation named 'fake-part'")


def test_listing_does_not_import_the_parts(site: FakeSite) -> None:
    site.module("fake_parts", "raise AssertionError('imported')")
    assert "fake-part" in show_part(site, "mutations").splitlines()


def test_a_narrow_terminal_wraps_the_help_and_keeps_names_whole(site: FakeSite) -> None:
    program = """
        import sys
        from rich.console import Console
        from tfsm.cli import plugins
        plugins.make_console = lambda: Console(width=40, markup=False)
        from tfsm.cli.main import main
        main(["mutations", "sm-r"])
    """
    site.module("narrow", program)
    result = site.python("narrow.py")
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 40
    assert "mean_over_outputs" in result.stdout


MARKS_ITS_IMPORT = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n"


@pytest.fixture
def plugin_site(tmp_path: Path) -> FakeSite:
    return FakeSite(tmp_path)


def list_plugins(plugin_site: FakeSite, *arguments: str, **variables: str) -> dict[str, dict[str, object]]:
    result = plugin_site.tfsm(*arguments, **variables)
    assert result.returncode == 0, result.stderr
    return {info["name"]: info for info in json.loads(result.stdout)}


def test_an_installed_plugin_is_found(plugin_site: FakeSite) -> None:
    plugin_site.install("foo-dist", {"foo": make_plugin_source("a")}, version="1.2")
    assert list_plugins(plugin_site, "plugins", "list", "--json")["foo"] == {
        "name": "foo",
        "distribution": "foo-dist",
        "version": "1.2",
        "state": "loaded",
        "reason": "",
        "hooks": None,
        "registers": {"mutation": ["a"], "domain": [], "selection": [], "observer": []},
    }


def test_the_built_in_parts_are_plugins_too(plugin_site: FakeSite) -> None:
    infos = list_plugins(plugin_site, "plugins", "list", "--json")
    built_in = {name: info["state"] for name, info in infos.items() if info["distribution"] == "tfsm"}
    names = ("tfsm-mutations", "tfsm-selections", "tfsm-observers", "tfsm-parity")
    assert built_in.items() >= dict.fromkeys(names, "loaded").items()


def test_the_piped_table_has_one_line_per_plugin(plugin_site: FakeSite) -> None:
    names = [f"a-rather-long-name-of-a-mutation-{number}" for number in range(9)]
    plugin_site.install("foo-dist", {"foo": make_plugin_source(*names), "zoo": "1 / 0"})
    result = plugin_site.tfsm("plugins", "list", COLUMNS="80")
    lines = {line.split()[0]: " ".join(line.split()) for line in result.stdout.splitlines()}
    assert lines["foo"] == f"foo foo-dist 1.0 loaded mutations: {', '.join(names)}"
    assert lines["zoo"] == "zoo foo-dist 1.0 broken ZeroDivisionError: division by zero"


def test_a_broken_plugin_causes_one_warning_and_the_rest_works(plugin_site: FakeSite) -> None:
    plugin_site.install("foo-dist", {"foo": "1 / 0", "zoo": make_plugin_source("a")})
    result = plugin_site.tfsm("plugins", "list", "--json")
    assert result.returncode == 0
    warning = "warning: plugin 'foo' (foo-dist 1.0) is broken: ZeroDivisionError: division by zero"
    assert result.stderr.splitlines() == [warning]
    states = {info["name"]: info["state"] for info in json.loads(result.stdout)}
    assert states.items() >= {"foo": "broken", "zoo": "loaded"}.items()


def test_strict_mode_ends_with_an_error_and_no_traceback(plugin_site: FakeSite) -> None:
    plugin_site.install("foo-dist", {"foo": "1 / 0"})
    result = plugin_site.tfsm("plugins", "list", TFSM_STRICT_PLUGINS="1")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: plugin 'foo' (foo-dist 1.0) is broken: ZeroDivisionError")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--disable-plugin", "foo", "plugins", "list", "--json"], {}),
        (["plugins", "list", "--json", "--disable-plugin", "foo"], {}),
        (["plugins", "list", "--json"], {"TFSM_DISABLE_PLUGINS": "foo"}),
    ],
)
def test_a_disabled_plugin_is_not_imported(
    plugin_site: FakeSite, arguments: list[str], variables: dict[str, str]
) -> None:
    plugin_site.install("foo-dist", {"foo": MARKS_ITS_IMPORT})
    assert list_plugins(plugin_site, *arguments, **variables)["foo"]["state"] == "disabled"
    assert not (plugin_site.root / "imported").exists()
    assert list_plugins(plugin_site, "plugins", "list", "--json")["foo"]["state"] == "loaded"
    assert (plugin_site.root / "imported").exists()


def test_flags_before_and_after_the_command_add_up(plugin_site: FakeSite) -> None:
    plugin_site.install("foo-dist", {"foo": "", "zoo": ""})
    infos = list_plugins(plugin_site, "--disable-plugin", "foo", "plugins", "list", "--json", "--disable-plugin", "zoo")
    assert (infos["foo"]["state"], infos["zoo"]["state"]) == ("disabled", "disabled")


def test_disabling_an_unknown_plugin_is_an_error_with_a_suggestion(plugin_site: FakeSite) -> None:
    plugin_site.install("foo-dist", {"foo-plugin": ""})
    result = plugin_site.tfsm("--disable-plugin", "foo-plugn", "plugins", "list")
    assert result.returncode == 2
    assert result.stderr == "error: no plugin named 'foo-plugn', did you mean 'foo-plugin'?\n"


def test_help_works_with_broken_plugins(plugin_site: FakeSite) -> None:
    plugin_site.install("foo-dist", {"foo": MARKS_ITS_IMPORT + "1 / 0"})
    result = plugin_site.tfsm("--help", TFSM_STRICT_PLUGINS="1")
    assert result.returncode == 0
    assert not (plugin_site.root / "imported").exists()


def test_an_interrupt_exits_with_130_and_no_traceback(plugin_site: FakeSite) -> None:
    plugin_site.install("foo-dist", {"foo": "raise KeyboardInterrupt"})
    result = plugin_site.tfsm("plugins", "list")
    assert result.returncode == 130
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_prints_no_error(plugin_site: FakeSite, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "tfsm", "plugins", "list", "--json"],
        env=plugin_site.environ(PYTHONUNBUFFERED=unbuffered),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


LINES = {
    "right": ["plugins", "check", "deaf-ears", "--json"],
    "wrong": ["plugins", "check", "plugin:ears"],
    "needs options": ["plugins", "check", "gym"],
    "unknown": ["plugins", "check", "tornament"],
    "ambiguous": ["plugins", "check", "ears"],
    "a package": ["plugins", "check", "package:ears-dist", "--json"],
    "a wrong option": ["plugins", "check", "tournament", "--set", "sise=3"],
}

EARS = """
class Ears:
    "Receives the end."
    def on_experiment_end(self, status): pass

class Deaf:
    "Receives nothing."
"""


@pytest.fixture(scope="module")
def check_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CommandResult]:
    site = FakeSite(tmp_path_factory.mktemp("site"))
    site.module("ears_parts", EARS)
    hooks = make_plugin_source("ears", "deaf-ears", kind="observer", target="ears_parts:Deaf")
    site.install("ears-dist", {"ears": hooks})
    return {name: site.tfsm(*words) for name, words in LINES.items()}


def test_a_failed_check_exits_with_1_and_advice(check_results: dict[str, CommandResult]) -> None:
    found = check_results["wrong"]
    assert found.returncode == 1
    lines = [" ".join(line.split()) for line in found.stdout.splitlines()]
    assert lines[0] == "plugin:ears"
    assert "ok loads and registers parts" in lines
    assert any(line.startswith("failed declares the interface version") for line in lines)
    assert any(
        line.startswith("failed can be built Deaf is not an observer -> subclass tfsm.Observer") for line in lines
    )
    assert lines[-1].startswith("3 of ")
    assert found.stderr == ""


def test_json_has_one_object_per_check(check_results: dict[str, CommandResult]) -> None:
    found = json.loads(check_results["right"].stdout)
    assert {each["subject"] for each in found} == {"observer:deaf-ears"}
    assert [each["state"] for each in found] == ["failed", *["skipped"] * (len(found) - 1)]
    checked = {each["subject"] for each in json.loads(check_results["a package"].stdout)}
    assert checked == {"plugin:ears", "observer:ears", "observer:deaf-ears"}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("needs options", "error: domain:gym has options without a default: give --set env=VALUE\n"),
        ("unknown", "error: no part, plugin or package named 'tornament', did you mean 'tournament'?\n"),
        ("ambiguous", "error: 'ears' is ambiguous: use observer:ears or plugin:ears\n"),
        ("a wrong option", "error: --set sise=3: no such option, did you mean 'size'?\n"),
    ],
)
def test_a_part_that_cannot_be_checked_is_reported(
    check_results: dict[str, CommandResult], case: str, message: str
) -> None:
    assert check_results[case] == (2, "", message)


def test_options_are_passed_to_the_part_that_has_them() -> None:
    plugins = load_plugins()
    entries = [plugins.domains["parity"], plugins.selections["tournament"]]
    assert [dict(one.options) for one in parts_under_test(entries, ["size=7"])] == [{}, {"size": 7}]
    assert [dict(one.options) for one in parts_under_test(entries, ["parity.bits=2"])] == [{"bits": 2}, {}]
    with pytest.raises(TfsmError, match="--set size=0: expected an integer >= 1"):
        parts_under_test(entries, ["size=0"])


def test_a_plugin_and_its_package_may_share_a_name() -> None:
    found = find_targets(load_plugins(), "tfsm-toy")
    assert [one.name for one in found.parts] == ["simple-easy", "simple-medium", "simple-washout"]
    assert [one.module for one in found.plugins] == ["tfsm_domains.toy"]


def test_a_new_package_is_created_with_next_steps(tmp_path: Path) -> None:
    result = FakeSite(tmp_path).tfsm("plugins", "new", "my-noise", "--kind", "mutation", "--out", "there")
    assert (result.returncode, result.stderr) == (0, "")
    assert "created there, with the package tfsm-my-noise and a mutation named 'my-noise':" in result.stdout
    assert "  pip install --editable '.[test]'\n  pytest\n" in result.stdout
    assert (tmp_path / "there" / "src" / "tfsm_my_noise" / "mutation.py").is_file()
    again = FakeSite(tmp_path).tfsm("plugins", "new", "my-noise", "--kind", "mutation", "--out", "there")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith("error: there already exists")


def test_an_invalid_name_is_reported(tmp_path: Path) -> None:
    result = FakeSite(tmp_path).tfsm("plugins", "new", "MyNoise", "--kind", "mutation")
    assert result.returncode == 2
    assert result.stderr.endswith("did you mean 'my-noise'?\n")
