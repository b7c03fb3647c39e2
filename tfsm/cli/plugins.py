"""Plugins, mutations, domains, ..."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.common import DisablePlugin, complete_parts, context, out, print_json
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from rich.table import Table

    from tfsm.plugins import PluginInfo
    from tfsm.plugins.options import Option
    from tfsm.plugins.registry import Entry, Kind
    from tfsm.testing.suite import CheckResult, PartUnderTest, PluginUnderTest


def check(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A part, a plugin or a package; mutation:NAME, plugin:NAME or package:NAME where that is not clear.",
        ),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set an option of the part; PART.KEY=VALUE for one of several."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Check that parts do what every operator, domain, selection scheme or observer must; exits with 1 if not."""
    from tfsm.testing.suite import find_targets

    plugins = context(ctx, disable_plugin).plugins()
    found = find_targets(plugins, name)
    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    from tfsm.testing.suite import parts_under_test

    parts = parts_under_test(found.parts, set_ or ())
    if not found.plugins:
        _require_options(parts)
    results: list[CheckResult] = []
    for group in _groups([*found.plugins, *parts]):
        results += group
        if not json:
            _print(group)
    if json:
        print_json(results)
    else:
        _summarise(results)
    raise typer.Exit(any(outcome.state == "failed" for outcome in results))


def _require_options(parts: Sequence[PartUnderTest]) -> None:
    from tfsm.testing.check_common import missing_options

    for part in parts:
        if missing := missing_options(part):
            ways = " ".join(f"--set {name}=VALUE" for name in missing)
            raise TfsmError(f"{part.name} has options without a default: give {ways}")


def _groups(targets: Sequence[PartUnderTest | PluginUnderTest]) -> Iterator[list[CheckResult]]:
    """Check one after another; among several, a part that needs options is left out and said to be."""
    from tfsm.testing.check_common import missing_options
    from tfsm.testing.suite import CheckResult, PartUnderTest, run_checks

    for subject in targets:
        missing = missing_options(subject) if isinstance(subject, PartUnderTest) else []
        if missing:
            part = subject.name.partition(":")[2]
            ways = " ".join(f"--set {part}.{name}=VALUE" for name in missing)
            yield [
                CheckResult(subject.name, "all checks", "skipped", "it has options without a default", f"give {ways}")
            ]
        else:
            yield list(run_checks(subject))


def _print(results: Sequence[CheckResult]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = out()
    console.print(Text(results[0].subject, style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap, overflow="fold")
    colours = {"ok": "green", "failed": "red", "skipped": "yellow"}
    for outcome in results:
        said = f"{outcome.found} -> {outcome.advice}" if outcome.advice else outcome.found
        table.add_row(Text(outcome.state, style=colours[outcome.state]), outcome.check, said)
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def _summarise(results: Sequence[CheckResult]) -> None:
    failed, skipped = (sum(outcome.state == state for outcome in results) for state in ("failed", "skipped"))
    counted = f"{failed} of {len(results)} checks failed" if failed else f"all {len(results) - skipped} checks passed"
    out().print(f"{counted}, {skipped} skipped" if skipped else counted)


def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What users shall type, such as my-noise.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="mutation, domain, selection or observer.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new directory for it.  [default: tfsm-NAME]")
    ] = None,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Write a package with a part that works, its tests and all that is needed to install and publish it."""
    from tfsm.plugins.scaffold import names_for, package_files, usage_example, write_package

    names = names_for(name, kind)
    directory = write_package(names, context(ctx, disable_plugin).plugins(), out)
    print(f"{directory} has the package {names.package}, with a {kind} named {names.part!r}:")
    for path in package_files(names):
        print(f"  {path}")
    print("\nwhat to do next:")
    for command in (
        f"cd {directory}",
        "pip install --editable '.[test]'",
        "pytest",
        f"tfsm plugins check {names.kind}:{names.part}",
        usage_example(names),
    ):
        print(f"  {command}")


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
        _print_parts(entries)
    else:
        out().print(f"no {kind}s are registered")


def _options(entry: Entry) -> tuple[Option, ...]:
    from tfsm.plugins.options import describe

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


def _print_parts(entries: Iterable[Entry]) -> None:
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
