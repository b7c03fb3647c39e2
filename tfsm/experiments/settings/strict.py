"""TOML has types, so text that reads like a number is not one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from tfsm.errors import TfsmError
from tfsm.hints import expected
from tfsm.options import validate


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a part that registered none."""


def option_names(options: type | None) -> tuple[str, ...]:
    """Return the names of a part's options."""
    return tuple(field.name for field in fields(options) if field.init) if options is not None else ()


def problems_in(options: type, values: Mapping[str, Any], where: str) -> Iterator[str]:
    """Say what is wrong with a table's values, each against the field of its name.

    Text may still stand for none, which TOML has no word for.
    """
    try:
        converted = validate(options, values, where=where)
    except TfsmError as error:
        if len(values) == 1:
            yield str(error)
            return
        for key, value in values.items():
            yield from problems_in(options, {key: value}, where)
        return
    for key, value in values.items():
        if isinstance(value, str) and isinstance(converted[key], bool | int | float | list | tuple):
            wanted = expected(get_type_hints(options, include_extras=True)[key])
            yield f'{where} {key}="{value}": expected {wanted}, without quotes'
