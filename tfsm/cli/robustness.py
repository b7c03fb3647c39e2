"""`tfsm robustness`: what mutations leave of evolved solutions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.arguments import Json, Mutations, Quiet, Trust
from tfsm.cli.config import Config
from tfsm.cli.console import err, out, print_json, say
from tfsm.cli.context import DisablePlugin, context
from tfsm.cli.studies import mutations_of

if TYPE_CHECKING:
    from tfsm.experiments.retention import Robustness

FOLDER = "robustness"


def robustness(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory, or that of `tfsm compare`.")],
    mutation: Mutations = None,
    perturbations: Annotated[
        int, typer.Option(metavar="N", min=1, help="Mutants of each solution by each operator.")
    ] = 50,
    histogram: Annotated[
        int, typer.Option(metavar="N", min=0, help="Mutants of each method's representative solution; 0: none.")
    ] = 1000,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Decides the mutants.")] = 0,
    all_: Annotated[bool, typer.Option("--all", help="Take champions of runs that were not solved, too.")] = False,
    trust_model: Trust = False,
    config: Config = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write.  [default: robustness/ in DIR]")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Perturb every evolved solution by every operator, and tell how much of its performance is left."""
    from tfsm.cli.tensorflow import import_quietly
    from tfsm.experiments.checked import checked_record, checked_study

    plugins = context(ctx, disable_plugin).plugins()
    names = mutations_of(plugins, mutation)
    if (directory / "study.json").is_file():
        checked_study(directory)
    else:
        checked_record(directory)  # a mistake is told before TensorFlow has started

    from rich.progress import Progress

    with Progress(console=err(), transient=True, disable=quiet) as bar:
        task = bar.add_task("starting TensorFlow", total=None)

        def tell(done: int, of: int, what: str) -> None:
            bar.update(task, completed=done, total=of, description=what)

        import_quietly()
        from tfsm.experiments.robustness import robustness as measured

        found = measured(
            plugins,
            [directory],
            mutations=names,
            perturbations=perturbations,
            histogram=histogram,
            seed=seed,
            config=config,
            everybody=all_,
            trust=trust_model,
            tell=tell,
        )
    folder = directory / FOLDER if out_ is None else out_
    from tfsm.experiments.retention import FILE, save

    folder.mkdir(parents=True, exist_ok=True)
    save(found, folder / FILE)
    draw(folder, found)
    if json:
        print_json(found.as_dict() | {"directory": folder, "pairs": found.pairs()})
        return
    show_table(found)
    out().print(f"\nwritten to {folder}", soft_wrap=True)


def draw(folder: Path, found: Robustness) -> None:
    """Save the figure where it can be drawn; the numbers are worth having without it."""
    from tfsm.errors import TfsmError
    from tfsm.extras import optional

    try:
        optional("matplotlib", extra="plot", purpose="the figure of robustness")
    except TfsmError as error:
        say(f"no figure: {error}")
        return
    from tfsm.experiments.report.figures.robustness import save_robustness

    save_robustness(folder, found)


def show_table(found: Robustness) -> None:
    """Print what is left, by method and operator, and the tests."""
    from rich.table import Table

    console = out()
    console.print(
        f"fraction of performance ({found.measure}) retained, "
        f"mean over solutions, each of {found.perturbations} mutants\n"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("evolved by")
    table.add_column("solutions", justify="right")
    for operator in found.operators:
        table.add_column(operator, justify="right")
    for method in found.methods:
        means = [found.means(method, operator) for operator in found.operators]
        table.add_row(method, str(len(means[0])), *(f"{own.mean():.3f}" for own in means))
    console.print(table)
    tests = Table(box=None, pad_edge=False)
    for column in ("evolved by", "operators", "Mann-Whitney U", "p", "p (Holm)"):
        tests.add_column(column, justify="left" if column in ("evolved by", "operators") else "right")
    for pair in found.pairs():
        verdict = pair.verdict
        p, adjusted = (("-" if x is None else f"{x:.2g}") for x in (verdict.p, verdict.adjusted))
        statistic = "-" if verdict.statistic is None else f"{verdict.statistic:g}"
        tests.add_row(pair.method, f"{pair.first}, {pair.second}", statistic, p, adjusted)
    console.print()
    console.print(tests)
