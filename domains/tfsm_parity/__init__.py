"""Recurrent parity: a network reads bits one at a time and says whether the ones are odd in number."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.registry import Registry
from tfsm_parity.options import ParityOptions

tfsm_hooks = 1


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the domain by name."""
    registry.add(
        "parity",
        "tfsm_parity.parity:Parity",
        description="classify the parity of bit sequences with a recurrent network",
        options=ParityOptions,
    )
