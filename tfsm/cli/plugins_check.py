"""`tfsm plugins check`: does a part do what every part must?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.console import out, print_json
from tfsm.cli.context import DisablePlugin, context
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from tfsm.testing import Outcome
    from tfsm.testing.trying import PluginSubject, Subject


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
    from tfsm.testing import find

    plugins = context(ctx, disable_plugin).plugins()
    found = find(plugins, name)
    from tfsm.cli.tensorflow import import_quietly

    import_quietly()
    from tfsm.testing.given import subjects

    parts = subjects(found.parts, set_ or ())
    if not found.plugins:
        _require_options(parts)
    outcomes: list[Outcome] = []
    for group in _groups([*found.plugins, *parts]):
        outcomes += group
        if not json:
            _print(group)
    if json:
        print_json(outcomes)
    else:
        _summarise(outcomes)
    raise typer.Exit(any(outcome.state == "failed" for outcome in outcomes))


def _require_options(parts: Sequence[Subject]) -> None:
    from tfsm.testing.making import lacking

    for part in parts:
        if missing := lacking(part):
            ways = " ".join(f"--set {name}=VALUE" for name in missing)
            raise TfsmError(f"{part.name} has options without a default: give {ways}")


def _groups(subjects: Sequence[Subject | PluginSubject]) -> Iterator[list[Outcome]]:
    """Check one after another; among several, a part that needs options is left out and said to be."""
    from tfsm.testing import Outcome, Subject, outcomes
    from tfsm.testing.making import lacking

    for subject in subjects:
        missing = lacking(subject) if isinstance(subject, Subject) else []
        if missing:
            part = subject.name.partition(":")[2]
            ways = " ".join(f"--set {part}.{name}=VALUE" for name in missing)
            yield [Outcome(subject.name, "all checks", "skipped", "it has options without a default", f"give {ways}")]
        else:
            yield list(outcomes(subject))


def _print(outcomes: Sequence[Outcome]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = out()
    console.print(Text(outcomes[0].subject, style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap, overflow="fold")
    colours = {"ok": "green", "failed": "red", "skipped": "yellow"}
    for outcome in outcomes:
        said = f"{outcome.found} -> {outcome.advice}" if outcome.advice else outcome.found
        table.add_row(Text(outcome.state, style=colours[outcome.state]), outcome.check, said)
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def _summarise(outcomes: Sequence[Outcome]) -> None:
    failed, skipped = (sum(outcome.state == state for outcome in outcomes) for state in ("failed", "skipped"))
    counted = f"{failed} of {len(outcomes)} checks failed" if failed else f"all {len(outcomes) - skipped} checks passed"
    out().print(f"{counted}, {skipped} skipped" if skipped else counted)
