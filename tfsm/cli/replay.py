"""`tfsm replay`: watch the champion of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tfsm.cli.common import get_plugins, make_console, print_json, print_message
from tfsm.cli.options import OUTPUT, SharedOptions, complete_part_list, shared_options, split_names
from tfsm.cli.progress import show_steps
from tfsm.errors import TfsmError
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    import numpy as np

    from tfsm.render.replay import ChampionReplay

SUBJECT: Final = "What to show"
MUTANTS: Final = "Mutants"
"""Panels of the help."""


@shared_options("config", "trust_model", "json", "quiet", "disable_plugin")
def replay(
    ctx: typer.Context,
    directory: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Run directory of `tfsm run`", rich_help_panel=SUBJECT)
    ],
    run: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of the run  [default: the best one]", rich_help_panel=SUBJECT),
    ] = None,
    population: Annotated[
        bool,
        typer.Option(
            "--population",
            help="Draw the behavior of the whole population over time instead of the champion",
            rich_help_panel=SUBJECT,
        ),
    ] = False,
    mutants: Annotated[
        int, typer.Option(metavar="N", min=0, help="Also show N mutants of the champion", rich_help_panel=MUTANTS)
    ] = 0,
    mutation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Operators that make the mutants, comma-separated; shown side by side  [default: the run's]",
            autocompletion=complete_part_list("mutation"),
            rich_help_panel=MUTANTS,
        ),
    ] = None,
    intensity: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Intensity of the operators  [default: as in `tfsm run`]", rich_help_panel=MUTANTS
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Random seed of the mutants", rich_help_panel=MUTANTS)] = 0,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a .gif or .mp4 animation, or one .png of all of it, instead of opening a window",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """Watch a champion and its mutants, in a window or a file."""
    names = tuple(split_names(mutation))
    if (names or intensity is not None) and not mutants:
        raise TfsmError("--mutation and --intensity apply to mutants: set their number with --mutants N")
    if population and mutants:
        raise TfsmError("--population and --mutants cannot be combined")
    plugins = get_plugins(ctx, options.disable_plugin)
    for name in names:
        plugins.mutations[name]  # report an unknown name before TensorFlow is imported
    if save is not None:
        from tfsm.render.video import check_film_path

        check_film_path(save)

    with show_steps("replay", quiet=options.quiet) as update:
        import_tensorflow()
        from tfsm.render.replay import draw_populations, replay_champion

        if population:
            update(0, None, "drawing populations")
            picture = draw_populations(plugins, directory, run=run)
        else:
            update(0, None, "running the champion")
            result = replay_champion(
                plugins,
                directory,
                run=run,
                mutants=mutants,
                mutations=names,
                intensity=intensity,
                seed=seed,
                config=options.config,
                trust=options.trust_model,
            )
    if population:
        _show_picture(picture, save, str(directory))
        return
    if options.json:
        print_json(_summarize(result))
    elif result.mutants:
        _print_mutants(result)
    _show_film(result, save, f"{directory}, run {result.run}", quiet=options.quiet)


def _show_film(result: ChampionReplay, save: Path | None, title: str, *, quiet: bool) -> None:
    if save is None:
        from tfsm.render.video import show_film

        show_film(result.film, title)
        return
    from tfsm.render.video import save_film

    with show_steps("drawing", quiet=quiet) as update:
        save_film(result.film, save, progress=lambda done, total: update(done, total, ""))
    print_message(f"wrote {save}")


def _show_picture(picture: np.ndarray, save: Path | None, title: str) -> None:
    from tfsm.render.video import save_picture, show_picture

    if save is None:
        show_picture(picture, title)
        return
    save_picture(picture, save)
    print_message(f"wrote {save}")


def _summarize(result: ChampionReplay) -> dict[str, object]:
    return {
        "run": result.run,
        "mutants": [
            {
                "mutation": group.mutation,
                "intensity": group.intensity,
                "count": len(group.fitness),
                "solved": int(group.solved.sum()),
                "champion_fitness": group.champion_fitness,
                "fitness": [float(fitness) for fitness in group.fitness],
            }
            for group in result.mutants
        ],
    }


def _print_mutants(result: ChampionReplay) -> None:
    import numpy as np
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("mutation", "intensity", "mutants", "solved", "median fitness", "champion fitness"):
        table.add_column(column)
    for group in result.mutants:
        table.add_row(
            group.mutation,
            f"{group.intensity:g}",
            str(len(group.fitness)),
            str(int(group.solved.sum())),
            f"{np.median(group.fitness):.4g}",
            f"{group.champion_fitness:.4g}",
        )
    make_console().print(table)
