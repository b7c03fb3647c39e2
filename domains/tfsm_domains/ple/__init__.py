"""Games of the PyGame Learning Environment (PLE) as one domain: options and registration, without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class PleOptions:
    """Options of the PLE domain, for every game."""

    game: Annotated[str, Doc("game to play: a class of ple.games, such as Catcher, Pong or FlappyBird")] = "Catcher"
    observation: Annotated[
        Literal["state", "pixels"], Doc("state: the game's state as numbers; pixels: the screen in grayscale")
    ] = "state"
    scaled: Annotated[bool, Doc("divide the state's numbers by the longer side of the screen")] = True
    slots: Annotated[
        int, Ge(1), Doc("numbers kept per list in the state; longer lists are cut, shorter ones padded with -1")
    ] = 8
    side: Annotated[int, Ge(20), Doc("side of the screen that the network sees, in pixels")] = 64
    frames: Annotated[int, Ge(1), Doc("maximum frames per episode")] = 1000
    hold: Annotated[int, Ge(1), Doc("frames per action")] = 4
    episodes: Annotated[int, Ge(1), Doc("episodes per evaluation; fitness is their mean score")] = 1
    remembered: Annotated[int, Ge(1), Doc("observations kept as experience, over all episodes")] = 32
    layers: Annotated[int, Ge(1), Doc("hidden tanh layers, after two convolutions for pixels")] = 2
    units: Annotated[int, Ge(1), Doc("units per hidden layer")] = 16
    threshold: Annotated[float | None, Doc("mean score that counts as solved; none: never solved")] = None


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
