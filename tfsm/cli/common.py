"""Shared options, console, context, Ctrl-C."""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

import typer

from tfsm.errors import TfsmError
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    from rich.console import Console

    from tfsm.plugins import Plugins
    from tfsm.plugins.registry import Entry, Kind


def complete_parts(kind: Kind) -> Callable[[str], list[tuple[str, str]]]:
    """Return a completion function for the registered names of one kind, with their descriptions."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        from tfsm.plugins import load_plugins

        try:
            parts = load_plugins().parts(kind)
        except TfsmError:
            return []
        return [(name, entry.description) for name, entry in parts.items() if name.startswith(incomplete)]

    return complete


def complete_plugins(incomplete: str) -> list[str]:
    """Complete the name of a plugin without importing any."""
    from importlib.metadata import entry_points

    from tfsm.plugins.hookspecs import PROJECT

    return sorted(point.name for point in entry_points(group=PROJECT) if point.name.startswith(incomplete))


Domain: TypeAlias = Annotated[
    str, typer.Argument(help="What to evolve for; `tfsm domains` lists them.", autocompletion=complete_parts("domain"))
]
Mutations: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--mutation",
        help="Mutation operators, with commas between them.  [default: the paper's five]",
        metavar="NAME,...",
        autocompletion=complete_parts("mutation"),
    ),
]
Selection: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The selection scheme; `tfsm selections` lists them.",
        autocompletion=complete_parts("selection"),
    ),
]
Observers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--observer",
        metavar="NAME",
        help="Somebody else to tell how it goes; `tfsm observers` lists them; may be repeated.",
        autocompletion=complete_parts("observer"),
    ),
]
Seed: TypeAlias = Annotated[int | None, typer.Option(metavar="S", help="Run r of a seed is always the same run.")]
Evaluations: TypeAlias = Annotated[int | None, typer.Option(metavar="N", help="The most evaluations of one run.")]
Population: TypeAlias = Annotated[int | None, typer.Option(metavar="N", help="Individuals of one run.")]
ModelName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A network instead of the domain's own: a .keras file, or package.module:function that builds one.",
    ),
]
Trust: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trust-model", help="Load the model whatever is in it, a legacy .h5 file too: code in the file is run."
    ),
]
Layers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Mutate these layers only, such as 'conv*,dense_2'; NAME=0.1 for a tenth of the intensity, @head for "
        "the layers that make the outputs.",
    ),
]
Sets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set an option of the domain, operator, scheme or engine."),
]
StudyOut: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="The directory; one that was begun before is continued.  [default: a new one below runs/]",
    ),
]
CheckpointEvery: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="EVERY",
        help="How often to write a checkpoint: 30s, 5m, 1h, a number of evaluations, or never.  [default: 60s]",
    ),
]
BackendOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where the work is done: local, in this process; processes, on this machine; ray, on a cluster.  "
        "[default: local]",
        autocompletion=lambda: ["local", "processes", "ray"],
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many workers, for --backend processes or ray.  [default: one a core]"),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="The Ray to use, such as auto or HOST:PORT.  [default: a new one here]"),
]
Grain: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What a worker is given at a time: runs, groups of them in lock step; children, one each, for expensive "
        "domains.  [default: runs]",
        autocompletion=lambda: ["runs", "children"],
    ),
]
EvaluationTimeout: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="S", help="The most seconds of one evaluation, by a domain that is plain Python."),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON summary on stdout, and nothing else.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


_UNLIMITED: Final = 10_000


def out() -> Console:
    """Return a console on stdout."""
    return _console(sys.stdout)


def err() -> Console:
    """Return a console on stderr."""
    return _console(sys.stderr)


def say(message: str) -> None:
    """Print a message to stderr as it is, neither wrapped nor styled."""
    print(message, file=sys.stderr)


def print_json(value: object) -> None:
    """Print a value as JSON; dataclasses become objects, and numbers that JSON does not have become null."""
    print(json.dumps(_plain(value), indent=2))


def _console(file: IO[str]) -> Console:
    from rich.console import Console

    # A pipe has no width: whoever reads it wants one line a row.
    width = None if file.isatty() else _UNLIMITED
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


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


class Interrupt:
    """While entered, takes SIGINT and SIGTERM as requests."""

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def asked(self) -> bool:
        """Say whether an end was asked for."""
        return self._asked

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        say("ending after this step, with everything so far on disk; once more to end at once")


def import_for(*entries: Entry) -> None:
    """Import TensorFlow now if a part must be imported to be asked for its options."""
    if any(entry.options is None for entry in entries):
        import_tensorflow()
