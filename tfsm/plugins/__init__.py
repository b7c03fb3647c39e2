"""Find the installed plugins and let each register its parts. A broken plugin is reported and left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from importlib.metadata import entry_points as installed_entry_points
from textwrap import shorten
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

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
    """The state of one entry point after loading."""

    name: str
    distribution: str
    version: str
    state: PluginState
    reason: str = ""
    hooks: int | None = None
    """The version of the plugin interface that it declares; None if it declares none or was not imported."""
    registers: Mapping[Kind, tuple[str, ...]]

    @property
    def source(self) -> str:
        """The distribution and its version, for messages."""
        return f"{self.distribution} {self.version}".strip()

    def __str__(self) -> str:
        return f"plugin {self.name!r} ({self.source}) is {self.state}{self.reason and f': {self.reason}'}"


@dataclass(frozen=True, kw_only=True)
class Plugins:
    """All registered parts, and the plugins that registered them."""

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
        """Return plugins that also have an object as a part, and the part's name, which is that of its class."""
        entry = Entry.from_instance(kind, part)
        return self.with_entry(entry), entry.name

    def with_entry(self, entry: Entry) -> Plugins:
        """Return plugins that also have this part; it replaces one of the same name."""
        changed: dict[str, Any] = {f"{entry.kind}s": Parts(entry.kind, [*self.parts(entry.kind).values(), entry])}
        return replace(self, **changed)

    def warnings(self) -> list[str]:
        """Return one line per broken plugin."""
        return [str(info) for info in self.infos if info.state == "broken"]


class _Point(NamedTuple):
    """An entry point, with the name and version of its distribution, which take a while to read."""

    entry_point: EntryPoint
    name: str
    dist: str
    version: str

    @classmethod
    def of(cls, point: EntryPoint) -> _Point:
        """Read the distribution of an entry point; one created by hand has none."""
        unknown = "unknown distribution"
        if point.dist is None:
            return cls(point, point.name, unknown, "")
        metadata = point.dist.metadata
        found = {key: metadata[key] for key in ("Name", "Version") if key in metadata}
        return cls(point, point.name, found.get("Name") or unknown, found.get("Version") or "")


def load_plugins(
    *,
    disabled: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    entry_points: Iterable[EntryPoint] | None = None,
) -> Plugins:
    """Load the installed plugins one at a time.

    Args:
        disabled: names of plugins not to import, in addition to those in `TFSM_DISABLE_PLUGINS` (comma-separated).
        environ: the environment; with `TFSM_STRICT_PLUGINS=1` a broken plugin is an error.
        entry_points: the entry points to load; by default those installed in the group `tfsm`.
    """
    environ = os.environ if environ is None else environ
    candidates = installed_entry_points(group=hookspecs.PROJECT) if entry_points is None else entry_points
    # Sorted, so that the same plugin wins every time two of them clash. Built-in plugins come first, so that a plugin
    # that takes one of their names is the broken one.
    points = sorted(map(_Point.of, candidates), key=lambda point: (point.dist != "tfsm", point.name, point.dist))
    skipped = _disabled_names(tuple(disabled), environ, {point.name for point in points})
    strict = environ.get(STRICT, "").strip().lower() in {"1", "true", "yes"}

    registered: dict[Kind, dict[str, Entry]] = {kind: {} for kind in KINDS}
    infos: list[PluginInfo] = []
    for point in points:
        state, reason, hooks, entries = _load(point, skipped, registered, infos)
        for entry in entries:
            registered[entry.kind][entry.name] = entry
        names = MappingProxyType({kind: tuple(e.name for e in entries if e.kind == kind) for kind in KINDS})
        info = PluginInfo(
            name=point.name,
            distribution=point.dist,
            version=point.version,
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
    point: _Point, skipped: frozenset[str], registered: Mapping[Kind, Mapping[str, Entry]], before: list[PluginInfo]
) -> tuple[PluginState, str, int | None, tuple[Entry, ...]]:
    if point.name in skipped:
        return "disabled", "", None, ()
    namesake = next((info for info in before if info.name == point.name), None)
    if namesake:
        return "broken", f"{namesake.source} has a plugin of the same name", None, ()
    try:
        plugin = point.entry_point.load()
        hooks = _declared_version(plugin, point.dist)
        return "loaded", "", hooks, _register(plugin, point, registered)
    # SystemExit too: a plugin that calls sys.exit() must not end the program.
    except (Exception, SystemExit) as error:
        text = str(error) if isinstance(error, TfsmError) else f"{type(error).__name__}: {error}"
        return "broken", shorten(text, 400, placeholder=" ..."), None, ()


def _declared_version(plugin: Any, distribution: str) -> int | None:
    """Return the version of the plugin interface that a plugin declares, if this tfsm supports it."""
    declared = getattr(plugin, "tfsm_hooks", None)
    if declared is None:
        return None
    if isinstance(declared, bool) or not isinstance(declared, int):
        raise TfsmError(f"tfsm_hooks is {declared!r}: expected the version of the plugin interface, an integer")
    oldest, newest = hookspecs.OLDEST_HOOKS_VERSION, hookspecs.HOOKS_VERSION
    written_for = f"it was written for version {declared} of tfsm's plugin interface, this tfsm"
    if declared > newest:
        raise TfsmError(f"{written_for} has version {newest}: upgrade tfsm")
    if declared < oldest:
        raise TfsmError(f"{written_for} needs version {oldest} or newer: upgrade {distribution}")
    return declared


def _register(plugin: Any, point: _Point, registered: Mapping[Kind, Mapping[str, Entry]]) -> tuple[Entry, ...]:
    """Call a plugin's hooks, with its own plugin manager, so that any error is this plugin's."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, name=point.name)
    # The same as check_pending(), with the hook's name available for a suggestion.
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec() and not all(impl.optionalhook for impl in caller.get_hookimpls()):
            raise TfsmError(f"unknown hook {caller.name!r}{suggestion(caller.name, _HOOKS.values())}")
    for hook in _HOOKS.values():
        if callable(getattr(plugin, hook, None)) and manager.parse_hookimpl_opts(plugin, hook) is None:
            raise TfsmError(f"{hook!r} is not marked with @hookimpl")
    entries: list[Entry] = []
    for kind, hook in _HOOKS.items():
        registry = Registry(kind, plugin=point.name, distribution=point.dist, taken=registered[kind])
        getattr(manager.hook, hook)(registry=registry)
        entries += registry.entries
    return tuple(entries)


def _disabled_names(disabled: tuple[str, ...], environ: Mapping[str, str], known: set[str]) -> frozenset[str]:
    from_environment = tuple(name.strip() for name in environ.get(DISABLE, "").split(",") if name.strip())
    for names, hint in ((disabled, ""), (from_environment, f" ({DISABLE})")):
        for name in names:
            if name not in known:
                raise UnknownNameError("plugin", name, known, hint)
    return frozenset(disabled + from_environment)
