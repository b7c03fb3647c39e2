"""What `tfsm plugins check NAME` is about: a part, a plugin or a package."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final

from tfsm.errors import TfsmError, UnknownNameError
from tfsm.hookspecs import PROJECT
from tfsm.plugins import PluginInfo, Plugins
from tfsm.registry import KINDS, Entry
from tfsm.testing.trying import PluginSubject

PACKAGE: Final = "package"
PREFIXES: Final = (*KINDS, "plugin", PACKAGE)


@dataclass(frozen=True)
class Found:
    """What goes by a name: parts, and whole plugins where one is meant."""

    parts: tuple[Entry, ...]
    plugins: tuple[PluginSubject, ...] = ()


def find(plugins: Plugins, name: str) -> Found:
    """Find a part by its name, a plugin by its entry point's, or all of a package by its distribution's.

    Args:
        plugins: what is installed.
        name: as users have it; `mutation:NAME`, `plugin:NAME` or `package:NAME` where it is ambiguous.
    """
    prefix, _, rest = name.partition(":")
    if rest and prefix in PREFIXES:
        found = _by_prefix(plugins, prefix, rest)
        if found is None:
            raise UnknownNameError(prefix, rest, _known(plugins, prefix))
        return found
    every = {prefix: _by_prefix(plugins, prefix, name) for prefix in PREFIXES}
    meant = {prefix: found for prefix, found in every.items() if found is not None}
    if "plugin" in meant and meant["plugin"] == meant.get(PACKAGE):
        del meant[PACKAGE]
    if len(meant) > 1:
        forms = " or ".join(f"{prefix}:{name}" for prefix in meant)
        raise TfsmError(f"{name!r} is the name of several things: give {forms}")
    if not meant:
        known = {known for prefix in PREFIXES for known in _known(plugins, prefix)}
        raise UnknownNameError("part, plugin or package", name, known)
    return next(iter(meant.values()))


def _by_prefix(plugins: Plugins, prefix: str, name: str) -> Found | None:
    for kind in KINDS:
        if prefix == kind:
            parts = plugins.parts(kind)
            return Found((parts[name],)) if name in parts else None
    infos = [info for info in plugins.infos if name == (info.name if prefix == "plugin" else info.distribution)]
    return Found(tuple(_parts(plugins, infos)), tuple(map(_whole, infos))) if infos else None


def _parts(plugins: Plugins, infos: Iterable[PluginInfo]) -> Iterable[Entry]:
    return (plugins.parts(kind)[name] for info in infos for kind in KINDS for name in info.registers[kind])


def _whole(info: PluginInfo) -> PluginSubject:
    """Return a plugin with its module, for which the entry point is looked up again."""
    points = [point for point in entry_points(group=PROJECT) if point.name == info.name]
    own = [point for point in points if point.dist is not None and point.dist.name == info.distribution]
    return PluginSubject(info, (own or points)[0].module if points else info.name)


def _known(plugins: Plugins, prefix: str) -> set[str]:
    for kind in KINDS:
        if prefix == kind:
            return set(plugins.parts(kind))
    return {info.name if prefix == "plugin" else info.distribution for info in plugins.infos}
