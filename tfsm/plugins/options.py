"""Describe and validate option dataclasses.

Describing them is cheap; checking values imports pydantic, and only then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt, MaxLen, MinLen, MultipleOf

from tfsm.errors import TfsmError, suggestion


def union_members(hint: Any) -> list[Any]:
    """Take `Annotated` and unions apart into plain types.

    >>> alternatives(Annotated[float | None, Gt(0)])
    [<class 'float'>, <class 'NoneType'>]
    """
    if get_origin(hint) is Annotated:
        return union_members(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [kind for member in get_args(hint) for kind in union_members(member)]
    return [hint]


def help_text(hint: Any) -> str:
    """Return what the hint's `Doc` says."""
    return next((str(item.documentation) for item in _metadata(hint) if hasattr(item, "documentation")), "")


def describe_type(hint: Any) -> str:
    """Name a type for a table.

    >>> type_name(Annotated[float | None, Gt(0)]), type_name(Literal["fresh", "same"]), type_name(bool)
    ('float or none', 'fresh|same', 'yes|no')
    """
    return " or ".join(_short(kind) for kind in union_members(hint))


def describe_constraints(hint: Any) -> str:
    """Say what a value must satisfy besides its type.

    >>> constraints(Annotated[float, Gt(0), Lt(1)])
    '> 0 and < 1'
    """
    return " and ".join(filter(None, map(_constraint, _metadata(hint))))


def expected(hint: Any) -> str:
    """Say what would have been right, to end a sentence with.

    >>> expected(Annotated[float | None, Gt(0)]), expected(Annotated[int, Ge(1)]), expected(Literal["fresh", "same"])
    ('a number > 0 or none', 'a whole number >= 1', 'fresh or same')
    """
    kinds = union_members(hint)
    words = " or ".join(_long(kind) for kind in kinds if kind is not NoneType)
    return " or ".join(
        filter(None, [f"{words} {describe_constraints(hint)}".strip(), "none" if NoneType in kinds else ""])
    )


def _metadata(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        yield from _metadata(inner)
        for item in metadata:
            yield from item if isinstance(item, GroupedMetadata) else (item,)
    elif get_origin(hint) in (Union, UnionType):
        for member in get_args(hint):
            yield from _metadata(member)


def _constraint(item: Any) -> str:
    match item:
        case Ge(ge=bound):
            return f">= {bound}"
        case Gt(gt=bound):
            return f"> {bound}"
        case Le(le=bound):
            return f"<= {bound}"
        case Lt(lt=bound):
            return f"< {bound}"
        case MinLen(min_length=length):
            return f"of length >= {length}"
        case MaxLen(max_length=length):
            return f"of length <= {length}"
        case MultipleOf(multiple_of=factor):
            return f"divisible by {factor}"
    return ""


def _items(kind: Any) -> str | None:
    """Name the items of a list-like type, or return None for any other."""
    if get_origin(kind) not in (list, tuple, set, frozenset):
        return None
    return " and ".join(dict.fromkeys(describe_type(item) for item in get_args(kind) if item is not Ellipsis))


def _short(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if items := _items(kind):
        return f"list of {items}"
    return {bool: "yes|no", NoneType: "none"}.get(kind) or getattr(kind, "__name__", str(kind)).lower()


def _long(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if items := _items(kind):
        return f"a list of {items}"
    words = {bool: "yes or no", int: "a whole number", float: "a number", str: "text"}
    return words.get(kind) or f"a {_short(kind)}"


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option, in words."""

    name: str
    type: str
    default: Any
    """`dataclasses.MISSING` where there is none and the option must be given."""
    help: str
    constraints: str

    @property
    def required(self) -> bool:
        """Whether the option must be given."""
        return self.default is MISSING


def describe(options: type) -> tuple[Option, ...]:
    """Describe the fields of a dataclass type, in their order."""
    hints = _hints(options)
    return tuple(
        Option(
            name=field.name,
            type=describe_type(hints[field.name]),
            default=_default(field),
            help=help_text(hints[field.name]),
            constraints=describe_constraints(hints[field.name]),
        )
        for field in fields(options)
        if field.name in hints
    )


def validate(options: type, values: Mapping[str, object], *, where: Callable[[str], str] | str) -> dict[str, object]:
    """Check values against the fields of a dataclass type and return them converted: those given and no others.

    Text is read leniently, because the command line has nothing else and TOML no other way to say none. Any other
    value must have its option's type already, except that a whole number is a number. NaN and infinities are refused.

    Args:
        options: the dataclass type
        values: what was given, by option
        where: where it was given, which starts every message: a text, or a function from an option's name to one
    """
    hints = _hints(options)
    converted: dict[str, object] = {}
    problems: list[str] = []
    for name, value in values.items():
        place = where if isinstance(where, str) else where(name)
        if name not in hints:
            known = suggestion(name, hints) if hints else "; there are none to set"
            problems.append(f"{place} {name}: no such option{known}")
            continue
        try:
            converted[name] = _convert(hints[name], value)
        except ValueError:  # pydantic's ValidationError is one
            given = value if isinstance(value, str) else json.dumps(value, default=str)
            finite = ", and a finite one" if _is_infinite(value) else ""
            problems.append(f"{place} {name}={given}: expected {expected(hints[name])}{finite}")
    if problems:
        raise TfsmError("\n".join(problems))
    return converted


def _convert(hint: Any, value: object) -> object:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    from pydantic_core import to_json

    try:
        adapter: TypeAdapter[object] = TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))
    except PydanticUserError as error:
        raise TfsmError(f"an option of type {describe_type(hint)!r} cannot be set: {error.message}") from error

    def typed(value: object) -> object:
        # JSON's strict rules are what TOML needs: an array may become a tuple, a text a path, a bool no number.
        result = adapter.validate_json(to_json(value, inf_nan_mode="constants"), strict=True)
        if isinstance(value, bool) and not isinstance(result, bool):  # Literal[1] would take true
            raise ValueError(value)
        return result

    if not isinstance(value, str):
        return typed(value)
    if value.lower() == "none" and NoneType in union_members(hint):
        return None
    with suppress(ValueError):
        return adapter.validate_python(value)
    with suppress(ValueError, RecursionError):
        return typed(json.loads(value))  # Literal[1, 2] takes a number, not its digits
    return adapter.validate_python(value.split(","))


def _is_infinite(value: object) -> bool:
    with suppress(ValueError):
        return isinstance(value, float | str) and not isfinite(float(value))
    return False


def _hints(options: type) -> dict[str, Any]:
    hints = get_type_hints(options, include_extras=True)
    return {field.name: hints[field.name] for field in fields(options) if field.init}


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
