"""The built-in observers: their options and registration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class TensorBoardOptions:
    """Options of TensorBoard."""

    histograms: Annotated[bool, Doc("draw the champion's weights and a parent's sensitivities, layer by layer")] = True
    directory: Annotated[str | None, Doc("where to write; none: tensorboard/ in the run directory")] = None


tfsm_hooks = 2


@hookimpl
def tfsm_register_observers(registry: Registry) -> None:
    """Register the observers by name."""
    registry.add(
        "tensorboard",
        "tfsm_plugins.observers.tensorboard:TensorBoard",
        description="metrics, and histograms of weights and sensitivities, for TensorBoard",
        options=TensorBoardOptions,
    )
