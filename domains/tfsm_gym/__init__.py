"""Environments of Gymnasium, whichever is installed, as one domain."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.registry import Registry
from tfsm_gym.options import GymOptions

tfsm_hooks = 1


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the domain by name."""
    registry.add(
        "gym",
        "tfsm_gym.domain:Gym",
        description="act in an environment of Gymnasium: --set env=CartPole-v1",
        options=GymOptions,
    )
