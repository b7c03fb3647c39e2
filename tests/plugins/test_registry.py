"""Parts are registered with names, targets, options and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tfsm.errors import TfsmError, UnknownNameError
from tfsm.plugins.registry import Entry, Parts, Registry


@dataclass(frozen=True)
class SomeOptions:
    size: int = 1


@dataclass(frozen=True)
class UnresolvableOptions:
    size: NoSuchType = 1  # type: ignore[name-defined]  # noqa: F821


NOT_A_CLASS = 3


def entry(target: str = "collections:Counter", **changes: object) -> Entry:
    values = {"kind": "mutation", "name": "fake", "description": "", "options": None, "plugin": "foo"}
    return Entry(**{**values, "target": target, "distribution": "foo-dist", **changes})  # type: ignore[arg-type]


@pytest.fixture
def registry() -> Registry:
    return Registry("mutation", plugin="foo", distribution="foo-dist", taken={})


def test_added_parts_are_kept_in_order_with_their_origin(registry: Registry) -> None:
    registry.add("b", "m:B", description="two\n  lines", options=SomeOptions)
    registry.add("a", "m.n:A")
    assert registry.entries == (
        entry("m:B", name="b", description="two lines", options=SomeOptions),
        entry("m.n:A", name="a"),
    )


@pytest.mark.parametrize("name", ["a", "sm-g-abs", "0", "a+b._-c", "1.5"])
def test_valid_names_are_accepted(registry: Registry, name: str) -> None:
    registry.add(name, "m:A")
    assert [entry.name for entry in registry.entries] == [name]


@pytest.mark.parametrize("name", ["", "A", "-a", "a b", "ä", "a/b", "a\n", None])
def test_bad_names_are_rejected(registry: Registry, name: str) -> None:
    with pytest.raises(TfsmError, match="bad mutation name"):
        registry.add(name, "m:A")


@pytest.mark.parametrize("target", ["", "m", "m:", ":A", "m.A", "m:A:B", "m..n:A", "m n:A", "1m:A", SomeOptions])
def test_bad_targets_are_rejected(registry: Registry, target: str) -> None:
    with pytest.raises(TfsmError, match=r"'a' has a bad target .*expected 'module:attribute'"):
        registry.add("a", target)


@pytest.mark.parametrize("options", [int, SomeOptions(), "SomeOptions", {}])
def test_options_must_be_a_dataclass_type(registry: Registry, options: type) -> None:
    with pytest.raises(TfsmError, match=r"'a' has bad options .*expected a dataclass or None"):
        registry.add("a", "m:A", options=options)


def test_options_whose_types_do_not_exist_fail_at_registration(registry: Registry) -> None:
    with pytest.raises(NameError, match="NoSuchType"):
        registry.add("a", "m:A", options=UnresolvableOptions)


def test_a_mutation_is_registered_with_its_intensity(registry: Registry) -> None:
    registry.add("a", "m:A", intensity=0.5)
    registry.add("b", "m:B")
    assert [entry.intensity for entry in registry.entries] == [0.5, None]
    with pytest.raises(TfsmError, match="mutation 'c': defaults are for domains"):
        registry.add("c", "m:C", defaults={"population": 3})


def test_a_domain_is_registered_with_its_defaults() -> None:
    registry = Registry("domain", plugin="foo", distribution="foo-dist", taken={})
    table: dict[str, Any] = {"population": 3, "observers": ("csv",), "intensity": {"control": 0.5}}
    registry.add("a", "m:A", defaults=table)
    table["intensity"]["control"] = 7  # A copy is registered, so the plugin may change its own table.
    registry.add("b", "m:B")
    plain = {"population": 3, "observers": ["csv"], "intensity": {"control": 0.5}}
    assert [entry.defaults for entry in registry.entries] == [plain, {}]
    assert len(set(registry.entries)) == 2
    with pytest.raises(TfsmError, match=r"domain 'c': intensity is for mutations; a domain has defaults="):
        registry.add("c", "m:C", intensity=0.5)
    with pytest.raises(TfsmError, match=r"domain 'c' has bad defaults: .*set is not JSON serializable"):
        registry.add("c", "m:C", defaults={"observers": {"csv"}})


def test_a_name_added_twice_by_one_plugin_is_rejected(registry: Registry) -> None:
    registry.add("a", "m:A")
    with pytest.raises(TfsmError, match=r"mutation 'a' is registered twice by plugin 'foo' \(foo-dist\)"):
        registry.add("a", "m:B")
    assert [entry.target for entry in registry.entries] == ["m:A"]


def test_a_name_of_another_plugin_is_rejected_and_both_are_named() -> None:
    taken = {"a": entry(name="a", plugin="bar", distribution="bar-dist")}
    registry = Registry("mutation", plugin="foo", distribution="foo-dist", taken=taken)
    with pytest.raises(TfsmError, match=r"'a' of plugin 'foo' \(foo-dist\) is already .* plugin 'bar' \(bar-dist\)"):
        registry.add("a", "m:A")
    assert registry.entries == ()


def test_load_returns_the_class() -> None:
    from collections import Counter

    assert entry("collections:Counter").load() is Counter


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("tfsm.no_such_module:A", "cannot import module 'tfsm.no_such_module': ModuleNotFoundError: No module named"),
        ("collections:Countr", "module 'collections' has no 'Countr', did you mean 'Counter'?"),
        (f"{__name__}:NOT_A_CLASS", "expected a class, found 3"),
    ],
)
def test_a_target_that_cannot_be_loaded_is_named_in_full(target: str, complaint: str) -> None:
    with pytest.raises(TfsmError) as caught:
        entry(target).load()
    message = str(caught.value)
    assert message.startswith(f"mutation 'fake' of plugin 'foo' (foo-dist), {target!r}: ")
    assert complaint in message


def test_a_failing_import_of_a_target_is_an_error_of_the_part(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "tfsm_test_raising.py").write_text("raise RuntimeError('no GPU here')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TfsmError, match="RuntimeError: no GPU here"):
        entry("tfsm_test_raising:A").load()


def test_parts_are_an_immutable_mapping_in_order_of_registration() -> None:
    parts = Parts("mutation", [entry(name="b"), entry(name="a")])
    assert list(parts) == ["b", "a"]
    assert len(parts) == 2
    assert parts["a"].name == "a"
    assert "c" not in parts
    assert parts.get("c") is None
    with pytest.raises(TypeError):
        parts["c"] = entry()  # type: ignore[index]


def test_an_unknown_part_is_an_error_with_the_nearest_name() -> None:
    parts = Parts("mutation", [entry(name="control"), entry(name="sm-g-abs")])
    with pytest.raises(UnknownNameError) as caught:
        parts["sm-gabs"]
    assert str(caught.value) == "no mutation named 'sm-gabs', did you mean 'sm-g-abs'?"
