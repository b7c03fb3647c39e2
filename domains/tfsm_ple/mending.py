"""What ple expects of NumPy and pygame and today's versions no longer do, put right while its games run.

ple's files stay as they are, and so do NumPy and pygame: only the names that ple's own modules have for them mean
something else for the time being.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

ALIASES: Final[dict[str, type]] = {"int": int, "float": float, "bool": bool, "complex": complex, "object": object}
"""Names that NumPy had for Python's types."""


class Mend(NamedTuple):
    """A name in a module, and what it has to mean."""

    module: ModuleType
    name: str
    instead: Any


def mends(modules: Iterable[ModuleType], pygame: Any) -> tuple[Mend, ...]:
    """Find the names to put right in modules; none where NumPy and pygame still do what is expected of them."""
    instead: dict[int, Any] = {}
    if missing := missing_aliases():
        instead[id(np)] = _twin(np, **missing)
    if refuses_arrays(pygame):
        line = _patient(pygame.draw.line)
        draw = _twin(pygame.draw, line=line)
        instead |= {id(pygame): _twin(pygame, draw=draw), id(pygame.draw): draw, id(pygame.draw.line): line}
    return tuple(
        Mend(module, name, instead[id(value)])
        for module in modules
        for name, value in vars(module).items()
        if id(value) in instead
    )


@contextmanager
def mended(found: Iterable[Mend]) -> Iterator[None]:
    """Put names right, and everything back afterwards."""
    before = [(mend, vars(mend.module)[mend.name]) for mend in found]
    try:
        for mend, _ in before:
            setattr(mend.module, mend.name, mend.instead)
        yield
    finally:
        for mend, value in before:
            setattr(mend.module, mend.name, value)


def missing_aliases() -> dict[str, type]:
    """Return the names for Python's types that this NumPy lacks."""
    # Asked by attribute, some versions warn.
    return {name: kind for name, kind in ALIASES.items() if name not in vars(np)}


def refuses_arrays(pygame: Any) -> bool:
    """Say whether this pygame refuses to draw a line to where a coordinate is an array of one number."""
    one = np.zeros(1, int)
    try:
        pygame.draw.line(pygame.Surface((1, 1)), (0, 0, 0), (0, one), (0, one))
    except (TypeError, DeprecationWarning):
        return True
    return False


def _twin(module: Any, **other: Any) -> ModuleType:
    twin = ModuleType(module.__name__)
    twin.__dict__.update(vars(module))
    twin.__dict__.update(other)
    # What a module makes only when it is asked for.
    twin.__dict__["__getattr__"] = lambda name: getattr(module, name)
    return twin


def _patient(line: Any) -> Any:
    def patient(surface: Any, color: Any, start: Any, end: Any, *rest: Any, **named: Any) -> Any:
        return line(surface, color, _plain(start), _plain(end), *rest, **named)

    return patient


def _plain(point: Any) -> tuple[Any, Any]:
    x, y = point
    return x.item() if isinstance(x, np.ndarray) else x, y.item() if isinstance(y, np.ndarray) else y
