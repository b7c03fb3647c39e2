"""Breadcrumb Hard Maze: deep networks of several sizes steer a wheeled robot with rangefinders through a maze."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class HardMazeOptions:
    """Options of the hard maze, for every network."""

    maze: Annotated[str | None, Doc("path of a maze file; none: the paper's maze")] = None
    hold: Annotated[int, Ge(1), Doc("steps per action")] = 3
    remembered: Annotated[int, Ge(1), Doc("sensor readings per roll-out kept as experience")] = 100


tfsm_hooks = 2


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the task with each of the paper's networks."""
    networks = {
        "hard-maze": ("HardMaze", "steer a robot through a maze with 17 SELU layers of 8 units"),
        "hard-maze-32": ("HardMaze32", "the same with 33 residual tanh layers of 125 units, half a million weights"),
        "hard-maze-64": ("HardMaze64", "the same with 65 residual tanh layers of 125 units, a million weights"),
        "hard-maze-101": ("HardMaze101", "the same with 102 residual tanh layers of 48 units"),
    }
    for name, (attribute, description) in networks.items():
        registry.add(
            name,
            f"tfsm_domains.hard_maze.domain:{attribute}",
            description=description,
            options=HardMazeOptions,
            threads=1 if name == "hard-maze" else None,
        )
