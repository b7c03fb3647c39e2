"""`tfsm config`: the settings in effect and their sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.common import get_plugins, make_console, print_json
from tfsm.cli.options import PanelCommand, SharedOptions, complete_parts, shared_options
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tfsm.settings import GeneralSettings, ResolvedSettings


app = typer.Typer(
    help="Show the settings in effect and where each comes from.", no_args_is_help=True, rich_markup_mode=None
)


@app.command(cls=PanelCommand)
@shared_options("config", "set_", "profile", "json", "disable_plugin")
def show(
    ctx: typer.Context,
    domain: Annotated[
        str | None,
        typer.Argument(
            metavar="DOMAIN",
            help="Show the settings of a run in this domain; without it, those common to all domains",
            autocompletion=complete_parts("domain"),
        ),
    ] = None,
    mutation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Mutation operator of the run  [default: control]",
            autocompletion=complete_parts("mutation"),
        ),
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """Show settings and where each comes from."""
    from tfsm.settings import config_paths, resolve, resolve_general

    plugins = get_plugins(ctx, options.disable_plugin)
    paths = config_paths(options.config)
    if domain is not None:
        resolved = resolve(
            plugins,
            domain=domain,
            mutation=mutation or "control",
            sets=options.set_ or (),
            config=options.config,
            profile=options.profile,
        )
        if mutation is None:
            resolved = replace(resolved, sources={**resolved.sources, "mutation": "default of this command"})
        _print_run(resolved, paths, options.json)
    elif mutation or options.set_ or options.profile:
        raise TfsmError("--mutation, --set and --profile apply to a run: name its DOMAIN as well")
    else:
        _print_general(resolve_general(plugins, config=options.config), paths, options.json)


@app.command(cls=PanelCommand)
@shared_options("config")
def path(*, options: SharedOptions) -> None:
    """Print the settings files in use; later ones override earlier ones."""
    from tfsm.settings import config_paths

    for file in config_paths(options.config):
        print(file)


def _print_run(resolved: ResolvedSettings, paths: Iterable[Path], json: bool) -> None:
    settings = resolved.settings.as_dict()
    if json:
        print_json({"files": paths, "settings": settings, "sources": resolved.sources})
    else:
        # The keys that --set takes: mutation_options.floor is set with mutation.floor.
        _print_table((_set_key(key), value, resolved.sources[key]) for key, value in _flatten(settings))


def _print_general(general: GeneralSettings, paths: Iterable[Path], json: bool) -> None:
    settings = {**general.run, "engine": general.engine}
    if json:
        print_json({"files": paths, "settings": settings, "sources": general.sources})
        return
    console = make_console()
    console.print("Settings files; later files override earlier ones:")
    for file in paths:
        console.print(f"  {file}", soft_wrap=True)
    console.print()
    _print_table((key, value, general.sources[key]) for key, value in _flatten(settings))


def _set_key(key: str) -> str:
    return key.removeprefix("observer_options.").replace("_options.", ".")


def _flatten(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in settings.items():
        # Only tfsm's own tables are flattened: an option's value may itself be a table.
        if isinstance(value, dict) and prefix in ("", "observer_options."):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _print_table(rows: Iterable[tuple[str, object, str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("SETTING", no_wrap=True)
    table.add_column("VALUE", overflow="fold")
    table.add_column("FROM", overflow="fold")
    for key, value, source in rows:
        table.add_row(key, _format_value(value), source)
    make_console().print(table)


def _format_value(value: object) -> str:
    """Return a value in the form that `--set` takes."""
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    return ",".join(map(_format_value, value)) or "[]" if isinstance(value, list | tuple) else str(value)
