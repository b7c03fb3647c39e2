"""Tab completion of names; it never fails, for there is nowhere to say why."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from tfsm.registry import Kind


def complete_parts(kind: Kind) -> Callable[[str], list[tuple[str, str]]]:
    """Return a completion function for the registered names of one kind, with their descriptions."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        from tfsm.plugins import load_plugins

        try:
            parts = load_plugins().parts(kind)
        except TfsmError:
            return []
        return [(name, entry.description) for name, entry in parts.items() if name.startswith(incomplete)]

    return complete


def complete_plugins(incomplete: str) -> list[str]:
    """Complete the name of a plugin without importing any."""
    from importlib.metadata import entry_points

    from tfsm.hookspecs import PROJECT

    return sorted(point.name for point in entry_points(group=PROJECT) if point.name.startswith(incomplete))
