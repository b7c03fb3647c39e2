"""Tasks that are data or a function: options and registration, without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """Options of the domain for data."""

    data: Annotated[str, Doc("the data: a .npz file with arrays x and y, or a .csv file whose last column is y")]
    validation: Annotated[
        str | None,
        Doc("validation data: another file, or the share of the data to hold out; none: x_validation, y_validation"),
    ] = None
    loss: Annotated[
        str | None,
        Doc("Keras loss; none: sparse_categorical_crossentropy for integer labels, otherwise mean_squared_error"),
    ] = None
    metric: Annotated[str | None, Doc("Keras metric that is the fitness instead of a loss, such as accuracy")] = None
    logits: Annotated[bool, Doc("the network returns logits, and the loss applies softmax or sigmoid")] = False
    batch: Annotated[int | None, Ge(1), Doc("examples per evaluation, drawn at random; none: all of them")] = None
    target: Annotated[float | None, Doc("loss or metric that counts as solved; none: never solved")] = None
    remembered: Annotated[int, Ge(1), Doc("examples kept as experience")] = 64
    layers: Annotated[int, Ge(1), Doc("hidden layers of the default network")] = 2
    units: Annotated[int, Ge(1), Doc("units per hidden layer of the default network")] = 32


@dataclass(frozen=True, kw_only=True)
class FitnessOptions:
    """Options of the domain for a fitness function."""

    function: Annotated[str, Doc("the fitness function, package.module:function, from a model to a number")]
    batched: Annotated[bool, Doc("the function takes a batch of networks and returns one number for each")] = False
    target: Annotated[float | None, Doc("fitness that counts as solved; none: never solved")] = None
    remembered: Annotated[int, Ge(1), Doc("inputs kept as experience, of those that the function gave the model")] = 32


tfsm_hooks = 2


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register both domains by name."""
    registry.add(
        "dataset",
        "tfsm_domains.dataset.domain:Dataset",
        description="fit arrays by a Keras loss or metric: --set data=FILE.npz",
        options=DatasetOptions,
    )
    registry.add(
        "fitness",
        "tfsm_domains.dataset.fitness_function:FitnessFunction",
        description="maximize a function of your own: --set function=package.module:function --model ...",
        options=FitnessOptions,
    )
