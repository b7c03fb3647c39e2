"""Pages that are generated when the site is built: every command with its options, and every option of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import typer

from tfsm.cli.main import app
from tfsm.cli.options import group_by_panel
from tfsm.plugins import load_plugins
from tfsm.plugins.options import NoOptions, Option, describe
from tfsm.plugins.registry import KINDS
from tfsm.settings.schema import EngineOptions, RunOptions

BUILT_IN: Final = "tfsm"
TITLES: Final = MappingProxyType(
    {"mutation": "Operators", "domain": "Domains", "selection": "Selection schemes", "observer": "Observers"}
)
CLI_START: Final = """# Command line

Every command and option, as `tfsm COMMAND --help` shows them. The words in capitals are values that you give.
[Settings](settings.md) explains `--set`, settings files and exit codes.
"""
OPTIONS_START: Final = """# All options

Every option with its meaning, type and default. Set them with `--set NAME=VALUE`, in a [`tfsm.toml`](settings.md), or
as keyword arguments of `tfsm.evolve`. A domain may have other defaults, such as the paper's: `tfsm config show DOMAIN`
shows what a run would use. With a divergence, the default of `guard` is `relative`. The same lists are printed by
`tfsm mutations`, `tfsm domains`, `tfsm selections` and `tfsm observers`.
"""


def render_cli() -> str:
    """Return the reference of the command line as Markdown."""
    return "\n".join([CLI_START, *_render_command(typer.main.get_command(app), "tfsm")])


def list_commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name, groups included."""
    yield from _walk(typer.main.get_command(app), "tfsm")


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child in getattr(command, "commands", {}).values():
        yield from _walk(child, f"{name} {child.name}")


def _render_command(root: Any, name: str) -> Iterator[str]:
    for path, command in _walk(root, name):
        context = command.make_context(path, [], resilient_parsing=True)
        yield f"{'##' if path.count(' ') < 2 else '###'} {path}\n"
        yield f"{_escape(' '.join((command.help or '').split()))}\n"
        if not hasattr(command, "commands"):
            usage = " ".join(piece for piece in command.collect_usage_pieces(context) if piece)
            yield f"```text\n{path} {usage}\n```\n"
        elif path != name:
            links = (f"[`{path} {child}`](#{f'{path} {child}'.replace(' ', '-')})" for child in command.commands)
            yield f"Its commands: {', '.join(links)}.\n"
        yield from _render_parameters(command, context)


def _render_parameters(command: Any, context: Any) -> Iterator[str]:
    for panel, records in group_by_panel(command, context).items():
        yield f"| {panel} | |\n|---|---|"
        for name, text in records:
            yield f"| `{name.strip()}` | {_escape(' '.join(text.split()))} |"
        yield ""


def render_options() -> str:
    """Return the reference of all options of settings as Markdown."""
    lines = [OPTIONS_START, "## Run\n"]
    lines.append("The keys of `[run]` and `[domains.NAME]`; see [settings of a run](run-settings.md).\n")
    lines += _render_table(describe(RunOptions))
    lines += ["## Engine\n", "The keys of `[engine]`; see [the engine](run-settings.md#the-engine).\n"]
    lines += _render_table(describe(EngineOptions))
    plugins = load_plugins()
    for kind in KINDS:
        lines.append(f"## {TITLES[kind]}\n")
        for entry in plugins.parts(kind).values():
            if entry.distribution == BUILT_IN:
                options = describe(entry.with_options().options or NoOptions)
                lines += [f"### `{entry.name}`\n", f"{_escape(entry.description)}.\n"]
                lines += _render_table(options) if options else ["No options.\n"]
    return "\n".join(lines)


def _render_table(options: tuple[Option, ...]) -> Iterator[str]:
    # Two columns, so that a phone shows the meaning without scrolling sideways.
    yield "| option | meaning |\n|---|---|"
    for option in options:
        kind = ", ".join(filter(None, [option.type, option.constraints])).replace("|", " | ")
        meaning = f"{_escape(option.help)}<br>*{_escape(kind)}*; {_show_default(option)}"
        yield f"| `{option.name}` | {meaning} |"
    yield ""


def _show_default(option: Option) -> str:
    if option.required:
        return "required"
    value = option.default
    if isinstance(value, bool):
        return f"default `{'yes' if value else 'no'}`"
    if value is None:
        return "default `none`"
    return "default empty" if value in ((), {}) else f"default `{value}`"


def _escape(text: str) -> str:
    """Escape what Markdown would take for markup."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {"reference/cli.md": render_cli, "reference/options.md": render_options}
)
"""The generated pages, by their place on the site."""
