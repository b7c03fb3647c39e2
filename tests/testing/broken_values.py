"""Parts whose options or fields are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge
from typing_extensions import Doc

from tests.testing.parts import SizeOptions
from tfsm.testing.check_runs import StubMutation


class NoCall:
    """Has no method."""


@dataclass(frozen=True, kw_only=True)
class Nameless(StubMutation):
    pass


@dataclass(frozen=True, kw_only=True)
class OtherDefault(StubMutation):
    """Has another default than the registered one."""

    size: int = 4


@dataclass(frozen=True, kw_only=True)
class Fussy(StubMutation):
    """Raises for a size that its type allows."""

    size: Annotated[int, Doc("how many")] = 3

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("size must be positive")


@dataclass(frozen=True, kw_only=True)
class Vague(StubMutation):
    """Has an option of any type."""

    size: Annotated[Any, Doc("something")] = 3


@dataclass(frozen=True, kw_only=True)
class Contradicting(StubMutation):
    """Has a default that it would refuse."""

    size: Annotated[int, Ge(1), Doc("how many")] = 0


@dataclass(frozen=True, kw_only=True)
class UnexplainedOptions:
    """Options without a word."""

    size: int = 3


@dataclass(frozen=True, kw_only=True)
class Unexplained(UnexplainedOptions, StubMutation):
    """Has an option that is not explained."""


@dataclass(kw_only=True)
class Changing:
    """Can be changed."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent


@dataclass(frozen=True, kw_only=True)
class Unhashable(StubMutation):
    """Has a list."""

    sizes: Any = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", [1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Unequal(StubMutation):
    """Is equal to itself only."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


@dataclass(frozen=True, kw_only=True)
class Forgetful(SizeOptions, StubMutation):
    """Loses its options when it is pickled."""

    def __reduce__(self) -> Any:
        return Forgetful, ()


@dataclass(frozen=True, kw_only=True)
class Stuck(StubMutation):
    """Cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'window' object")
