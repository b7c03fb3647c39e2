"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tfsm.cli.complete import complete_parts

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
Backend: TypeAlias = Annotated[
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
