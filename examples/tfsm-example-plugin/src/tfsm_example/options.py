"""The options of the parts, in a module that does not import TensorFlow."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc


@dataclass(frozen=True, kw_only=True)
class SparseNoiseOptions:
    """Options of the operator."""

    share: Annotated[float, Gt(0), Le(1), Doc("share of the weights that change")] = 0.1


@dataclass(frozen=True, kw_only=True)
class XorOptions:
    """Options of the domain."""

    units: Annotated[int, Ge(2), Doc("hidden units")] = 8


@dataclass(frozen=True, kw_only=True)
class RandomParentOptions:
    """The scheme has no options."""


@dataclass(frozen=True, kw_only=True)
class CsvOptions:
    """Options of the observer."""

    columns: Annotated[tuple[str, ...], Doc("metrics to write")] = ("run", "evaluations", "best_fitness")
