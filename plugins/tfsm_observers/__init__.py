"""The built-in observers, registered as a plugin like anybody's."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.registry import Registry
from tfsm_observers.options import TensorBoardOptions

tfsm_hooks = 1


@hookimpl
def tfsm_register_observers(registry: Registry) -> None:
    """Register the observers by name."""
    registry.add(
        "tensorboard",
        "tfsm_observers.tensorboard:TensorBoard",
        description="metrics, and histograms of weights and sensitivities, for TensorBoard to show",
        options=TensorBoardOptions,
    )
