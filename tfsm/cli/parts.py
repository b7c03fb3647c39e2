"""`tfsm mutations`, `tfsm domains`, `tfsm selections`, `tfsm observers`: the registered parts and their options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.complete import complete_parts
from tfsm.cli.console import out, print_json
from tfsm.cli.context import DisablePlugin, context

if TYPE_CHECKING:
    from rich.table import Table

    from tfsm.options import Option
    from tfsm.registry import Entry, Kind

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _name(kind: Kind) -> Any:
    return typer.Argument(metavar="[NAME]", help="Show only this one.", autocompletion=complete_parts(kind))


def mutations(
    ctx: typer.Context,
    name: Annotated[str | None, _name("mutation")] = None,
    json: Json = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """List the mutation operators with their options."""
    _show(ctx, "mutation", name, json, disable_plugin)


def domains(
    ctx: typer.Context,
    name: Annotated[str | None, _name("domain")] = None,
    json: Json = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """List the domains with their options."""
    _show(ctx, "domain", name, json, disable_plugin)


def selections(
    ctx: typer.Context,
    name: Annotated[str | None, _name("selection")] = None,
    json: Json = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """List the selection schemes with their options."""
    _show(ctx, "selection", name, json, disable_plugin)


def observers(
    ctx: typer.Context,
    name: Annotated[str | None, _name("observer")] = None,
    json: Json = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """List the observers with their options."""
    _show(ctx, "observer", name, json, disable_plugin)


def _show(ctx: typer.Context, kind: Kind, name: str | None, json: bool, disable_plugin: list[str] | None) -> None:
    parts = context(ctx, disable_plugin).plugins().parts(kind)
    entries = tuple(parts.values()) if name is None else (parts[name],)
    if json:
        print_json([_as_json(entry) for entry in entries])
    elif entries:
        _print(entries)
    else:
        out().print(f"no {kind}s are registered")


def _options(entry: Entry) -> tuple[Option, ...]:
    from tfsm.options import describe

    return describe(entry.options) if entry.options else ()


def _as_json(entry: Entry) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.description,
        "target": entry.target,
        "plugin": entry.plugin,
        "distribution": entry.distribution,
        "options": [
            {
                "name": option.name,
                "type": option.type,
                "constraints": option.constraints,
                "default": None if option.required else option.default,
                "required": option.required,
                "help": option.help,
            }
            for option in _options(entry)
        ],
    }


def _print(entries: Iterable[Entry]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = out()
    for number, entry in enumerate(entries):
        if number:
            console.print()
        console.print(Text(entry.name, style="bold"))
        if entry.description:
            console.print(Padding(entry.description, (0, 0, 0, 2), expand=False))
        if options := _options(entry):
            console.print(Padding(_table(options), (0, 0, 0, 4), expand=False))


def _table(options: tuple[Option, ...]) -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_column()
    for option in options:
        default = "required" if option.required else f"default {_shown(option.default)}"
        table.add_row(option.name, _typed(option), f"{option.help} [{default}]".strip())
    return table


def _typed(option: Option) -> str:
    # "float or none > 0" would read as if none had to be positive.
    separator = ", " if " or " in option.type else " "
    return f"{option.type}{separator}{option.constraints}" if option.constraints else option.type


def _shown(value: object) -> str:
    """Spell a default as one would type it."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return ",".join(map(_shown, value)) if isinstance(value, list | tuple) else str(value)
