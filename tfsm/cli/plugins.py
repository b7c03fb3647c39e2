"""`tfsm plugins`: what is installed and what became of it, whether it is right, and a package to begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.console import out, print_json
from tfsm.cli.context import DisablePlugin, context
from tfsm.cli.plugins_check import check
from tfsm.cli.plugins_new import new

if TYPE_CHECKING:
    from tfsm.plugins import PluginInfo

app = typer.Typer(
    help="Show the installed plugins, check them, or begin a new one.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def plugins() -> None:
    """Show the installed plugins, check them, or begin a new one."""


@app.command("list")
def list_plugins(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """List the plugins, their state and what they register."""
    infos = context(ctx, disable_plugin).plugins().infos
    if json:
        print_json(infos)
    else:
        _print_table(infos)


app.command()(check)
app.command()(new)


def _print_table(infos: tuple[PluginInfo, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("PLUGIN", "FROM", "STATE"):
        table.add_column(heading, no_wrap=True)
    table.add_column("REGISTERS", overflow="fold")
    colours = {"loaded": "green", "disabled": "yellow", "broken": "red"}
    for info in infos:
        registers = "; ".join(f"{kind}s: {', '.join(names)}" for kind, names in info.registers.items() if names)
        state = Text(info.state, style=colours[info.state])
        table.add_row(info.name, info.source, state, info.reason or registers or "nothing")
    out().print(table if infos else "no plugins are installed")
