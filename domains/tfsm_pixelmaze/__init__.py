"""Topdown Maze and First-person 3D Maze: deep recurrent networks find a hidden path from raw pixels and memory."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.registry import Registry
from tfsm_pixelmaze.options import FirstPersonOptions, TopdownOptions

tfsm_hooks = 1


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register both mazes."""
    registry.add(
        "topdown-maze",
        "tfsm_pixelmaze.topdown:TopdownMaze",
        description="walk a hidden path, seeing the nine squares around as 64x64 pixels",
        options=TopdownOptions,
    )
    registry.add(
        "first-person-maze",
        "tfsm_pixelmaze.first_person:FirstPersonMaze",
        description="walk the same path, seeing the maze in perspective as 64x64 pixels",
        options=FirstPersonOptions,
    )
