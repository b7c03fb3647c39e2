"""`tfsm config`: the settings in force, and where each comes from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tfsm.cli.common import DisablePlugin, complete_parts, context, out, print_json
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tfsm.settings import GeneralSettings, ResolvedSettings


app = typer.Typer(
    help="Show the settings in force, and where each comes from.", no_args_is_help=True, rich_markup_mode=None
)

Config: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Read this file instead of the nearest tfsm.toml upwards."),
]


@app.callback()
def config() -> None:
    """Show the settings in force, and where each comes from."""


@app.command()
def show(
    ctx: typer.Context,
    domain: Annotated[
        str | None,
        typer.Argument(
            metavar="DOMAIN",
            help="Show what a run in this domain would use; without it, what holds for all domains.",
            autocompletion=complete_parts("domain"),
        ),
    ] = None,
    mutation: Annotated[
        str | None,
        typer.Option(
            "--mutation",
            metavar="NAME",
            help="The run's mutation operator.  [default: control]",
            autocompletion=complete_parts("mutation"),
        ),
    ] = None,
    config: Config = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option; may be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Show settings and where each comes from."""
    from tfsm.settings import config_paths, resolve, resolve_general

    plugins = context(ctx, disable_plugin).plugins()
    paths = config_paths(config)
    if domain is not None:
        resolved = resolve(plugins, domain=domain, mutation=mutation or "control", sets=set_ or (), config=config)
        if mutation is None:
            resolved = replace(resolved, sources={**resolved.sources, "mutation": "default of this command"})
        _show_run(resolved, paths, json)
    elif mutation or set_:
        raise TfsmError("--mutation and --set are about a run: give its DOMAIN, too")
    else:
        _show_general(resolve_general(plugins, config=config), paths, json)


@app.command()
def path(config: Config = None) -> None:
    """Print the files that are read, one a line; a later one wins over an earlier."""
    from tfsm.settings import config_paths

    for file in config_paths(config):
        print(file)


def _show_run(resolved: ResolvedSettings, paths: Iterable[Path], json: bool) -> None:
    settings = resolved.settings.as_dict()
    if json:
        print_json({"files": paths, "settings": settings, "sources": resolved.sources})
    else:
        # As --set would have them: mutation_options.floor is set with mutation.floor.
        _print_table((_spelt(key), value, resolved.sources[key]) for key, value in _flat(settings))


def _show_general(general: GeneralSettings, paths: Iterable[Path], json: bool) -> None:
    settings = {**general.run, "engine": general.engine}
    if json:
        print_json({"files": paths, "settings": settings, "sources": general.sources})
        return
    out().print("Files, of which a later one wins over an earlier:")
    for file in paths:
        out().print(f"  {file}", soft_wrap=True)
    out().print()
    _print_table((key, value, general.sources[key]) for key, value in _flat(settings))


def _spelt(key: str) -> str:
    return key.removeprefix("observer_options.").replace("_options.", ".")


def _flat(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in settings.items():
        # What an option's own value may be is its author's business: only our tables are taken apart.
        if isinstance(value, dict) and prefix in ("", "observer_options."):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _print_table(rows: Iterable[tuple[str, object, str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("SETTING", no_wrap=True)
    table.add_column("VALUE", overflow="fold")
    table.add_column("FROM", overflow="fold")
    for key, value, source in rows:
        table.add_row(key, _shown(value), source)
    out().print(table)


def _shown(value: object) -> str:
    """Spell a value as `--set` takes it."""
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    return ",".join(map(_shown, value)) or "[]" if isinstance(value, list | tuple) else str(value)
