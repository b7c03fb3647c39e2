"""The hard maze's options, apart from the domain so that listing them imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from typing_extensions import Doc


@dataclass(frozen=True, kw_only=True)
class HardMazeOptions:
    """Options of the hard maze, whatever its network."""

    maze: Annotated[str | None, Doc("a maze file of your own; none: the paper's maze")] = None
    hold: Annotated[int, Ge(1), Doc("steps that each action is held for")] = 3
    remembered: Annotated[int, Ge(1), Doc("sensor readings kept of a roll-out for the operators to look at")] = 100
