"""The paper's two selection schemes, registered as a plugin like anybody's."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.registry import Registry
from tfsm_selections.options import HillClimberOptions, TournamentOptions


@hookimpl
def tfsm_register_selections(registry: Registry) -> None:
    """Register the schemes by name."""
    registry.add(
        "tournament",
        "tfsm_selections.tournament:Tournament",
        description="steady state: the best of a few breeds, the worst of a few leaves, the child always enters",
        options=TournamentOptions,
    )
    registry.add(
        "hill-climber",
        "tfsm_selections.hill_climber:HillClimber",
        description="one champion, replaced only by a child that is better",
        options=HillClimberOptions,
    )
