"""Environments of Gymnasium, whichever is installed, as one domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class GymOptions:
    """Options of an environment, whichever it is."""

    env: Annotated[str, Doc("which environment, as gymnasium.make takes it: CartPole-v1, or module:Env-v0")]
    env_options: Annotated[str, Doc('keyword arguments for gymnasium.make, as JSON: {"map_name": "8x8"}')] = "{}"
    episodes: Annotated[int, Ge(1), Doc("episodes of an evaluation")] = 5
    aggregate: Annotated[Literal["mean", "median", "min"], Doc("what of the episodes' returns is the fitness")] = "mean"
    seeds: Annotated[
        Literal["fresh", "same"], Doc("fresh: every evaluation has episodes of its own; same: all have the same ones")
    ] = "fresh"
    steps: Annotated[
        int | None, Ge(1), Doc("most steps of an episode; none: the environment's own limit, or 10,000 if it has none")
    ] = None
    hold: Annotated[int, Ge(1), Doc("steps that each action is held for")] = 1
    threshold: Annotated[
        float | None, Doc("a fitness of so much is solved; none: the environment's reward threshold, if it has one")
    ] = None
    confirm: Annotated[
        int, Ge(0), Doc("more episodes for whoever reaches the threshold, 20 at a time: solved is who stays above it")
    ] = 100
    normalize: Annotated[
        Literal["none", "bounds", "sampled"],
        Doc("bounds: scale numbers to [-1, 1] by their bounds; sampled: by mean and deviation under random actions"),
    ] = "none"
    remembered: Annotated[int, Ge(1), Doc("observations kept of all episodes for the operators to look at")] = 32
    recurrent: Annotated[
        Literal["none", "simple-rnn", "gru", "lstm"], Doc("the last hidden layer, if it shall remember earlier steps")
    ] = "none"
    layers: Annotated[int, Ge(1), Doc("hidden layers, behind two convolutions where pictures are seen")] = 2
    units: Annotated[int, Ge(1), Doc("units in each hidden layer")] = 16
    vector: Annotated[
        Literal["sync", "async"], Doc("sync: all environments in this process; async: in as many as there are cores")
    ] = "sync"


tfsm_hooks = 2


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the domain by name."""
    registry.add(
        "gym",
        "tfsm_domains.gym.domain:Gym",
        description="act in an environment of Gymnasium: --set env=CartPole-v1",
        options=GymOptions,
    )
