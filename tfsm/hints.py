"""Type hints in words: `Annotated[float | None, Gt(0)]` is "float or none", "> 0", "a number > 0 or none"."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt, MaxLen, MinLen, MultipleOf


def alternatives(hint: Any) -> list[Any]:
    """Take `Annotated` and unions apart into plain types.

    >>> alternatives(Annotated[float | None, Gt(0)])
    [<class 'float'>, <class 'NoneType'>]
    """
    if get_origin(hint) is Annotated:
        return alternatives(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [kind for member in get_args(hint) for kind in alternatives(member)]
    return [hint]


def help_text(hint: Any) -> str:
    """Return what the hint's `Doc` says."""
    return next((str(item.documentation) for item in _metadata(hint) if hasattr(item, "documentation")), "")


def type_name(hint: Any) -> str:
    """Name a type for a table.

    >>> type_name(Annotated[float | None, Gt(0)]), type_name(Literal["fresh", "same"]), type_name(bool)
    ('float or none', 'fresh|same', 'yes|no')
    """
    return " or ".join(_short(kind) for kind in alternatives(hint))


def constraints(hint: Any) -> str:
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
    kinds = alternatives(hint)
    words = " or ".join(_long(kind) for kind in kinds if kind is not NoneType)
    return " or ".join(filter(None, [f"{words} {constraints(hint)}".strip(), "none" if NoneType in kinds else ""]))


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
    return " and ".join(dict.fromkeys(type_name(item) for item in get_args(kind) if item is not Ellipsis))


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
