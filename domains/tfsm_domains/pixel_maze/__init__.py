"""Topdown Maze and First-person 3D Maze: deep recurrent networks find a hidden path from raw pixels and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry

Kind = Literal["lstm", "convlstm"]
Scoring = Literal["touched", "progress"]


@dataclass(frozen=True, kw_only=True)
class PixelMazeOptions:
    """What both mazes have."""

    maze: Annotated[str | None, Doc("a maze file of your own, or short: an easier maze; none: the default maze")] = None
    scoring: Annotated[
        Scoring,
        Doc("a point for each square of the path; touched: in whatever order, progress: only in the path's own"),
    ] = "touched"
    network: Annotated[
        Kind, Doc("lstm: the paper's convolutions and LSTM layers; convlstm: a stack of ConvLSTM2D layers")
    ] = "lstm"
    dual_bias: Annotated[bool, Doc("LSTM layers with two bias vectors, which gives the paper's numbers of weights")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class TopdownOptions(PixelMazeOptions):
    """Options of the topdown maze."""

    steps: Annotated[int, Ge(1), Doc("moves of an episode")] = 40


@dataclass(frozen=True, kw_only=True)
class FirstPersonOptions(PixelMazeOptions):
    """Options of the first-person maze."""

    frames: Annotated[int, Ge(1), Doc("frames of an episode")] = 400
    hold: Annotated[int, Ge(1), Doc("frames that each action is held for")] = 4


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
        description="walk the same path, seeing the maze in perspective as 64x64 pixels",
        options=FirstPersonOptions,
    )
