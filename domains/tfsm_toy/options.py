"""The simple model's options, apart from the domain so that listing them imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt
from typing_extensions import Doc


@dataclass(frozen=True, kw_only=True)
class SimpleOptions:
    """Options of all three tasks."""

    tolerance: Annotated[float, Gt(0), Doc("squared error below which a task counts as solved")] = 1e-3
