"""`tfsm plugins new`: a package to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tfsm.cli.context import DisablePlugin, context


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
    from tfsm.scaffold.names import names_for
    from tfsm.scaffold.write import package_files, usage, write_package

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
        usage(names),
    ):
        print(f"  {command}")
