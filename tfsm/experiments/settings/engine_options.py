"""How the engine does its work: these settings change the speed of a run, and at most how its numbers are rounded."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt
from typing_extensions import Doc


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options of the engine: the keys of `[engine]`."""

    compile: Annotated[
        Literal["auto", "xla", "graph"], Doc("how the loop is compiled; auto: by the network's layers")
    ] = "auto"
    memory: Annotated[float, Gt(0), Doc("GiB that the engine may plan with")] = 4.0
    width: Annotated[int | None, Ge(1), Doc("runs evolved in lock step; none: as many as memory allows")] = None
    reuse: Annotated[bool, Doc("keep sensitivities for a parent's next child, where memory allows")] = True


ENGINE_KEYS: Final = tuple(field.name for field in fields(EngineOptions))
