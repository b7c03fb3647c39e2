"""What plugins register: names, import paths, options and defaults of their parts."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.plugins.options import describe

Kind: TypeAlias = Literal["mutation", "domain", "selection", "observer"]

KINDS: Final[tuple[Kind, ...]] = ("mutation", "domain", "selection", "observer")

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9+._-]*")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A registered part that has not been imported yet."""

    kind: Kind
    name: str
    target: str
    description: str
    options: type | None
    plugin: str
    distribution: str
    intensity: float | None = None
    """The default intensity of a mutation operator."""
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The default settings of a domain: the content of `[domains.NAME]` in a `tfsm.toml`."""
    threads: int | None = None
    """The number of threads that a domain's own network needs; None: all cores."""
    instance: Any = None
    """The part itself, if it was passed as an object instead of being registered by a plugin."""

    @classmethod
    def from_instance(cls, kind: Kind, part: object) -> Entry:
        """Return an entry for an object that no plugin registers, named after its class."""
        name = type(part).__name__
        target = f"{type(part).__module__}:{type(part).__qualname__}"
        return cls(
            kind=kind, name=name, target=target, description="", options=None, plugin="", distribution="", instance=part
        )

    @property
    def origin(self) -> str:
        """The plugin that registered it, for messages."""
        return f"plugin {self.plugin!r} ({self.distribution})"

    def load(self) -> type[Any]:
        """Import the part and return its class."""
        module_name, attribute = self.target.split(":")
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise TfsmError(f"{self._label()}: cannot import module {module_name!r}: {cause}") from error
        if not hasattr(module, attribute):
            public = [name for name in dir(module) if not name.startswith("_")]
            known = suggestion(attribute, public)
            raise TfsmError(f"{self._label()}: module {module_name!r} has no {attribute!r}{known}")
        part = getattr(module, attribute)
        if not isinstance(part, type):
            raise TfsmError(f"{self._label()}: expected a class, found {part!r}")
        return part

    def with_options(self) -> Entry:
        """Return the entry with its options known; a part registered without options is imported to find them."""
        if self.options is not None or self.instance is not None:
            return self
        part = self.load()
        return replace(self, options=part) if is_dataclass(part) else self

    def _label(self) -> str:
        return f"{self.kind} {self.name!r} of {self.origin}, {self.target!r}"


class Registry:
    """Passed to a hook: collects one plugin's parts of one kind."""

    def __init__(self, kind: Kind, *, plugin: str, distribution: str, taken: Mapping[str, Entry]) -> None:
        self._kind, self._plugin, self._distribution, self._taken = kind, plugin, distribution, taken
        self._entries: dict[str, Entry] = {}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The parts that were added, in order."""
        return tuple(self._entries.values())

    def add(
        self,
        name: str,
        target: str,
        *,
        description: str = "",
        options: type | None = None,
        intensity: float | None = None,
        defaults: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        """Register a part.

        Args:
            name: the name that users type: lower-case letters, digits and `+._-`.
            target: `module:attribute`, imported when the part is used.
            description: one line, shown in listings.
            options: a dataclass whose fields are the part's options, or None if it has none.
            intensity: a mutation operator's default intensity, as `[run.intensity]` of a `tfsm.toml` would give it.
            defaults: a domain's default settings, as `[domains.NAME]` of a `tfsm.toml` would give them: population,
                evaluations, intensity, ... They are checked like a file when the domain is used.
            threads: threads per operation for a domain's own network, if it is so small that more would be slower: 1.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TfsmError(f"bad {self._kind} name {name!r}: expected lower-case letters, digits and '+._-'")
        label = f"{self._kind} {name!r}"
        if not isinstance(target, str) or not _is_target(target):
            raise TfsmError(f"{label} has a bad target {target!r}: expected 'module:attribute'")
        if options is not None and not (isinstance(options, type) and is_dataclass(options)):
            raise TfsmError(f"{label} has bad options {options!r}: expected a dataclass or None")
        if options is not None:
            describe(options)  # Report a faulty dataclass now, as this plugin's mistake, and not in a later listing.
        if intensity is not None and self._kind != "mutation":
            raise TfsmError(f"{label}: intensity is for mutations; a domain has defaults={{'intensity': ...}}")
        if defaults is not None and self._kind != "domain":
            raise TfsmError(f"{label}: defaults are for domains; options have the defaults of their dataclass")
        if threads is not None and (self._kind != "domain" or not isinstance(threads, int) or threads < 1):
            raise TfsmError(f"{label}: threads={threads!r}: expected a number >= 1, for a domain")
        entry = Entry(
            kind=self._kind,
            name=name,
            target=target,
            description=" ".join(description.split()),
            options=options,
            plugin=self._plugin,
            distribution=self._distribution,
            intensity=intensity,
            defaults=_as_table(label, defaults),
            threads=threads,
        )
        if name in self._entries:
            raise TfsmError(f"{label} is registered twice by {entry.origin}")
        if name in self._taken:
            first = self._taken[name].origin
            raise TfsmError(f"{label} of {entry.origin} is already registered by {first}")
        self._entries[name] = entry


class Parts(Mapping[str, Entry]):
    """The registered parts of one kind by name; an unknown name raises a `TfsmError` with a suggestion."""

    def __init__(self, kind: Kind, entries: Iterable[Entry] = ()) -> None:
        self.kind: Final = kind
        self._entries = MappingProxyType({entry.name: entry for entry in entries})

    def __getitem__(self, name: str) -> Entry:
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownNameError(self.kind, name, self._entries) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Parts({self.kind!r}, {list(self._entries)})"


def build_part(entry: Entry, options: Mapping[str, Any]) -> Any:
    """Import a part and create it with its options; an instance gets the options that its entry declares."""
    if entry.instance is not None:
        return replace(entry.instance, **options) if entry.options is not None else entry.instance
    part = entry.load()
    try:
        return part(**options)
    except TypeError as error:
        raise TfsmError(f"{entry.kind} {entry.name!r} of {entry.origin}: {error}") from error


def _is_target(target: str) -> bool:
    module, colon, attribute = target.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _as_table(label: str, defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy with the types of a file, tuples as arrays."""
    try:
        table: dict[str, Any] = json.loads(json.dumps(dict(defaults or {})))
    except (TypeError, ValueError) as error:
        raise TfsmError(f"{label} has bad defaults: {error}; expected a table of values that TOML has") from error
    return table
