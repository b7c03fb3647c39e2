"""Describe and validate options: the fields of a dataclass, with `Annotated` constraints and a `Doc` each.

The options of every part and the settings of a run are declared this way. Describing them is cheap; pydantic is only
imported when values are validated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from math import inf, isfinite, nan
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt, MaxLen, MinLen, MultipleOf

from tfsm.errors import TfsmError, suggestion

if TYPE_CHECKING:
    from pydantic import TypeAdapter


OBJECT: Final[Mapping[str, bool]] = MappingProxyType({"object": True})
"""The metadata of a field for an object of the user's program, such as an array, which is not an option."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """The description of one option."""

    name: str
    type: str
    default: Any
    """`dataclasses.MISSING` for an option that must be given."""
    help: str
    constraints: str

    @property
    def required(self) -> bool:
        """Whether the option must be given."""
        return self.default is MISSING


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a part without any."""


def describe(options: type) -> tuple[Option, ...]:
    """Describe the fields of a dataclass type, in order."""
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


def option_names(options: type | None) -> tuple[str, ...]:
    """Return the names of a part's options, none if the part has no dataclass of options."""
    return tuple(field.name for field in fields(options) if field.init) if options is not None else ()


def validate(options: type, values: Mapping[str, object], *, where: Callable[[str], str] | str) -> dict[str, object]:
    """Check values against the fields of a dataclass type and return those that were given, converted.

    Text is parsed leniently, because the command line has nothing else. Any other value must already have the option's
    type, except that an integer is accepted as a number. NaN and infinities are rejected.

    Args:
        options: the dataclass type.
        values: the values by option name.
        where: where the values were given, the start of every message; or a function from an option's name to that.

    Raises:
        TfsmError: with one line per invalid value.
    """
    converted: dict[str, object] = {}
    problems: list[str] = []
    for name, value in values.items():
        try:
            converted[name] = _validate_one(options, name, value, where if isinstance(where, str) else where(name))
        except TfsmError as error:
            problems.append(str(error))
    if problems:
        raise TfsmError("\n".join(problems))
    return converted


def find_problems(options: type, values: Mapping[str, object], where: str) -> Iterator[str]:
    """Yield a message for every invalid value of a TOML table.

    Stricter than `validate`: a number, boolean or list in quotes is a mistake. Only none may be text, because TOML has
    no null.
    """
    for name, value in values.items():
        try:
            converted = _validate_one(options, name, value, where)
        except TfsmError as error:
            yield str(error)
        else:
            if isinstance(value, str) and isinstance(converted, bool | int | float | list | tuple):
                yield f'{where} {name}="{value}": expected {describe_expected(_hints(options)[name])}, without quotes'


def help_text(hint: Any) -> str:
    """Return the text of a type hint's `Doc`."""
    return next((str(item.documentation) for item in _metadata(hint) if hasattr(item, "documentation")), "")


def describe_type(hint: Any) -> str:
    """Name a type briefly, for a table.

    >>> describe_type(Annotated[float | None, Gt(0)]), describe_type(Literal["fresh", "same"]), describe_type(bool)
    ('float or none', 'fresh|same', 'yes|no')
    """
    return " or ".join(_short(kind) for kind in union_members(hint))


def describe_constraints(hint: Any) -> str:
    """Describe what a value must satisfy besides its type.

    >>> describe_constraints(Annotated[float, Gt(0), Lt(1)])
    '> 0 and < 1'
    """
    return " and ".join(filter(None, map(_constraint, _metadata(hint))))


def describe_expected(hint: Any) -> str:
    """Describe the valid values, for an error message: type, whole range and whether none is allowed.

    >>> describe_expected(Annotated[float | None, Gt(0)]), describe_expected(Literal["fresh", "same"])
    ('a number > 0 or none', 'fresh or same')
    """
    kinds = union_members(hint)
    words = " or ".join(_long(kind) for kind in kinds if kind is not NoneType)
    valid = f"{words} {describe_constraints(hint)}".strip()
    return " or ".join(filter(None, [valid, "none" if NoneType in kinds else ""]))


def union_members(hint: Any) -> list[Any]:
    """Split `Annotated` types and unions into plain types.

    >>> union_members(Annotated[float | None, Gt(0)])
    [<class 'float'>, <class 'NoneType'>]
    """
    if get_origin(hint) is Annotated:
        return union_members(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [kind for member in get_args(hint) for kind in union_members(member)]
    return [hint]


def _validate_one(options: type, name: str, value: object, where: str) -> object:
    hints = _hints(options)
    if name not in hints:
        known = suggestion(name, hints) if hints else "; it has no options"
        raise TfsmError(f"{where} {name}: no such option{known}")
    try:
        return _convert(_adapter(options, name), hints[name], value)
    except ValueError as error:  # pydantic's ValidationError is one
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        expected = describe_expected(hints[name])
        if _is_infinite(value):
            expected = expected.replace("a number", "a finite number", 1)
        raise TfsmError(f"{where} {name}={text}: expected {expected}") from error


def _convert(adapter: TypeAdapter[object], hint: Any, value: object) -> object:
    from pydantic_core import to_json

    def convert_typed(value: object) -> object:
        # JSON's strict rules fit TOML: an array may become a tuple and text a path, but a bool is not a number.
        result = adapter.validate_json(to_json(value, inf_nan_mode="constants"), strict=True)
        if isinstance(value, bool) and not isinstance(result, bool):  # Literal[1] would accept true
            raise ValueError(value)
        return result

    if not isinstance(value, str):
        return convert_typed(value)
    if value.lower() == "none" and NoneType in union_members(hint):
        return None
    with suppress(ValueError):
        return adapter.validate_python(value)
    with suppress(ValueError, RecursionError):
        return convert_typed(json.loads(value))  # Literal[1, 2] accepts a number, not its digits
    return adapter.validate_python(value.split(","))


@cache
def _adapter(options: type, name: str) -> TypeAdapter[object]:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    hint = _hints(options)[name]
    try:
        return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))
    except PydanticUserError as error:
        raise TfsmError(f"an option of type {describe_type(hint)!r} cannot be set: {error.message}") from error


def _is_infinite(value: object) -> bool:
    with suppress(ValueError):
        return isinstance(value, float | str) and not isfinite(float(value))
    return False


@cache
def _hints(options: type) -> dict[str, Any]:
    hints = get_type_hints(options, include_extras=True)
    return {field.name: hints[field.name] for field in fields(options) if field.init}


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


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


def _item_types(kind: Any) -> str | None:
    """Name the item types of a list-like type; None for any other type."""
    if get_origin(kind) not in (list, tuple, set, frozenset):
        return None
    return " and ".join(dict.fromkeys(describe_type(item) for item in get_args(kind) if item is not Ellipsis))


def _short(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if items := _item_types(kind):
        return f"list of {items}"
    return {bool: "yes|no", NoneType: "none"}.get(kind) or getattr(kind, "__name__", str(kind)).lower()


def _long(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if items := _item_types(kind):
        return f"a list of {items}"
    words = {bool: "yes or no", int: "an integer", float: "a number", str: "text"}
    return words.get(kind) or f"a {_short(kind)}"


class Divergence(NamedTuple):
    """How far the outputs of a child move."""

    value: float
    relative: bool
    """Whether the value is a share of the variance of the parent's outputs over its experience."""

    def __str__(self) -> str:
        return f"{100 * self.value:g}%" if self.relative else f"{self.value:g}"


def parse_divergence(given: float | str) -> Divergence:
    """Parse a divergence: a number, or a percentage of the variance of the outputs.

    >>> parse_divergence("1%")
    Divergence(value=0.01, relative=True)
    >>> parse_divergence(0.5)
    Divergence(value=0.5, relative=False)
    """
    text = given.strip() if isinstance(given, str) else given
    relative = isinstance(text, str) and text.endswith("%")
    try:
        if isinstance(text, bool):
            raise ValueError
        value = float(text.removesuffix("%")) / 100 if isinstance(text, str) and relative else float(text)
    except (TypeError, ValueError):
        value = nan
    if not 0 <= value < inf:
        raise TfsmError(f"divergence: expected a number >= 0 or a percentage, such as 0.01 or 1%, got {given!r}")
    return Divergence(value, relative)
