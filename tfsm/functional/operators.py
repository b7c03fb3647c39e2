"""The operator that a caller means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast, runtime_checkable

from tfsm.contracts import Mutation, Nest, Tensor
from tfsm.errors import TfsmError
from tfsm.experiments.parts import build_part
from tfsm.functional.recent import Recent
from tfsm.models.network import Network
from tfsm.options import validate
from tfsm.plugins import load_plugins


@runtime_checkable
class Measuring(Protocol):
    """An operator that measures a sensitivity."""

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard."""
        ...


def named(mutation: str, options: Mapping[str, Any]) -> Mutation:
    """Return an operator by its name and options."""
    entry = load_plugins().mutations[mutation].with_options()
    if entry.options is not None:
        options = validate(entry.options, options, where=f"mutation {mutation!r}:")
    return cast(Mutation, build_part(entry, dict(options)))


def as_operator(kept: Recent, mutation: str | Mutation, options: Mapping[str, Any]) -> Mutation:
    """Return an operator that can be found again: by its name and options, or the one that was handed over.

    Args:
        kept: operators that were asked for before.
        mutation: a name or an operator.
        options: those of an operator by name.
    """
    if isinstance(mutation, str):
        operator: Mutation = kept.get(f"{mutation} {sorted(options.items())}", lambda: named(mutation, options))
    else:
        operator = _ready_made(mutation, options)
    try:
        hash(operator)
    except TypeError:
        raise TfsmError(
            f"the operator {type(operator).__name__} is not hashable, so that what was compiled for it could not be "
            "found again: make it a frozen dataclass"
        ) from None
    return operator


def _ready_made(mutation: Any, options: Mapping[str, Any]) -> Mutation:
    if not callable(mutation) or isinstance(mutation, type):
        raise TfsmError(f"mutation: expected an operator's name, or an operator, got {mutation!r}")
    if options:
        names = ", ".join(options)
        raise TfsmError(f"{names}: options go with an operator's name; one that is ready made has its own")
    return cast(Mutation, mutation)


def measuring(operator: Mutation, mutation: str | Mutation) -> Measuring:
    """Return the operator as one that measures a sensitivity, or say that it does not.

    Args:
        operator: the operator.
        mutation: what the caller calls it.
    """
    if not isinstance(operator, Measuring):
        raise TfsmError(f"the mutation {mutation!r} measures no sensitivity: use sm-g-sum, sm-g-abs or sm-g-so")
    return operator
