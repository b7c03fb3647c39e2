"""The plugin of the built-in selection schemes: the paper's two, and others. Their names and options.

The schemes are in modules of their own, so that listing them and their options imports no TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry

tfsm_hooks = 2


@dataclass(frozen=True, kw_only=True)
class TournamentOptions:
    """Options of the tournament."""

    size: Annotated[int, Ge(1), Doc("individuals per tournament, drawn without replacement")] = 5
    removal: Annotated[
        Literal["fresh", "same", "same-later"],
        Doc(
            "replaced individual: the worst of a fresh tournament, or of the same one that selected the parent; "
            "same-later: the later of equals is both the best and the worst"
        ),
    ] = "fresh"


@dataclass(frozen=True, kw_only=True)
class HillClimberOptions:
    """The hill-climber has no options."""

    population: ClassVar[int] = 1
    """The only supported population size: one champion."""


@dataclass(frozen=True, kw_only=True)
class RandomOptions:
    """Random selection has no options."""


@dataclass(frozen=True, kw_only=True)
class TruncationOptions:
    """Options of truncation."""

    parents: Annotated[int, Ge(1), Doc("number of parents: the best of a generation")] = 20
    elites: Annotated[int, Ge(1), Doc("number of elites, which also belong to the next generation")] = 1


@dataclass(frozen=True, kw_only=True)
class NoveltyOptions:
    """Options of novelty search."""

    size: Annotated[int, Ge(1), Doc("individuals per novelty tournament, drawn without replacement")] = 5
    neighbors: Annotated[int, Ge(1), Doc("nearest neighbors: novelty is the mean distance to their behavior")] = 15
    archived: Annotated[float, Ge(0), Le(1), Doc("share of the children whose behavior is added to the archive")] = 0.02
    archive: Annotated[int, Ge(1), Doc("size of the archive; when it is full, new behaviors replace the oldest")] = 1000


@dataclass(frozen=True, kw_only=True)
class MapElitesOptions:
    """Options of MAP-Elites. The population size is the number of cells."""

    archive: Annotated[
        Literal["grid", "cvt"],
        Doc("cells: a regular grid, or a centroidal Voronoi tessellation for many dimensions"),
    ] = "grid"
    bounds: Annotated[
        str | None, Doc("comma-separated LOW:HIGH per dimension of the behavior; none: the domain's bounds")
    ] = None
    beginners: Annotated[int, Ge(1), Doc("size of the initial population")] = 100


@dataclass(frozen=True, kw_only=True)
class LexicaseOptions:
    """Options of lexicase selection."""

    epsilon: Annotated[
        float | None, Ge(0), Doc("tolerance below the best of a case; none: the median absolute deviation")
    ] = None
    size: Annotated[int, Ge(1), Doc("individuals per tournament, whose worst is replaced")] = 5


@hookimpl
def tfsm_register_selections(registry: Registry) -> None:
    """Register the schemes by name."""
    registry.add(
        "tournament",
        "tfsm_plugins.selections.steady_state:Tournament",
        description="steady state: tournaments select the parent and the individual that the child replaces",
        options=TournamentOptions,
    )
    registry.add(
        "hill-climber",
        "tfsm_plugins.selections.steady_state:HillClimber",
        description="a single champion, replaced only by a better child",
        options=HillClimberOptions,
    )
    registry.add(
        "truncation",
        "tfsm_plugins.selections.truncation:Truncation",
        description="generational: the best individuals are the parents of the next generation, with elitism",
        options=TruncationOptions,
    )
    registry.add(
        "novelty",
        "tfsm_plugins.selections.novelty:Novelty",
        description="novelty search: selects for novel behavior instead of fitness",
        options=NoveltyOptions,
    )
    registry.add(
        "map-elites",
        "tfsm_plugins.selections.map_elites:MapElites",
        description="quality diversity: an archive of the best individual per cell of behavior space",
        options=MapElitesOptions,
    )
    registry.add(
        "lexicase",
        "tfsm_plugins.selections.lexicase:Lexicase",
        description="selects the parent case by case, in random order, which favors specialists",
        options=LexicaseOptions,
    )
    registry.add(
        "random",
        "tfsm_plugins.selections.steady_state:RandomSelection",
        description="genetic drift: parent and replaced individual are random; a baseline without selection",
        options=RandomOptions,
    )
