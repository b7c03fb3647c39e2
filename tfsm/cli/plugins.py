"""`tfsm plugins`, and the lists of mutations, domains, selection schemes and observers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.common import get_plugins, make_console, print_json
from tfsm.cli.options import PanelCommand, SharedOptions, complete_parts, shared_options
from tfsm.cli.progress import show_steps
from tfsm.errors import TfsmError
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    from rich.table import Table

    from tfsm.plugins import PluginInfo
    from tfsm.plugins.options import Option
    from tfsm.plugins.registry import Entry, Kind
    from tfsm.testing.suite import CheckResult, PartUnderTest, PluginUnderTest


app = typer.Typer(
    help="List the installed plugins, check them, or create a new one.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list", cls=PanelCommand)
@shared_options("json", "disable_plugin")
def list_(ctx: typer.Context, *, options: SharedOptions) -> None:
    """List the plugins, their state and what they register."""
    infos = get_plugins(ctx, options.disable_plugin).infos
    if options.json:
        print_json(infos)
    else:
        _print_plugins(infos)


@app.command(cls=PanelCommand)
@shared_options("json", "quiet", "disable_plugin")
def check(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Part, plugin or package; use mutation:NAME, plugin:NAME or package:NAME if the name is ambiguous",
        ),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set an option of the part; PART.KEY=VALUE for one of several parts"
        ),
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """Check that parts fulfil their contract; exits with 1 if not."""
    from tfsm.testing.suite import find_targets

    targets = find_targets(get_plugins(ctx, options.disable_plugin), name)
    import_tensorflow()
    from tfsm.testing.suite import parts_under_test

    parts = parts_under_test(targets.parts, set_ or ())
    if not targets.plugins:
        _require_options(parts)
    results: list[CheckResult] = []
    for group in _check([*targets.plugins, *parts], quiet=options.quiet):
        results += group
        if not options.json:
            _print_results(group)
    if options.json:
        print_json(results)
    else:
        _print_counts(results)
    raise typer.Exit(any(result.state == "failed" for result in results))


def _require_options(parts: Sequence[PartUnderTest]) -> None:
    from tfsm.testing.check_common import missing_options

    for part in parts:
        if missing := missing_options(part):
            flags = " ".join(f"--set {name}=VALUE" for name in missing)
            raise TfsmError(f"{part.name} has options without a default: give {flags}")


def _check(targets: Sequence[PartUnderTest | PluginUnderTest], *, quiet: bool) -> Iterator[list[CheckResult]]:
    """Check one subject after another; among several, a part that needs options is skipped, with a note."""
    from tfsm.testing.check_common import missing_options
    from tfsm.testing.suite import CheckResult, PartUnderTest, checks_for, run_checks

    for target in targets:
        missing = missing_options(target) if isinstance(target, PartUnderTest) else []
        if missing:
            part = target.name.partition(":")[2]
            flags = " ".join(f"--set {part}.{name}=VALUE" for name in missing)
            yield [
                CheckResult(target.name, "all checks", "skipped", "it has options without a default", f"give {flags}")
            ]
        else:
            results = []
            with show_steps(f"checking {target.name}", quiet=quiet) as update:
                for result in run_checks(target):
                    results.append(result)
                    update(len(results), len(checks_for(target.kind)), "")
            yield results


def _print_results(results: Sequence[CheckResult]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = make_console()
    console.print(Text(results[0].subject, style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap, overflow="fold")
    colours = {"ok": "green", "failed": "red", "skipped": "yellow"}
    for result in results:
        details = f"{result.message} -> {result.advice}" if result.advice else result.message
        table.add_row(Text(result.state, style=colours[result.state]), result.check, details)
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def _print_counts(results: Sequence[CheckResult]) -> None:
    failed, skipped = (sum(result.state == state for result in results) for state in ("failed", "skipped"))
    counts = f"{failed} of {len(results)} checks failed" if failed else f"all {len(results) - skipped} checks passed"
    make_console().print(f"{counts}, {skipped} skipped" if skipped else counts)


@app.command(cls=PanelCommand)
@shared_options("disable_plugin")
def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name that users will type, such as my-noise")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="mutation, domain, selection or observer")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New directory for the package  [default: tfsm-NAME]")
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """Create a plugin package with a working part and its tests.

    The package has all that is needed to install and publish it.
    """
    from tfsm.plugins.scaffold import names_for, package_files, usage_example, write_package

    names = names_for(name, kind)
    directory = write_package(names, get_plugins(ctx, options.disable_plugin), out)
    print(f"created {directory}, with the package {names.package} and a {kind} named {names.part!r}:")
    for path in package_files(names):
        print(f"  {path}")
    print("\nnext steps:")
    for command in (
        f"cd {directory}",
        "pip install --editable '.[test]'",
        "pytest",
        f"tfsm plugins check {names.kind}:{names.part}",
        usage_example(names),
    ):
        print(f"  {command}")


def _print_plugins(infos: tuple[PluginInfo, ...]) -> None:
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
    make_console().print(table if infos else "no plugins are installed")


def _part_argument(kind: Kind) -> Any:
    return typer.Argument(metavar="NAME", help="Show only this one", autocompletion=complete_parts(kind))


@shared_options("json", "disable_plugin")
def mutations(
    ctx: typer.Context,
    name: Annotated[str | None, _part_argument("mutation")] = None,
    *,
    options: SharedOptions,
) -> None:
    """List the mutation operators with their options."""
    _list_parts(ctx, "mutation", name, options)


@shared_options("json", "disable_plugin")
def domains(
    ctx: typer.Context,
    name: Annotated[str | None, _part_argument("domain")] = None,
    *,
    options: SharedOptions,
) -> None:
    """List the domains with their options."""
    _list_parts(ctx, "domain", name, options)


@shared_options("json", "disable_plugin")
def selections(
    ctx: typer.Context,
    name: Annotated[str | None, _part_argument("selection")] = None,
    *,
    options: SharedOptions,
) -> None:
    """List the selection schemes with their options."""
    _list_parts(ctx, "selection", name, options)


@shared_options("json", "disable_plugin")
def observers(
    ctx: typer.Context,
    name: Annotated[str | None, _part_argument("observer")] = None,
    *,
    options: SharedOptions,
) -> None:
    """List the observers with their options."""
    _list_parts(ctx, "observer", name, options)


def _list_parts(ctx: typer.Context, kind: Kind, name: str | None, options: SharedOptions) -> None:
    parts = get_plugins(ctx, options.disable_plugin).parts(kind)
    entries = tuple(parts.values()) if name is None else (parts[name],)
    if options.json:
        print_json([_as_json(entry) for entry in entries])
    elif entries:
        _print_parts(entries)
    else:
        make_console().print(f"no {kind}s are registered")


def _describe_options(entry: Entry) -> tuple[Option, ...]:
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
            for option in _describe_options(entry)
        ],
    }


def _print_parts(entries: Iterable[Entry]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = make_console()
    for number, entry in enumerate(entries):
        if number:
            console.print()
        console.print(Text(entry.name, style="bold"))
        if entry.description:
            console.print(Padding(entry.description, (0, 0, 0, 2), expand=False))
        if options := _describe_options(entry):
            console.print(Padding(_option_table(options), (0, 0, 0, 4), expand=False))


def _option_table(options: tuple[Option, ...]) -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_column()
    for option in options:
        default = "required" if option.required else f"default {_format_default(option.default)}"
        table.add_row(option.name, _format_type(option), f"{option.help} [{default}]".strip())
    return table


def _format_type(option: Option) -> str:
    # "float or none > 0" would read as if none had to be positive.
    separator = ", " if " or " in option.type else " "
    return f"{option.type}{separator}{option.constraints}" if option.constraints else option.type


def _format_default(value: object) -> str:
    """Return a default value as a user would type it."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return ",".join(map(_format_default, value)) if isinstance(value, list | tuple) else str(value)
