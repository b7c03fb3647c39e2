"""Any installed Gymnasium environment as a domain: options and registration, without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class GymOptions:
    """Options of the Gymnasium domain, for every environment."""

    env: Annotated[str, Doc("environment, as passed to gymnasium.make: CartPole-v1, or module:Env-v0")]
    env_options: Annotated[str, Doc('keyword arguments for gymnasium.make, as JSON: {"map_name": "8x8"}')] = "{}"
    episodes: Annotated[int, Ge(1), Doc("episodes per evaluation")] = 5
    aggregate: Annotated[
        Literal["mean", "median", "min"], Doc("statistic of the episodes' returns that is the fitness")
    ] = "mean"
    seeds: Annotated[
        Literal["fresh", "same"], Doc("fresh: new episodes for every evaluation; same: the same episodes for all")
    ] = "fresh"
    steps: Annotated[
        int | None, Ge(1), Doc("maximum steps per episode; none: the environment's own limit, or 10,000 if it has none")
    ] = None
    hold: Annotated[int, Ge(1), Doc("steps per action")] = 1
    text: Annotated[Literal["drop", "words"], Doc("text in observations: drop it, or count its words in 64 bins")] = (
        "drop"
    )
    flatten: Annotated[bool, Doc("treat images as plain numbers, so that observations are one vector")] = False
    grayscale: Annotated[bool, Doc("convert images to gray levels")] = False
    resize: Annotated[int | None, Ge(1), Doc("side of the square that images are resized to; needs OpenCV")] = None
    stack: Annotated[int, Ge(1), Doc("latest observations that are seen together")] = 1
    frame_skip: Annotated[
        int, Ge(1), Doc("steps per action, of which the maximum of the last two images is seen, as in Atari games")
    ] = 1
    sticky: Annotated[
        float | None, Ge(0), Le(1), Doc("probability that the previous action is repeated; none: as the environment is")
    ] = None
    clip_reward: Annotated[float | None, Gt(0), Doc("bound of each step's reward; none: not bounded")] = None
    threshold: Annotated[
        float | None, Doc("fitness that counts as solved; none: the environment's reward threshold, if it has one")
    ] = None
    confirm: Annotated[
        int,
        Ge(0),
        Doc("extra episodes, 20 at a time, to confirm a genome that reaches the threshold; 0: no confirmation"),
    ] = 100
    normalize: Annotated[
        Literal["none", "bounds", "sampled", "running"],
        Doc(
            "bounds: scale observations to [-1, 1]; sampled: standardize by mean and deviation under random actions; "
            "running: begin with these, and follow what the ancestors of an individual saw"
        ),
    ] = "none"
    normalize_samples: Annotated[
        int, Ge(1), Doc("observations under random actions for normalize=sampled and running")
    ] = 2_000
    remembered: Annotated[int, Ge(1), Doc("observations kept as experience, over all episodes")] = 32
    policy: Annotated[
        Literal["default", "mlp", "lstm", "nature-cnn"],
        Doc("default: convolutions for images, then hidden layers; mlp: hidden layers only; nature-cnn: DQN's network"),
    ] = "default"
    recurrent: Annotated[
        Literal["none", "simple-rnn", "gru", "lstm"], Doc("recurrent layer in place of the last hidden layer")
    ] = "none"
    layers: Annotated[int, Ge(1), Doc("hidden layers, after two convolutions for images")] = 2
    units: Annotated[int, Ge(1), Doc("units per hidden layer")] = 16
    vector: Annotated[
        Literal["sync", "async"], Doc("sync: all environments in this process; async: one process per core")
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
