"""TOML, written: Python only reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time
from typing import Any, Final

from hypothesis import strategies as st

ENDLESS: Final = st.just(5000).map(lambda digits: 16**digits)
"""A number that Python reads from hexadecimal digits, and refuses to write."""


def to_toml(table: Mapping[str, Any]) -> str:
    """Write a table."""
    return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in table.items() if value is not None)


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case date() | time():  # a datetime is a date
            return value.isoformat()
        case Mapping():
            pairs = (f"{_text(key)} = {_value(item)}" for key, item in value.items() if item is not None)
            return "{" + ", ".join(pairs) + "}"
        case list():
            return "[" + ", ".join(_value(item) for item in value if item is not None) + "]"
        case str():
            return _text(value)
    # Python refuses to write thousands of decimal digits.
    return hex(value) if isinstance(value, int) and value > 10**30 else repr(value)


def _text(text: object) -> str:
    # A lone surrogate is no character, and DEL has to be escaped.
    shown = json.dumps(str(text).encode("utf-8", "replace").decode(), ensure_ascii=False)
    return shown.replace("\x7f", "\\u007f")
