"""`tfsm plugins check` and `tfsm plugins new` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.fake_distribution import Ended, FakeSite, registering
from tfsm.errors import TfsmError
from tfsm.plugins import load_plugins
from tfsm.testing.suite import find, subjects

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
    "Hears of the end."
    def ended(self, status): pass

class Deaf:
    "Hears nothing."
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    site = FakeSite(tmp_path_factory.mktemp("site"))
    site.module("ears_parts", EARS)
    hooks = registering("ears", "deaf-ears", kind="observer", target="ears_parts:Deaf")
    site.install("ears-dist", {"ears": hooks})
    return dict(zip(LINES, site.commands(*LINES.values()), strict=True))


def test_a_failed_check_is_exit_code_1_with_what_to_do(ended: dict[str, Ended]) -> None:
    found = ended["wrong"]
    assert found.code == 1
    lines = [" ".join(line.split()) for line in found.out.splitlines()]
    assert lines[0] == "plugin:ears"
    assert "ok loads" in lines
    assert any(line.startswith("failed says its version of the interface") for line in lines)
    assert any(line.startswith("failed can be made Deaf hears nothing -> give it one of the methods") for line in lines)
    assert lines[-1].startswith("3 of ")
    assert found.err == ""


def test_json_has_one_object_a_check(ended: dict[str, Ended]) -> None:
    found = json.loads(ended["right"].out)
    assert {each["subject"] for each in found} == {"observer:deaf-ears"}
    assert [each["state"] for each in found] == ["failed", *["skipped"] * (len(found) - 1)]
    subjects = {each["subject"] for each in json.loads(ended["a package"].out)}
    assert subjects == {"plugin:ears", "observer:ears", "observer:deaf-ears"}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("needs options", "error: domain:gym has options without a default: give --set env=VALUE\n"),
        ("unknown", "error: no part, plugin or package named 'tornament', did you mean 'tournament'?\n"),
        ("ambiguous", "error: 'ears' is the name of several things: give observer:ears or plugin:ears\n"),
        ("a wrong option", "error: --set sise=3: no such option, did you mean 'size'?\n"),
    ],
)
def test_what_cannot_be_checked_is_a_message(ended: dict[str, Ended], case: str, message: str) -> None:
    assert (ended[case].code, ended[case].out, ended[case].err) == (2, "", message)


def test_options_go_to_the_part_that_has_them() -> None:
    plugins = load_plugins()
    entries = [plugins.domains["parity"], plugins.selections["tournament"]]
    assert [dict(one.options) for one in subjects(entries, ["size=7"])] == [{}, {"size": 7}]
    assert [dict(one.options) for one in subjects(entries, ["parity.bits=2"])] == [{"bits": 2}, {}]
    with pytest.raises(TfsmError, match="--set size=0: expected a whole number >= 1"):
        subjects(entries, ["size=0"])


def test_a_plugin_and_its_package_of_one_name_are_one_thing() -> None:
    found = find(load_plugins(), "tfsm-toy")
    assert [one.name for one in found.parts] == ["simple-easy", "simple-medium", "simple-washout"]
    assert [one.module for one in found.plugins] == ["tfsm_domains.toy"]


def test_a_new_package_is_announced_with_what_to_do_next(tmp_path: Path) -> None:
    result = FakeSite(tmp_path).tfsm("plugins", "new", "my-noise", "--kind", "mutation", "--out", "there")
    assert (result.returncode, result.stderr) == (0, "")
    assert "there has the package tfsm-my-noise, with a mutation named 'my-noise':" in result.stdout
    assert "  pip install --editable '.[test]'\n  pytest\n" in result.stdout
    assert (tmp_path / "there" / "src" / "tfsm_my_noise" / "mutation.py").is_file()
    again = FakeSite(tmp_path).tfsm("plugins", "new", "my-noise", "--kind", "mutation", "--out", "there")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith("error: there exists already")


def test_a_bad_name_is_a_message(tmp_path: Path) -> None:
    result = FakeSite(tmp_path).tfsm("plugins", "new", "MyNoise", "--kind", "mutation")
    assert result.returncode == 2
    assert result.stderr.endswith("did you mean 'my-noise'?\n")
