"""JSON: turn any value into JSON data, and write and read JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from tfsm.errors import TfsmError
from tfsm.utils.atomic import write_text


def to_json(value: object) -> Any:
    """Return a value as JSON data: numbers that are not finite become null, and unknown objects text.

    Dataclasses and mappings become objects, sequences, sets and arrays become lists, and NumPy's scalars numbers.

    >>> to_json({"share": float("nan"), 2: (1.5, True, None), "file": Path("a/b")})
    {'share': None, '2': [1.5, True, None], 'file': 'a/b'}
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if callable(to_list := getattr(value, "tolist", None)):  # NumPy, which is not imported here
        return to_json(to_list())
    return str(value)


def write_json(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record to a file, atomically."""
    write_text(file, json.dumps(to_json(record), indent=2) + "\n")


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise a `TfsmError` if there is none."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise TfsmError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise TfsmError(f"{file}: not valid JSON: {error}") from None
    if not isinstance(record, dict):
        raise TfsmError(f"{file}: expected an object, got {type(record).__name__}")
    return record
