"""Recurrent parity: a network reads bits one at a time and classifies whether the number of ones is odd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class ParityOptions:
    """Options of recurrent parity."""

    bits: Annotated[int, Ge(1), Le(12), Doc("length of the sequences; all 2^bits of them are used")] = 4
    outputs: Annotated[Literal[1, 2], Doc("2: softmax over even and odd; 1: a sigmoid for odd")] = 2
    units: Annotated[int, Ge(1), Doc("units per recurrent layer")] = 20
    layers: Annotated[int, Ge(1), Doc("recurrent layers")] = 2


tfsm_hooks = 2


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the domain by name."""
    registry.add(
        "parity",
        "tfsm_domains.parity.parity:Parity",
        description="classify the parity of bit sequences with a recurrent network",
        options=ParityOptions,
        threads=1,
    )
