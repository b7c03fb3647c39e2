"""The plugin of the built-in selection schemes: the paper's two, and others."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.plugins.registry import Registry
from tfsm_plugins.selections import options

tfsm_hooks = 2


@hookimpl
def tfsm_register_selections(registry: Registry) -> None:
    """Register the schemes by name."""
    registry.add(
        "tournament",
        "tfsm_plugins.selections.steady_state:Tournament",
        description="steady state: tournaments select the parent and the individual that the child replaces",
        options=options.TournamentOptions,
    )
    registry.add(
        "hill-climber",
        "tfsm_plugins.selections.steady_state:HillClimber",
        description="a single champion, replaced only by a better child",
        options=options.HillClimberOptions,
    )
    registry.add(
        "truncation",
        "tfsm_plugins.selections.truncation:Truncation",
        description="generational: the best individuals are the parents of the next generation, with elitism",
        options=options.TruncationOptions,
    )
    registry.add(
        "novelty",
        "tfsm_plugins.selections.novelty:Novelty",
        description="novelty search: selects for novel behavior instead of fitness",
        options=options.NoveltyOptions,
    )
    registry.add(
        "map-elites",
        "tfsm_plugins.selections.map_elites:MapElites",
        description="quality diversity: an archive of the best individual per cell of behavior space",
        options=options.MapElitesOptions,
    )
    registry.add(
        "lexicase",
        "tfsm_plugins.selections.lexicase:Lexicase",
        description="selects the parent case by case, in random order, which favors specialists",
        options=options.LexicaseOptions,
    )
    registry.add(
        "random",
        "tfsm_plugins.selections.steady_state:RandomSelection",
        description="genetic drift: parent and replaced individual are random; a baseline without selection",
        options=options.RandomOptions,
    )
