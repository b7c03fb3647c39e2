"""The supplement's simple, badly conditioned model and its three tasks, registered like any third-party plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class SimpleOptions:
    """Options of all three tasks."""

    tolerance: Annotated[float, Gt(0), Doc("squared error below which the task is solved")] = 1e-3


tfsm_hooks = 2


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the three tasks by name."""
    registry.add(
        "simple-easy",
        "tfsm_domains.toy.simple:SimpleEasy",
        description="two weights; only the insensitive one matters",
        options=SimpleOptions,
        threads=1,
    )
    registry.add(
        "simple-medium",
        "tfsm_domains.toy.simple:SimpleMedium",
        description="two weights to tune, one 1,000 times as sensitive as the other",
        options=SimpleOptions,
        threads=1,
    )
    registry.add(
        "simple-washout",
        "tfsm_domains.toy.simple:SimpleWashout",
        description="like simple-medium, with two experiences whose gradients cancel",
        options=SimpleOptions,
        threads=1,
    )
