"""Games of the PyGame Learning Environment, played by what they say of their state or by their pixels."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.registry import Registry
from tfsm_ple.options import PleOptions

tfsm_hooks = 1


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the domain by name."""
    registry.add(
        "ple",
        "tfsm_ple.domain:Ple",
        description="play a game of the PyGame Learning Environment, which is installed from its source",
        options=PleOptions,
    )
