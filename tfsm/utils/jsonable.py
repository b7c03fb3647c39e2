"""Conversion to JSON data, for everything that is printed or saved as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def to_json(value: object) -> Any:
    """Return a value as JSON data.

    Dataclasses become objects, sets and arrays become lists, numbers that JSON lacks become null, and values of other
    types become strings. Arrays are recognized by their `tolist` method, so NumPy is not imported here.

    >>> to_json({1: (2.5, float("nan"), None), "path": {True}})
    {'1': [2.5, None, None], 'path': [True]}
    """
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    tolist = getattr(value, "tolist", None)
    return str(value) if tolist is None else to_json(tolist())
