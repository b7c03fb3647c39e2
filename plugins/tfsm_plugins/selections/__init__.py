"""The paper's two selection schemes and some beyond it, registered as a plugin like anybody's."""

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
        description="steady state: the best of a few breeds, the worst of a few leaves, the child always enters",
        options=options.TournamentOptions,
    )
    registry.add(
        "hill-climber",
        "tfsm_plugins.selections.steady_state:HillClimber",
        description="one champion, replaced only by a child that is better",
        options=options.HillClimberOptions,
    )
    registry.add(
        "truncation",
        "tfsm_plugins.selections.truncation:Truncation",
        description="generations: the best breed, all others leave, and the very best stay",
        options=options.TruncationOptions,
    )
    registry.add(
        "novelty",
        "tfsm_plugins.selections.novelty:Novelty",
        description="whoever does what nobody else does breeds, whatever it is worth",
        options=options.NoveltyOptions,
    )
    registry.add(
        "map-elites",
        "tfsm_plugins.selections.map_elites:MapElites",
        description="the best of every kind of behavior is kept, and anybody of them breeds",
        options=options.MapElitesOptions,
    )
    registry.add(
        "lexicase",
        "tfsm_plugins.selections.lexicase:Lexicase",
        description="whoever is best in one case after the other, in random order, breeds",
        options=options.LexicaseOptions,
    )
    registry.add(
        "random",
        "tfsm_plugins.selections.steady_state:RandomSelection",
        description="drift: anybody breeds, anybody leaves; what mutation does without selection",
        options=options.RandomOptions,
    )
