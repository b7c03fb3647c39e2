"""What plugins register: names, where the part behind a name is, and its options."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.plugins.options import describe

Kind: TypeAlias = Literal["mutation", "domain", "selection", "observer"]

KINDS: Final[tuple[Kind, ...]] = ("mutation", "domain", "selection", "observer")

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9+._-]*")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A registered part, not yet imported."""

    kind: Kind
    name: str
    target: str
    description: str
    options: type | None
    plugin: str
    distribution: str
    part: Any = None
    """The part itself, ready made, where it is not one that a plugin registered."""

    @classmethod
    def from_instance(cls, kind: Kind, part: object) -> Entry:
        """Return an entry for a part that is there already, and that no plugin registers; its class names it."""
        name = type(part).__name__
        target = f"{type(part).__module__}:{type(part).__qualname__}"
        return cls(
            kind=kind, name=name, target=target, description="", options=None, plugin="", distribution="", part=part
        )

    @property
    def origin(self) -> str:
        """Who registered it, for messages."""
        return f"plugin {self.plugin!r} ({self.distribution})"

    def load(self) -> type[Any]:
        """Import the part and return its class."""
        module_name, attribute = self.target.split(":")
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise TfsmError(f"{self._named()}: cannot import module {module_name!r}: {cause}") from error
        if not hasattr(module, attribute):
            public = [name for name in dir(module) if not name.startswith("_")]
            known = suggestion(attribute, public)
            raise TfsmError(f"{self._named()}: module {module_name!r} has no {attribute!r}{known}")
        part = getattr(module, attribute)
        if not isinstance(part, type):
            raise TfsmError(f"{self._named()}: expected a class, found {part!r}")
        return part

    def with_options(self) -> Entry:
        """Return the entry with its options known: where the plugin gave none, the part is imported and asked."""
        if self.options is not None or self.part is not None:
            return self
        part = self.load()
        return replace(self, options=part) if is_dataclass(part) else self

    def _named(self) -> str:
        return f"{self.kind} {self.name!r} of {self.origin}, {self.target!r}"


class Registry:
    """Handed to a hook, to take down one plugin's parts of one kind."""

    def __init__(self, kind: Kind, *, plugin: str, distribution: str, taken: Mapping[str, Entry]) -> None:
        self._kind, self._plugin, self._distribution, self._taken = kind, plugin, distribution, taken
        self._entries: dict[str, Entry] = {}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was added, in order."""
        return tuple(self._entries.values())

    def add(self, name: str, target: str, *, description: str = "", options: type | None = None) -> None:
        """Register a part.

        Args:
            name: what users call it: lower-case letters, digits and `+._-`
            target: `module:attribute`, imported when the part is used
            description: one line, shown in listings
            options: a dataclass whose fields are the part's options, or None if it has none
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TfsmError(f"bad {self._kind} name {name!r}: expected lower-case letters, digits and '+._-'")
        if not isinstance(target, str) or not _is_target(target):
            raise TfsmError(f"{self._kind} {name!r} has a bad target {target!r}: expected 'module:attribute'")
        if options is not None and not (isinstance(options, type) and is_dataclass(options)):
            raise TfsmError(f"{self._kind} {name!r} has bad options {options!r}: expected a dataclass or None")
        if options is not None:
            describe(options)  # a faulty class is this plugin's fault now, not a listing's later
        entry = Entry(
            kind=self._kind,
            name=name,
            target=target,
            description=" ".join(description.split()),
            options=options,
            plugin=self._plugin,
            distribution=self._distribution,
        )
        if name in self._entries:
            raise TfsmError(f"{self._kind} {name!r} is registered twice by {entry.origin}")
        if name in self._taken:
            first = self._taken[name].origin
            raise TfsmError(f"{self._kind} {name!r} of {entry.origin} is already registered by {first}")
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


def _is_target(target: str) -> bool:
    module, colon, attribute = target.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def build_part(entry: Entry, options: dict[str, Any]) -> Any:
    """Import a part and give it its options; a part that came ready made has them."""
    if entry.part is not None:
        return entry.part
    part = entry.load()
    try:
        return part(**options)
    except TypeError as error:
        raise TfsmError(f"{entry.kind} {entry.name!r} of {entry.origin}: {error}") from error
