"""What every command gets from the options before its name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tfsm.cli.complete import complete_plugins
from tfsm.cli.console import say

if TYPE_CHECKING:
    from tfsm.plugins import Plugins

DisablePlugin: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--disable-plugin",
        metavar="NAME",
        help="Do not import this plugin; may be repeated.",
        autocompletion=complete_plugins,
    ),
]
"""The option `--disable-plugin`, for the callback and for every command that loads plugins."""


@dataclass(frozen=True)
class Context:
    """What the user said about plugins, and the plugins once they are asked for."""

    disabled: tuple[str, ...] = ()

    def plugins(self) -> Plugins:
        """Load the plugins; warn about broken ones, once."""
        return self._plugins

    @cached_property
    def _plugins(self) -> Plugins:
        from tfsm.plugins import load_plugins

        plugins = load_plugins(disabled=self.disabled)
        for warning in plugins.warnings():
            say(f"warning: {warning}")
        return plugins


def context(ctx: typer.Context, disabled: list[str] | None = None) -> Context:
    """Return the context of a command, with the plugins disabled after the command's name as well."""
    outer = ctx.obj if isinstance(ctx.obj, Context) else Context()
    return Context((*outer.disabled, *disabled)) if disabled else outer
