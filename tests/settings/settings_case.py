"""Resolve settings in a test: plugins, a user's file, and the error message."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tfsm.errors import TfsmError
from tfsm.plugins import Plugins, load_plugins
from tfsm.plugins.registry import Entry, Kind, Parts
from tfsm.settings import ResolvedSettings, resolve

BUILT_INS = (
    "tfsm_plugins.mutations",
    "tfsm_plugins.selections",
    "tfsm_plugins.observers",
    "tfsm_domains.toy",
    "tfsm_domains.parity",
)


@dataclass(frozen=True, kw_only=True)
class ThirdParty:
    """A part that is registered without options."""

    reach: int = 3


@cache
def built_ins(*modules: str) -> Plugins:
    """Load built-in plugins, installed or not."""
    return load_plugins(environ={}, entry_points=[EntryPoint(name, name, "tfsm") for name in modules or BUILT_INS])


def with_part(kind: Kind, name: str, options: type | None = None, **defaults: Any) -> Plugins:
    """Add a third-party part to the built-in ones; without options, it is imported to find them."""
    entry = Entry(
        kind=kind,
        name=name,
        target="tests.settings.settings_case:ThirdParty",
        description="",
        options=options,
        plugin="third",
        distribution="party",
        **defaults,
    )
    plugins = built_ins()
    parts = Parts(kind, [*plugins.parts(kind).values(), entry])
    changed: dict[str, Any] = {f"{kind}s": parts}
    return replace(plugins, **changed)


def resolve_in(folder: Path, toml: str | None = None, **arguments: Any) -> ResolvedSettings:
    """Resolve in a folder, where `toml` is the user's file."""
    if toml is not None:
        (folder / "tfsm.toml").write_text(toml, encoding="utf-8")
    given: dict[str, Any] = {"plugins": built_ins(), "domain": "parity", "mutation": "sm-r", "cwd": folder, **arguments}
    return resolve(given.pop("plugins"), **given)


def error_in(folder: Path, toml: str | None = None, **arguments: Any) -> str:
    """Return the error message."""
    with pytest.raises(TfsmError) as caught:
        resolve_in(folder, toml, **arguments)
    return str(caught.value)
