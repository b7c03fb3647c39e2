"""The selection schemes' options, apart from the schemes so that listing them imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge
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
