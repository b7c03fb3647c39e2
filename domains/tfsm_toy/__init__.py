"""The supplement's simple, badly conditioned model and its three tasks, registered as a plugin like anybody's."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.registry import Registry
from tfsm_toy.options import SimpleOptions

tfsm_hooks = 1


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the three tasks by name."""
    registry.add(
        "simple-easy",
        "tfsm_toy.simple:SimpleEasy",
        description="two weights, of which only the insensitive one matters",
        options=SimpleOptions,
    )
    registry.add(
        "simple-medium",
        "tfsm_toy.simple:SimpleMedium",
        description="two weights, one 1,000 times as sensitive as the other, both to be tuned",
        options=SimpleOptions,
    )
    registry.add(
        "simple-washout",
        "tfsm_toy.simple:SimpleWashout",
        description="like simple-medium, with two experiences whose gradients cancel",
        options=SimpleOptions,
    )
