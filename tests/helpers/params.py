"""Parameters of tests of which only a sample runs by default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thin(values: Iterable[Any], every: int) -> list[Any]:
    """Return all values, and mark all but every n-th one, counted from the first, as slow.

    >>> [bool(param.marks) for param in thin("abcde", 2)]
    [False, True, False, True, False]
    """
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=[pytest.mark.slow] if n % every else [])
        for n, value in enumerate(values)
    ]
