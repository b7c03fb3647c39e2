"""The selection schemes' options, apart from the schemes so that listing them imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc


@dataclass(frozen=True, kw_only=True)
class TournamentOptions:
    """Options of the tournament."""

    size: Annotated[int, Ge(1), Doc("individuals drawn, without replacement, for one tournament")] = 5
    removal: Annotated[
        Literal["fresh", "same"],
        Doc("who leaves: the worst of a fresh tournament, or of the one that chose the parent"),
    ] = "fresh"


@dataclass(frozen=True, kw_only=True)
class HillClimberOptions:
    """The hill-climber has none."""

    population: ClassVar[int] = 1
    """The only population it works with: one champion."""


@dataclass(frozen=True, kw_only=True)
class RandomOptions:
    """Drift has none."""


@dataclass(frozen=True, kw_only=True)
class TruncationOptions:
    """Options of truncation."""

    parents: Annotated[int, Ge(1), Doc("the best so many of a generation breed")] = 20
    elites: Annotated[int, Ge(1), Doc("the best so many of a generation belong to the next one too")] = 1


@dataclass(frozen=True, kw_only=True)
class NoveltyOptions:
    """Options of novelty search."""

    size: Annotated[int, Ge(1), Doc("individuals drawn, without replacement, for one tournament of novelty")] = 5
    neighbors: Annotated[int, Ge(1), Doc("novelty is the mean distance to so many nearest behaviors")] = 15
    archived: Annotated[float, Ge(0), Le(1), Doc("share of the children whose behavior is kept for ever")] = 0.02
    archive: Annotated[int, Ge(1), Doc("most behaviors kept; then new ones take the place of the oldest")] = 1000


@dataclass(frozen=True, kw_only=True)
class MapElitesOptions:
    """Options of MAP-Elites; the population is the number of cells."""

    archive: Annotated[
        Literal["grid", "cvt"], Doc("cells: a regular grid, or those nearest to points spread evenly, for many numbers")
    ] = "grid"
    bounds: Annotated[
        str | None, Doc("LOW:HIGH of each number of the behavior, with commas between; none: what the domain says")
    ] = None
    beginners: Annotated[int, Ge(1), Doc("individuals drawn before the first child")] = 100


@dataclass(frozen=True, kw_only=True)
class LexicaseOptions:
    """Options of lexicase selection."""

    epsilon: Annotated[
        float | None, Ge(0), Doc("how far behind the best of a case still passes; none: the median absolute deviation")
    ] = None
    size: Annotated[int, Ge(1), Doc("individuals drawn for the tournament of fitness whose worst one leaves")] = 5
