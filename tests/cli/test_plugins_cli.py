from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.fake_distribution import FakeSite, registering

MARKS_ITS_IMPORT = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n"


@pytest.fixture
def site(tmp_path: Path) -> FakeSite:
    return FakeSite(tmp_path)


def listed(site: FakeSite, *arguments: str, **variables: str) -> dict[str, dict[str, object]]:
    result = site.tfsm(*arguments, **variables)
    assert result.returncode == 0, result.stderr
    return {info["name"]: info for info in json.loads(result.stdout)}


def test_an_installed_plugin_is_found(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": registering("a")}, version="1.2")
    assert listed(site, "plugins", "list", "--json")["foo"] == {
        "name": "foo",
        "distribution": "foo-dist",
        "version": "1.2",
        "state": "loaded",
        "reason": "",
        "hooks": None,
        "registers": {"mutation": ["a"], "domain": [], "selection": [], "observer": []},
    }


def test_the_built_in_parts_are_plugins_too(site: FakeSite) -> None:
    infos = listed(site, "plugins", "list", "--json")
    built_in = {name: info["state"] for name, info in infos.items() if info["distribution"] == "tfsm"}
    names = ("tfsm-mutations", "tfsm-selections", "tfsm-observers", "tfsm-parity")
    assert built_in.items() >= dict.fromkeys(names, "loaded").items()


def test_the_table_has_one_whole_line_a_plugin_when_piped(site: FakeSite) -> None:
    names = [f"a-rather-long-name-of-a-mutation-{number}" for number in range(9)]
    site.install("foo-dist", {"foo": registering(*names), "zoo": "1 / 0"})
    result = site.tfsm("plugins", "list", COLUMNS="80")
    lines = {line.split()[0]: " ".join(line.split()) for line in result.stdout.splitlines()}
    assert lines["foo"] == f"foo foo-dist 1.0 loaded mutations: {', '.join(names)}"
    assert lines["zoo"] == "zoo foo-dist 1.0 broken ZeroDivisionError: division by zero"


def test_a_broken_plugin_is_warned_of_once_and_the_rest_works(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "1 / 0", "zoo": registering("a")})
    result = site.tfsm("plugins", "list", "--json")
    assert result.returncode == 0
    warning = "warning: plugin 'foo' (foo-dist 1.0) is broken: ZeroDivisionError: division by zero"
    assert result.stderr.splitlines() == [warning]
    states = {info["name"]: info["state"] for info in json.loads(result.stdout)}
    assert states.items() >= {"foo": "broken", "zoo": "loaded"}.items()


def test_strict_mode_ends_with_an_error_and_no_traceback(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "1 / 0"})
    result = site.tfsm("plugins", "list", TFSM_STRICT_PLUGINS="1")
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
def test_a_disabled_plugin_is_not_imported(site: FakeSite, arguments: list[str], variables: dict[str, str]) -> None:
    site.install("foo-dist", {"foo": MARKS_ITS_IMPORT})
    assert listed(site, *arguments, **variables)["foo"]["state"] == "disabled"
    assert not (site.root / "imported").exists()
    assert listed(site, "plugins", "list", "--json")["foo"]["state"] == "loaded"
    assert (site.root / "imported").exists()


def test_flags_before_and_after_the_command_add_up(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "", "zoo": ""})
    infos = listed(site, "--disable-plugin", "foo", "plugins", "list", "--json", "--disable-plugin", "zoo")
    assert (infos["foo"]["state"], infos["zoo"]["state"]) == ("disabled", "disabled")


def test_disabling_an_unknown_plugin_is_an_error_with_a_suggestion(site: FakeSite) -> None:
    site.install("foo-dist", {"foo-plugin": ""})
    result = site.tfsm("--disable-plugin", "foo-plugn", "plugins", "list")
    assert result.returncode == 2
    assert result.stderr == "error: no plugin named 'foo-plugn', did you mean 'foo-plugin'?\n"


def test_help_comes_up_whatever_is_installed(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": MARKS_ITS_IMPORT + "1 / 0"})
    result = site.tfsm("--help", TFSM_STRICT_PLUGINS="1")
    assert result.returncode == 0
    assert not (site.root / "imported").exists()


def test_an_interrupt_exits_with_130_and_no_traceback(site: FakeSite) -> None:
    site.install("foo-dist", {"foo": "raise KeyboardInterrupt"})
    result = site.tfsm("plugins", "list")
    assert result.returncode == 130
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_error_to_talk_about(site: FakeSite, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "tfsm", "plugins", "list", "--json"],
        env=site.environ(PYTHONUNBUFFERED=unbuffered),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")
