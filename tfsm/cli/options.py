"""The options that commands share, and help that groups them into panels.

A command takes the shared options as one parameter::

    @shared_options()
    def run(ctx: typer.Context, domain: DomainName, *, options: SharedOptions) -> None: ...

Typer builds a command from its signature and does not accept a dataclass there. `shared_options` therefore gives the
command a signature with one parameter per field of `SharedOptions`, and passes an instance when the command is called.
A new field of `SharedOptions` is a new option of every command that takes all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, get_type_hints

import typer
from typer.core import TyperCommand

from tfsm.cli.common import import_tensorflow_for
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from tfsm.plugins import Plugins
    from tfsm.plugins.registry import Kind
    from tfsm.settings import ResolvedSettings

EXPERIMENT: Final = "What to evolve"
SEARCH: Final = "Search"
MODEL: Final = "Model"
OUTPUT: Final = "Output"
EXECUTION: Final = "Execution"
OTHER: Final = "Other"
ARGUMENTS: Final = "Arguments"
OPTIONS: Final = "Options"
PANELS: Final = (EXPERIMENT, SEARCH, MODEL, OUTPUT, EXECUTION, OTHER)
"""The panels of the help in their order; panels of a single command come before them."""


class PanelCommand(TyperCommand):
    """A command whose help lists its arguments and options by panel.

    Typer groups them only if rich formats the help. Importing rich would double the time that `--help` takes, and its
    boxes do not survive a pipe. Arguments are shown by their names alone, which differs between versions of Typer.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section per panel, with all descriptions in one column."""
        panels = group_by_panel(self, ctx)
        width = max(len(name) for records in panels.values() for name, _ in records)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(width), text) for name, text in records])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line: optional arguments in brackets."""
        arguments = (one for one in self.get_params(ctx) if one.param_type_name == "argument")
        return ["[OPTIONS]", *(str(one.metavar) if one.required else f"[{one.metavar}]" for one in arguments)]


def group_by_panel(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the names and descriptions of a command's parameters, by panel and in the order of the panels.

    A command that has options without a panel, besides `--help`, has one list of arguments and one of options.
    """
    shown = [(one, record) for one in command.get_params(ctx) if (record := one.get_help_record(ctx))]
    grouped = sum(get_panel(one) == OTHER for one, _ in shown) <= 1
    panels: dict[str, list[tuple[str, str]]] = {}
    for one, (name, text) in shown:
        is_argument = one.param_type_name == "argument"
        panel = get_panel(one) if grouped else ARGUMENTS if is_argument else OPTIONS
        panels.setdefault(panel, []).append((one.metavar if is_argument else name, text))
    return dict(sorted(panels.items(), key=lambda item: PANELS.index(item[0]) if item[0] in PANELS else -1))


def get_panel(parameter: Any) -> str:
    """Return the panel of a parameter."""
    return getattr(parameter, "rich_help_panel", None) or OTHER


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


def complete_part_list(kind: Kind) -> Callable[[str], list[tuple[str, str]]]:
    """Return a completion function for a comma-separated list of names; names that it has already are left out."""
    complete_name = complete_parts(kind)

    def complete(incomplete: str) -> list[tuple[str, str]]:
        before, comma, name = incomplete.rpartition(",")
        given = split_names(before)
        return [(f"{before}{comma}{one}", text) for one, text in complete_name(name) if one not in given]

    return complete


def complete_plugins(incomplete: str) -> list[str]:
    """Complete the name of a plugin without importing any."""
    from importlib.metadata import entry_points

    from tfsm.plugins.hookspecs import PROJECT

    return sorted(point.name for point in entry_points(group=PROJECT) if point.name.startswith(incomplete))


DomainName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DOMAIN",
        help="Domain to evolve for; see `tfsm domains`",
        autocompletion=complete_parts("domain"),
        rich_help_panel=EXPERIMENT,
    ),
]
DEFAULT_MUTATION = "sm-g-sum"
"""What the library uses by default too; not imported from there, which would import TensorFlow."""
MutationName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--mutation",
        metavar="NAME",
        help=f"Mutation operator; see `tfsm mutations`  [default: {DEFAULT_MUTATION}]",
        autocompletion=complete_parts("mutation"),
        rich_help_panel=EXPERIMENT,
    ),
]
MutationNames: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--mutation",
        metavar="NAME,...",
        help="Mutation operators, comma-separated  [default: the paper's five]",
        autocompletion=complete_part_list("mutation"),
        rich_help_panel=EXPERIMENT,
    ),
]
StudyDirectory: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Output directory; one that was interrupted is continued  [default: a new one in runs/]",
        rich_help_panel=OUTPUT,
    ),
]
DisablePlugin: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--disable-plugin",
        metavar="NAME",
        help="Do not load this plugin; may be repeated",
        autocompletion=complete_plugins,
        rich_help_panel=EXECUTION,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """Options that more than one command takes; one that a command does not take keeps its default."""

    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set an option of the domain, operator, selection scheme or engine; may be repeated",
            rich_help_panel=EXPERIMENT,
        ),
    ] = None

    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Named settings for the domain: published (the choices of the paper's code), described (of its text), "
            "or one of your tfsm.toml",
            autocompletion=lambda: ["published", "described"],
            rich_help_panel=EXPERIMENT,
        ),
    ] = None
    divergence: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="How far the outputs of a child move, instead of an intensity: 0.01, or 1% of their variance",
            rich_help_panel=EXPERIMENT,
        ),
    ] = None

    selection: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Selection scheme; see `tfsm selections`",
            autocompletion=complete_parts("selection"),
            rich_help_panel=SEARCH,
        ),
    ] = None
    evaluations: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum evaluations per run", rich_help_panel=SEARCH)
    ] = None
    population: Annotated[int | None, typer.Option(metavar="N", help="Population size", rich_help_panel=SEARCH)] = None
    offspring: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Children that a run makes at once, from the same population", rich_help_panel=SEARCH
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(metavar="S", help="Random seed", rich_help_panel=SEARCH)] = None

    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Network instead of the domain's own: a .keras file, or package.module:function that builds one",
            rich_help_panel=MODEL,
        ),
    ] = None
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Mutate only these layers, e.g. 'conv*,dense_2'; NAME=0.1 scales a layer's intensity, and @head "
            "stands for the output layers",
            rich_help_panel=MODEL,
        ),
    ] = None
    trust_model: Annotated[
        bool,
        typer.Option(
            "--trust-model",
            help="Load the model without safety checks, even a legacy .h5 file; code in the file will run",
            rich_help_panel=MODEL,
        ),
    ] = False

    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            metavar="EVERY",
            help="Checkpoint interval: 30s, 5m, 1h, a number of evaluations, or never  [default: 60s]",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    observer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Observer to notify; may be repeated; see `tfsm observers`",
            autocompletion=complete_parts("observer"),
            rich_help_panel=OUTPUT,
        ),
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON on stdout, and nothing else", rich_help_panel=OUTPUT)
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress", rich_help_panel=OUTPUT)] = False

    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where to run: local (in this process), processes (on this machine) or ray (on a cluster)  "
            "[default: local]",
            autocompletion=lambda: ["local", "processes", "ray"],
            rich_help_panel=EXECUTION,
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of workers for --backend processes or ray  [default: one per core]",
            rich_help_panel=EXECUTION,
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Ray cluster to connect to: auto or HOST:PORT  [default: start one on this machine]",
            rich_help_panel=EXECUTION,
        ),
    ] = None
    grain: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What a worker gets at a time: runs (a group in lock step) or children (a single one, for expensive "
            "domains)  [default: runs]",
            autocompletion=lambda: ["runs", "children"],
            rich_help_panel=EXECUTION,
        ),
    ] = None
    evaluation_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Maximum seconds per evaluation, for domains written in plain Python",
            rich_help_panel=EXECUTION,
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings file  [default: the nearest tfsm.toml, here or in a parent directory]",
            rich_help_panel=EXECUTION,
        ),
    ] = None
    disable_plugin: DisablePlugin = None

    def resolve(self, plugins: Plugins, domain: str, mutation: str, **flags: Any) -> ResolvedSettings:
        """Resolve the settings of a run from these options and the command's own flags; None is a flag not given."""
        from tfsm.settings import resolve

        observers = (plugins.observers[name] for name in self.observer or ())
        import_tensorflow_for(plugins.domains[domain], plugins.mutations[mutation], *observers)
        return resolve(
            plugins,
            domain=domain,
            mutation=mutation,
            overrides=self.overrides() | flags,
            sets=self.set_ or (),
            config=self.config,
            profile=self.profile,
        )

    def overrides(self) -> dict[str, Any]:
        """Return the settings that these options override; None where the option was not given."""
        return {
            "divergence": self.divergence,
            "selection": self.selection,
            "seed": self.seed,
            "evaluations": self.evaluations,
            "population": self.population,
            "offspring": self.offspring,
            "model": self.model,
            "mutated_layers": self.layers,
            "trust_model": self.trust_model or None,
            "checkpoint_every": self.checkpoint_every,
            "evaluation_timeout": self.evaluation_timeout,
            "observers": self.observer or None,
        }


def _parameters() -> tuple[inspect.Parameter, ...]:
    hints = get_type_hints(SharedOptions, include_extras=True)
    return tuple(
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(SharedOptions)
    )


_SHARED: Final = _parameters()


def shared_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that passes shared options to a command as its keyword argument `options`.

    Args:
        names: fields of `SharedOptions` that the command takes; all of them if none is named.
    """
    shared = [parameter for parameter in _SHARED if not names or parameter.name in names]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            parameters += shared if parameter.name == "options" else [parameter]

        @wraps(command)
        def expanded(**values: Any) -> None:
            options = SharedOptions(**{parameter.name: values.pop(parameter.name) for parameter in shared})
            command(**values, options=options)

        expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return expanded

    return decorate


def parse_mutations(plugins: Plugins, text: str | None) -> list[str]:
    """Return the operators that `--mutation` lists; those of the paper if it was not given."""
    if text is None:
        from tfsm.analysis.reproduce import PAPER_OPERATORS

        return [name for name in PAPER_OPERATORS if name in plugins.mutations]
    names = split_names(text)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TfsmError(f"--mutation {text}: {', '.join(twice)} is given twice")
    if not names:
        raise TfsmError("--mutation: expected comma-separated names, such as control,sm-g-sum")
    for name in names:
        plugins.mutations[name]  # an unknown name raises an error that suggests another
    return names


def split_names(text: str | None) -> list[str]:
    """Split a comma-separated list of names.

    >>> split_names("control, sm-r,")
    ['control', 'sm-r']
    """
    return [name.strip() for name in (text or "").split(",") if name.strip()]
