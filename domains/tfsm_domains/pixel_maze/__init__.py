"""Topdown Maze and First-person 3D Maze: deep recurrent networks follow a hidden path from raw pixels and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry

Kind = Literal["lstm", "convlstm"]
Scoring = Literal["touched", "progress"]
MazeName: TypeAlias = Annotated[
    str | None, Doc("path of a maze file, or a built-in maze: stairs, short or long; none: like long")
]


@dataclass(frozen=True, kw_only=True)
class PixelMazeOptions:
    """Options of both mazes."""

    maze: MazeName = "stairs"
    scoring: Annotated[
        Scoring,
        Doc("one point per square of the path; touched: in any order, progress: only in the order of the path"),
    ] = "touched"
    network: Annotated[
        Kind, Doc("lstm: the paper's convolutions and LSTM layers; convlstm: a stack of ConvLSTM2D layers")
    ] = "lstm"
    dual_bias: Annotated[bool, Doc("LSTM layers with two bias vectors, to match the paper's number of weights")] = False


@dataclass(frozen=True, kw_only=True)
class TopdownOptions(PixelMazeOptions):
    """Options of the topdown maze."""

    steps: Annotated[int, Ge(1), Doc("moves per episode")] = 40


@dataclass(frozen=True, kw_only=True)
class FirstPersonOptions(PixelMazeOptions):
    """Options of the first-person maze."""

    maze: MazeName = "short"
    frames: Annotated[int, Ge(1), Doc("frames per episode")] = 400
    hold: Annotated[int, Ge(1), Doc("frames per action")] = 4


tfsm_hooks = 2


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register both mazes."""
    registry.add(
        "topdown-maze",
        "tfsm_domains.pixel_maze.topdown:TopdownMaze",
        description="walk a hidden path, seeing the nine squares around as 64x64 pixels",
        options=TopdownOptions,
    )
    registry.add(
        "first-person-maze",
        "tfsm_domains.pixel_maze.first_person:FirstPersonMaze",
        description="walk a hidden path, seeing the maze in perspective as 64x64 pixels",
        options=FirstPersonOptions,
    )
