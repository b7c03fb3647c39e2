"""Registration, options (no TF)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class PleOptions:
    """Options of a game, whichever it is."""

    game: Annotated[str, Doc("which game: a class of ple.games, such as Catcher, Pong or FlappyBird")] = "Catcher"
    observation: Annotated[
        Literal["state", "pixels"], Doc("state: the numbers that the game says of itself; pixels: its screen in grey")
    ] = "state"
    scaled: Annotated[bool, Doc("divide the numbers of a state by the longer side of the screen")] = True
    slots: Annotated[
        int, Ge(1), Doc("numbers kept of each list in a state: longer ones are cut, shorter ones filled with -1")
    ] = 8
    side: Annotated[int, Ge(20), Doc("pixels of each side of the screen as the network sees it")] = 64
    frames: Annotated[int, Ge(1), Doc("most frames of an episode")] = 1000
    hold: Annotated[int, Ge(1), Doc("frames that each action is held for")] = 4
    episodes: Annotated[int, Ge(1), Doc("episodes played; fitness is the mean of their scores")] = 1
    remembered: Annotated[int, Ge(1), Doc("inputs kept of all episodes for the operators to look at")] = 32
    layers: Annotated[int, Ge(1), Doc("hidden tanh layers, behind two convolutions where pixels are seen")] = 2
    units: Annotated[int, Ge(1), Doc("units in each hidden layer")] = 16
    threshold: Annotated[float | None, Doc("a mean score of so much is solved; none: nothing is")] = None


tfsm_hooks = 2


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the domain by name."""
    registry.add(
        "ple",
        "tfsm_domains.ple.domain:Ple",
        description="play a game of the PyGame Learning Environment, which is installed from its source",
        options=PleOptions,
    )
