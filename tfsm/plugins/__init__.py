"""Find the installed plugins and let each register its parts; a broken one is reported and left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from importlib.metadata import entry_points as installed_entry_points
from textwrap import shorten
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import pluggy

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.plugins import hookspecs
from tfsm.plugins.registry import KINDS, Entry, Kind, Parts, Registry

PluginState: TypeAlias = Literal["loaded", "disabled", "broken"]

DISABLE: Final = "TFSM_DISABLE_PLUGINS"
STRICT: Final = "TFSM_STRICT_PLUGINS"

_HOOKS: Final[Mapping[Kind, str]] = MappingProxyType({kind: f"tfsm_register_{kind}s" for kind in KINDS})


@dataclass(frozen=True, kw_only=True)
class PluginInfo:
    """What became of one entry point."""

    name: str
    distribution: str
    version: str
    state: PluginState
    reason: str = ""
    hooks: int | None = None
    """The version of the plugin interface that it states; None where it states none, or was not imported."""
    registers: Mapping[Kind, tuple[str, ...]]

    @property
    def source(self) -> str:
        """The distribution and its version, for messages."""
        return f"{self.distribution} {self.version}".strip()

    def __str__(self) -> str:
        return f"plugin {self.name!r} ({self.source}) is {self.state}{self.reason and f': {self.reason}'}"


@dataclass(frozen=True, kw_only=True)
class Plugins:
    """Everything that is registered, and by whom."""

    mutations: Parts
    domains: Parts
    selections: Parts
    observers: Parts
    infos: tuple[PluginInfo, ...]

    def parts(self, kind: Kind) -> Parts:
        """Return the parts of one kind."""
        return {
            "mutation": self.mutations,
            "domain": self.domains,
            "selection": self.selections,
            "observer": self.observers,
        }[kind]

    def with_part(self, kind: Kind, part: object) -> tuple[Plugins, str]:
        """Return plugins that have a ready-made part as well, and the name it goes by: its class's."""
        entry = Entry.from_instance(kind, part)
        changed: dict[str, Any] = {f"{kind}s": Parts(kind, [*self.parts(kind).values(), entry])}
        return replace(self, **changed), entry.name

    def warnings(self) -> list[str]:
        """Return one line for each broken plugin."""
        return [str(info) for info in self.infos if info.state == "broken"]


def load_plugins(
    *,
    disabled: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    entry_points: Iterable[EntryPoint] | None = None,
) -> Plugins:
    """Load the installed plugins one at a time.

    Args:
        disabled: names of plugins not to import, besides those in `TFSM_DISABLE_PLUGINS` (comma-separated)
        environ: the environment; with `TFSM_STRICT_PLUGINS=1` a broken plugin is an error
        entry_points: where to look; what is installed in the group `tfsm` if not given
    """
    environ = os.environ if environ is None else environ
    found = installed_entry_points(group=hookspecs.PROJECT) if entry_points is None else entry_points
    # Sorted, so that of two plugins that clash it is always the same one that stays.
    # The built-in plugins come first, so that whoever takes one of their names is the one to blame.
    points = sorted(found, key=lambda point: (_distribution(point)[0] != "tfsm", point.name, _distribution(point)[0]))
    skipped = _disabled(tuple(disabled), environ, {point.name for point in points})
    strict = environ.get(STRICT, "").strip().lower() in {"1", "true", "yes"}

    registered: dict[Kind, dict[str, Entry]] = {kind: {} for kind in KINDS}
    infos: list[PluginInfo] = []
    for point in points:
        state, reason, hooks, entries = _load(point, skipped, registered, infos)
        for entry in entries:
            registered[entry.kind][entry.name] = entry
        name, version = _distribution(point)
        names = MappingProxyType({kind: tuple(e.name for e in entries if e.kind == kind) for kind in KINDS})
        info = PluginInfo(
            name=point.name,
            distribution=name,
            version=version,
            state=state,
            reason=reason,
            hooks=hooks,
            registers=names,
        )
        if strict and state == "broken":
            raise TfsmError(f"{info} ({STRICT} is set)")
        infos.append(info)
    mutations, domains, selections, observers = (Parts(kind, registered[kind].values()) for kind in KINDS)
    return Plugins(mutations=mutations, domains=domains, selections=selections, observers=observers, infos=tuple(infos))


def _load(
    point: EntryPoint, skipped: frozenset[str], registered: Mapping[Kind, Mapping[str, Entry]], before: list[PluginInfo]
) -> tuple[PluginState, str, int | None, tuple[Entry, ...]]:
    if point.name in skipped:
        return "disabled", "", None, ()
    namesake = next((info for info in before if info.name == point.name), None)
    if namesake:
        return "broken", f"{namesake.source} has a plugin of the same name", None, ()
    try:
        plugin = point.load()
        hooks = _hooks_version(plugin, _distribution(point)[0])
        return "loaded", "", hooks, _register(plugin, point, registered)
    # SystemExit too: a plugin that calls sys.exit() must not end the program.
    except (Exception, SystemExit) as error:
        text = str(error) if isinstance(error, TfsmError) else f"{type(error).__name__}: {error}"
        return "broken", shorten(text, 400, placeholder=" ..."), None, ()


def _hooks_version(plugin: Any, distribution: str) -> int | None:
    """Return the version of the plugin interface that a plugin states, if this tfsm can have it."""
    stated = getattr(plugin, "tfsm_hooks", None)
    if stated is not None and (isinstance(stated, bool) or not isinstance(stated, int)):
        raise TfsmError(f"tfsm_hooks is {stated!r}: expected the plugin interface's version, a whole number")
    oldest, newest = hookspecs.OLDEST_HOOKS_VERSION, hookspecs.HOOKS_VERSION
    version = oldest if stated is None else stated
    written_for = f"it was written for version {version} of tfsm's plugin interface, this tfsm"
    if version > newest:
        raise TfsmError(f"{written_for} has version {newest}: upgrade tfsm")
    if version < oldest:
        raise TfsmError(f"{written_for} needs version {oldest} or newer: upgrade {distribution}")
    return stated


def _register(plugin: Any, point: EntryPoint, registered: Mapping[Kind, Mapping[str, Entry]]) -> tuple[Entry, ...]:
    """Call a plugin's hooks, in a manager of its own, so that an error is certainly its."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, name=point.name)
    # What check_pending() looks for, with the hook's name at hand for a suggestion.
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec() and not all(impl.optionalhook for impl in caller.get_hookimpls()):
            raise TfsmError(f"unknown hook {caller.name!r}{suggestion(caller.name, _HOOKS.values())}")
    for hook in _HOOKS.values():
        if callable(getattr(plugin, hook, None)) and manager.parse_hookimpl_opts(plugin, hook) is None:
            raise TfsmError(f"{hook!r} is not marked with @hookimpl")
    entries: list[Entry] = []
    for kind, hook in _HOOKS.items():
        registry = Registry(kind, plugin=point.name, distribution=_distribution(point)[0], taken=registered[kind])
        getattr(manager.hook, hook)(registry=registry)
        entries += registry.entries
    return tuple(entries)


def _distribution(point: EntryPoint) -> tuple[str, str]:
    """Return the name and version of who installed an entry point; one made by hand belongs to nobody."""
    if point.dist is None:
        return "unknown distribution", ""
    return str(point.dist.name or "unknown distribution"), str(point.dist.version or "")


def _disabled(asked: tuple[str, ...], environ: Mapping[str, str], known: set[str]) -> frozenset[str]:
    from_environment = tuple(name.strip() for name in environ.get(DISABLE, "").split(",") if name.strip())
    for names, hint in ((asked, ""), (from_environment, f" ({DISABLE})")):
        for name in names:
            if name not in known:
                raise UnknownNameError("plugin", name, known, hint)
    return frozenset(asked + from_environment)
