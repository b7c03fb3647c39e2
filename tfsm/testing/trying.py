"""The part under test, made once for all checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tfsm.registry import Entry, Kind

if TYPE_CHECKING:
    from tfsm.models.network import Network
    from tfsm.plugins import PluginInfo
    from tfsm.testing.evaluating import Tried

Checked: TypeAlias = Literal["plugin"] | Kind
"""What there are checks for: a whole plugin, and parts of each kind."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A registered part with its options; what checks need of it is made when it is first needed, and kept."""

    entry: Entry
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> Checked:
        """What kind of part it is."""
        return self.entry.kind

    @property
    def name(self) -> str:
        """What to call it: `mutation:control`."""
        return f"{self.entry.kind}:{self.entry.name}"

    @property
    def title(self) -> str:
        """What to call its class in a message."""
        return type(self.part).__name__

    @cached_property
    def part(self) -> Any:
        """The part itself."""
        return self.made()

    def made(self, **changes: Any) -> Any:
        """Make the part anew, with some options changed; one that came ready made is what it is."""
        from tfsm.experiments.parts import build_part

        return build_part(self.entry, {**self.options, **changes})

    @cached_property
    def network(self) -> Network:
        """A domain's network; where that is a large one, a small one that takes and gives the same."""
        from tfsm.testing.networks import network_of

        return network_of(self.part)

    @cached_property
    def tried(self) -> Tried:
        """What a domain says of a few genomes, and whether it used a global generator for that."""
        from tfsm.testing.evaluating import Tried

        return Tried(self)


@dataclass(frozen=True, eq=False)
class PluginSubject:
    """A whole plugin, loaded or broken."""

    info: PluginInfo
    module: str
    """What its entry point names."""

    @property
    def kind(self) -> Checked:
        """A plugin."""
        return "plugin"

    @property
    def name(self) -> str:
        """What to call it: `plugin:tfsm-toy`."""
        return f"plugin:{self.info.name}"
