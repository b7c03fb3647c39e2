"""Plugins are found, loaded, disabled, and reported if broken."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_distribution import FakeSite, make_plugin_source
from tfsm.errors import TfsmError, UnknownNameError
from tfsm.plugins import PluginInfo, Plugins, hookspecs, load_plugins


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSite]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield FakeSite(tmp_path)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def load(*points: EntryPoint, disabled: tuple[str, ...] = (), environ: Mapping[str, str] | None = None) -> Plugins:
    return load_plugins(disabled=disabled, environ=environ or {}, entry_points=points)


def only(plugins: Plugins) -> PluginInfo:
    (info,) = plugins.infos
    return info


def test_a_plugin_registers_its_parts(site: FakeSite) -> None:
    plugins = load(*site.install("foo-dist", {"foo": make_plugin_source("b", "a")}, version="1.2"))
    info = only(plugins)
    assert (info.name, info.distribution, info.version) == ("foo", "foo-dist", "1.2")
    assert (info.state, info.reason) == ("loaded", "")
    assert info.registers == {"mutation": ("b", "a"), "domain": (), "selection": (), "observer": ()}
    assert list(plugins.mutations) == ["b", "a"]
    assert (plugins.mutations["a"].plugin, plugins.mutations["a"].distribution) == ("foo", "foo-dist")
    assert plugins.warnings() == []


@pytest.mark.parametrize("kind", ["mutation", "domain", "selection", "observer"])
def test_every_kind_has_its_hook(site: FakeSite, kind: str) -> None:
    plugins = load(*site.install("foo-dist", {"foo": make_plugin_source("a", kind=kind)}))
    found = {
        "mutation": plugins.mutations,
        "domain": plugins.domains,
        "selection": plugins.selections,
        "observer": plugins.observers,
    }
    assert {each: list(parts) for each, parts in found.items() if parts} == {kind: ["a"]}
    assert plugins.parts(kind) is found[kind]  # type: ignore[arg-type]
    assert found[kind]["a"].kind == kind


def test_a_plugin_that_registers_nothing_is_loaded(site: FakeSite) -> None:
    assert only(load(*site.install("foo-dist", {"foo": "x = 1"}))).state == "loaded"


def test_an_entry_point_made_by_hand_belongs_to_no_distribution(site: FakeSite) -> None:
    site.module("by_hand", make_plugin_source("a"))
    info = only(load(EntryPoint("foo", "by_hand", "tfsm")))
    assert (info.state, info.distribution, info.version) == ("loaded", "unknown distribution", "")


def test_two_loads_share_nothing(site: FakeSite) -> None:
    points = site.install("foo-dist", {"foo": make_plugin_source("a")})
    assert list(load(*points).mutations) == ["a"]
    assert list(load(*points, disabled=("foo",)).mutations) == []
    assert list(load(*points).mutations) == ["a"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError: "),
        (make_plugin_source("a", extra="raise ValueError('half-way')"), "ValueError: half-way"),
        (make_plugin_source("a", extra="raise SystemExit(4)"), "SystemExit: 4"),
        (make_plugin_source("a", "a"), "mutation 'a' is registered twice by plugin 'foo' (foo-dist)"),
        (make_plugin_source("Bad Name"), "bad mutation name 'Bad Name'"),
        (make_plugin_source("a", target="no-colon"), "mutation 'a' has a bad target 'no-colon'"),
        (
            make_plugin_source("a").replace("mutations", "mutation"),
            "unknown hook 'tfsm_register_mutation', did you mean 'tfsm_register_mutations'?",
        ),
        (make_plugin_source("a").replace("@hookimpl", ""), "'tfsm_register_mutations' is not marked with @hookimpl"),
        (make_plugin_source("a").replace("(registry)", "(reg)"), "PluginValidationError: "),
    ],
)
def test_a_broken_plugin_is_reported_in_one_line_and_registers_nothing(
    site: FakeSite, source: str, reason: str
) -> None:
    broken = site.install("foo-dist", {"foo": source}, version="1.2")
    good = site.install("zoo-dist", {"zoo": make_plugin_source("good")})
    plugins = load(*broken, *good)
    assert [info.state for info in plugins.infos] == ["broken", "loaded"]
    assert plugins.infos[0].reason.startswith(reason)
    assert not any(plugins.infos[0].registers.values())
    assert list(plugins.mutations) == ["good"]
    assert plugins.warnings() == [f"plugin 'foo' (foo-dist 1.2) is broken: {plugins.infos[0].reason}"]
    assert "\n" not in plugins.warnings()[0]


def test_a_failing_hook_removes_all_parts_of_its_plugin(site: FakeSite) -> None:
    source = make_plugin_source("a") + make_plugin_source("b", kind="selection", extra="1 / 0")
    plugins = load(*site.install("foo-dist", {"foo": source}))
    assert only(plugins).reason == "ZeroDivisionError: division by zero"
    assert not plugins.mutations
    assert not plugins.selections


def test_an_interrupt_is_not_a_broken_plugin(site: FakeSite) -> None:
    with pytest.raises(KeyboardInterrupt):
        load(*site.install("foo-dist", {"foo": "raise KeyboardInterrupt"}))


def test_an_optional_unknown_hook_is_fine(site: FakeSite) -> None:
    source = "from tfsm import hookimpl\n@hookimpl(optionalhook=True)\ndef tfsm_of_the_future(registry): pass\n"
    assert only(load(*site.install("foo-dist", {"foo": source}))).state == "loaded"


def test_of_two_plugins_with_the_same_part_the_first_is_kept(site: FakeSite) -> None:
    later = site.install("later-dist", {"b-plugin": make_plugin_source("own", "shared")})
    first = site.install("first-dist", {"a-plugin": make_plugin_source("shared")})
    plugins = load(*later, *first)
    assert [(info.name, info.state) for info in plugins.infos] == [("a-plugin", "loaded"), ("b-plugin", "broken")]
    assert plugins.infos[1].reason == (
        "mutation 'shared' of plugin 'b-plugin' (later-dist) is already registered by plugin 'a-plugin' (first-dist)"
    )
    assert {name: entry.plugin for name, entry in plugins.mutations.items()} == {"shared": "a-plugin"}


def test_parts_of_different_kinds_may_share_a_name(site: FakeSite) -> None:
    source = make_plugin_source("same") + make_plugin_source("same", kind="domain")
    plugins = load(*site.install("foo-dist", {"foo": source}))
    assert (list(plugins.mutations), list(plugins.domains)) == (["same"], ["same"])


def test_of_two_plugins_with_the_same_name_the_second_is_broken(site: FakeSite) -> None:
    second = site.install("b-dist", {"foo": "raise AssertionError('imported')"})
    first = site.install("a-dist", {"foo": make_plugin_source("a")}, version="2.0")
    infos = load(*second, *first).infos
    assert [(info.distribution, info.state) for info in infos] == [("a-dist", "loaded"), ("b-dist", "broken")]
    assert infos[1].reason == "a-dist 2.0 has a plugin of the same name"


@pytest.mark.parametrize(
    ("disabled", "environ"),
    [
        (("foo", "zoo"), {}),
        ((), {"TFSM_DISABLE_PLUGINS": "foo, zoo,"}),
        (("foo",), {"TFSM_DISABLE_PLUGINS": "zoo"}),
    ],
)
def test_disabled_plugins_are_listed_and_not_imported(
    site: FakeSite, disabled: tuple[str, ...], environ: dict[str, str]
) -> None:
    source = "import pathlib\npathlib.Path(__file__ + '.imported').touch()\n"
    points = site.install("foo-dist", {"foo": source, "zoo": source, "bar": source})
    plugins = load(*points, disabled=disabled, environ=environ)
    states = {info.name: info.state for info in plugins.infos}
    assert states == {"bar": "loaded", "foo": "disabled", "zoo": "disabled"}
    assert [path.name for path in site.root.glob("*.imported")] == ["foo_dist_bar.py.imported"]
    assert plugins.warnings() == []


def test_disabling_an_unknown_plugin_is_an_error_with_a_suggestion(site: FakeSite) -> None:
    points = site.install("foo-dist", {"foo-plugin": ""})
    with pytest.raises(UnknownNameError, match="no plugin named 'foo-plugn', did you mean 'foo-plugin'"):
        load(*points, disabled=("foo-plugn",))
    with pytest.raises(UnknownNameError, match=r"did you mean 'foo-plugin'.*TFSM_DISABLE_PLUGINS"):
        load(*points, environ={"TFSM_DISABLE_PLUGINS": "foo-plugn"})


@pytest.mark.parametrize("value", ["1", "true", "YES"])
def test_in_strict_mode_a_broken_plugin_is_an_error(site: FakeSite, value: str) -> None:
    points = site.install("foo-dist", {"foo": "1 / 0"})
    with pytest.raises(TfsmError, match=r"plugin 'foo' \(foo-dist 1.0\) is broken: ZeroDivisionError"):
        load(*points, environ={"TFSM_STRICT_PLUGINS": value})


@pytest.mark.parametrize("value", ["", "0", "no"])
def test_strict_mode_can_be_off(site: FakeSite, value: str) -> None:
    points = site.install("foo-dist", {"foo": "1 / 0"})
    assert only(load(*points, environ={"TFSM_STRICT_PLUGINS": value})).state == "broken"


def test_strict_mode_ignores_disabled_plugins(site: FakeSite) -> None:
    points = site.install("foo-dist", {"foo": "1 / 0"})
    assert only(load(*points, disabled=("foo",), environ={"TFSM_STRICT_PLUGINS": "1"})).state == "disabled"


STATED = "tfsm_hooks = {!r}\n" + make_plugin_source("a")


def test_a_plugin_states_the_version_of_the_interface_it_was_written_for(site: FakeSite) -> None:
    infos = load(*site.install("foo-dist", {"foo": STATED.format(2), "zoo": make_plugin_source("b")})).infos
    assert [(info.name, info.state, info.hooks) for info in infos] == [("foo", "loaded", 2), ("zoo", "loaded", None)]


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        (3, "it was written for version 3 of tfsm's plugin interface, this tfsm has version 2: upgrade tfsm"),
        ("1", "tfsm_hooks is '1': expected the version of the plugin interface, an integer"),
        (True, "tfsm_hooks is True: expected the version of the plugin interface, an integer"),
    ],
)
def test_a_version_that_this_tfsm_does_not_have_is_reported_in_one_line(
    site: FakeSite, stated: Any, reason: str
) -> None:
    points = site.install("foo-dist", {"foo": STATED.format(stated)}, version="1.2")
    plugins = load(*points, *site.install("zoo-dist", {"zoo": make_plugin_source("good")}))
    assert plugins.warnings() == [f"plugin 'foo' (foo-dist 1.2) is broken: {reason}"]
    assert list(plugins.mutations) == ["good"]


def test_a_plugin_that_is_too_old_is_reported_in_one_line(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    points = site.install("foo-dist", {"foo": STATED.format(1)}) + site.install("zoo-dist", {"zoo": STATED.format(2)})
    monkeypatch.setattr(hookspecs, "HOOKS_VERSION", 3)
    monkeypatch.setattr(hookspecs, "OLDEST_HOOKS_VERSION", 2)
    old, new = load(*points).infos
    assert old.reason == (
        "it was written for version 1 of tfsm's plugin interface, this tfsm needs version 2 or newer: upgrade foo-dist"
    )
    assert (new.state, new.hooks) == ("loaded", 2)


def test_a_plugin_for_another_version_has_none_of_its_hooks_called(site: FakeSite) -> None:
    source = "tfsm_hooks = 3\n" + make_plugin_source("a", extra="raise AssertionError('called')")
    assert only(load(*site.install("foo-dist", {"foo": source}))).reason.startswith("it was written for version 3")
