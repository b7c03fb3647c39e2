"""`tfsm replay`: look at what a run's champion does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.common import DisablePlugin, Trust, complete_parts, context, out, print_json
from tfsm.cli.config import Config
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    import numpy as np

    from tfsm.render.replay import ChampionReplay


def replay(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="A run directory, as `tfsm run` made it.")],
    run: Annotated[int | None, typer.Option(metavar="N", help="Which run.  [default: the best one]")] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a .gif or .mp4 animation, or a .png of the whole, and open no window."
        ),
    ] = None,
    mutants: Annotated[int, typer.Option(metavar="N", min=0, help="Show so many mutants of the champion too.")] = 0,
    mutation: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Who makes the mutants; several, with commas between, are shown side by side.  [default: the run's]",
            autocompletion=complete_parts("mutation"),
        ),
    ] = None,
    intensity: Annotated[
        float | None, typer.Option(metavar="X", help="The operators' intensity.  [default: as `tfsm run` has it]")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Decides the mutants.")] = 0,
    population: Annotated[
        bool, typer.Option("--population", help="Draw instead what the whole population did as evolution went on.")
    ] = False,
    trust_model: Trust = False,
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was seen as JSON.")] = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Show what a champion does, and what its mutants do, in a window or a file."""
    names = tuple(name.strip() for name in (mutation or "").split(",") if name.strip())
    if (names or intensity is not None) and not mutants:
        raise TfsmError("--mutation and --intensity are about mutants: say how many with --mutants N")
    if population and mutants:
        raise TfsmError("--population and --mutants show different things: give one of them")
    plugins = context(ctx, disable_plugin).plugins()
    for name in names:
        plugins.mutations[name]  # an unknown name is cheaper to find before TensorFlow is imported
    if save is not None:
        from tfsm.render.video import check_film_path

        check_film_path(save)

    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    from tfsm.render import replay as past

    title = f"{directory}"
    if population:
        _show_picture(past.draw_populations(plugins, directory, run=run), save, title)
        return
    found = past.replay(
        plugins,
        directory,
        run=run,
        mutants=mutants,
        mutations=names,
        intensity=intensity,
        seed=seed,
        config=config,
        trust=trust_model,
    )
    if json:
        print_json(_summary(found))
    else:
        _print(found)
    _show(found, save, f"{title}, run {found.run}")


def _show(found: ChampionReplay, save: Path | None, title: str) -> None:
    if save is None:
        from tfsm.render.video import show_film

        show_film(found.film, title)
        return
    from tfsm.render.video import save_film

    with _Drawing() as drawing:
        save_film(found.film, save, progress=drawing.told)
    print(f"wrote {save}", file=sys.stderr)


def _show_picture(picture: np.ndarray, save: Path | None, title: str) -> None:
    from tfsm.render.video import save_picture, show_picture

    if save is None:
        show_picture(picture, title)
        return
    save_picture(picture, save)
    print(f"wrote {save}", file=sys.stderr)


class _Drawing:
    """A progress bar over frames, where somebody watches."""

    def __enter__(self) -> _Drawing:
        from rich.console import Console
        from rich.progress import Progress

        self._bar = Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("drawing", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def told(self) -> Callable[[int, int], None]:
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)


def _summary(found: ChampionReplay) -> dict[str, object]:
    return {
        "run": found.run,
        "mutants": [
            {
                "mutation": group.mutation,
                "intensity": group.intensity,
                "count": len(group.fitness),
                "solved": int(group.solved.sum()),
                "champion_fitness": group.champion_fitness,
                "fitness": [float(fitness) for fitness in group.fitness],
            }
            for group in found.mutants
        ],
    }


def _print(found: ChampionReplay) -> None:
    if not found.mutants:
        return
    import numpy as np
    from rich.table import Table

    table = Table("mutation", "intensity", "mutants", "solve", "median fitness", "champion's", box=None, pad_edge=False)
    for group in found.mutants:
        table.add_row(
            group.mutation,
            f"{group.intensity:g}",
            str(len(group.fitness)),
            str(int(group.solved.sum())),
            f"{np.median(group.fitness):.4g}",
            f"{group.champion_fitness:.4g}",
        )
    out().print(table)
