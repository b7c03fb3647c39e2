"""Breadcrumb Hard Maze: a wheeled robot with rangefinders finds its way, steered by deep networks of several sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class HardMazeOptions:
    """Options of the hard maze, whatever its network."""

    maze: Annotated[str | None, Doc("a maze file of your own; none: the paper's maze")] = None
    hold: Annotated[int, Ge(1), Doc("steps that each action is held for")] = 3
    remembered: Annotated[int, Ge(1), Doc("sensor readings kept of a roll-out for the operators to look at")] = 100


tfsm_hooks = 2


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the task with each of the paper's networks."""
    described = {
        "hard-maze": ("HardMaze", "steer a robot through a maze with 17 SELU layers of 8 units"),
        "hard-maze-32": ("HardMaze32", "the same with 33 residual tanh layers of 125 units, half a million weights"),
        "hard-maze-64": ("HardMaze64", "the same with 65 residual tanh layers of 125 units, a million weights"),
        "hard-maze-101": ("HardMaze101", "the same with 102 residual tanh layers of 48 units"),
    }
    for name, (attribute, description) in described.items():
        registry.add(
            name, f"tfsm_domains.hard_maze.domain:{attribute}", description=description, options=HardMazeOptions
        )
