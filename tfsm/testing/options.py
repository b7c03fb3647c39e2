"""Checks of a part's options: they are told, they are its own, and wrong ones are errors that a user understands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from tfsm.errors import TfsmError
from tfsm.hints import alternatives
from tfsm.options import describe, validate
from tfsm.testing.failure import Failed, require
from tfsm.testing.trying import Subject

_NONSENSE: Final[object] = {"nonsense": ["of", 1, {"kind": "or other"}]}
_CANDIDATES: Final[tuple[object, ...]] = (-1, 0, 1, 7, -0.5, 0.5, 1.5, True, False, "", "nonsense", None)
"""Values of all kinds; those that an option's type and constraints let through are tried."""


def is_described(subject: Subject) -> None:
    """Listings can say what it is, and what each option does."""
    require(
        type(subject.part).__doc__ and not str(type(subject.part).__doc__).startswith(f"{subject.title}("),
        f"the class {subject.title} has no docstring",
        "say in one line what it does",
    )
    if subject.entry.part is not None:
        return
    require(subject.entry.description, "it is registered without a description", "registry.add(..., description=...)")
    for option in describe(subject.entry.options) if subject.entry.options else ():
        require(
            option.help,
            f"the option {option.name!r} is not explained",
            f"write {option.name}: Annotated[..., Doc('what it does')]",
        )


def registered_options_are_its_own(subject: Subject) -> None:
    """The dataclass that is registered has the names and defaults that the part has."""
    options = subject.entry.options
    # A part that has an option called as one of its methods is holds its options apart.
    own = getattr(subject.part, "options", subject.part)
    if options is None or not is_dataclass(own):
        return
    registered = {option.name: option.default for option in describe(options)}
    found = {field.name: getattr(own, field.name) for field in fields(own) if field.init}
    expected = {**registered, **subject.options}
    different = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name, _NONSENSE) != found.get(name, _NONSENSE)
    )
    require(
        not different,
        f"{options.__name__} is registered, and {type(own).__name__} differs from it in {', '.join(different)}",
        f"derive the class from its options, class {subject.title}({options.__name__}), so that there is one list",
    )


def wrong_options_are_refused(subject: Subject) -> None:
    """A value of a wrong kind is a message; one that its type lets through can be used, or is a message, too."""
    if subject.entry.part is not None:
        return
    options = subject.entry.with_options().options
    if options is None:
        return
    hints = get_type_hints(options, include_extras=True)
    for option in describe(options):
        _nonsense_is_refused(options, option.name)
        if not option.required and option.default is not None:
            _default_is_allowed(options, option.name, option.default)
        for value in _allowed(options, option.name, hints[option.name]):
            _is_made_or_refused(subject, option.name, value)


def _nonsense_is_refused(options: type, name: str) -> None:
    try:
        validate(options, {name: _NONSENSE}, where="")
    except TfsmError as error:
        require(
            "cannot be set" not in str(error), str(error), "use types that TOML has: numbers, text, bool, tuples, Path"
        )
    else:
        raise Failed(f"the option {name!r} takes anything", "say its type, such as Annotated[float, Gt(0)]")


def _default_is_allowed(options: type, name: str, default: object) -> None:
    try:
        validate(options, {name: default}, where="")
    except TfsmError as error:
        raise Failed(f"its own default is refused:{error}", "let type, constraints and default agree") from error


def _allowed(options: type, name: str, hint: Any) -> Iterator[object]:
    literals = [value for kind in alternatives(hint) if get_origin(kind) is Literal for value in get_args(kind)]
    for value in (*_CANDIDATES, *literals):
        try:
            yield validate(options, {name: value}, where="")[name]
        except TfsmError:
            continue


def _is_made_or_refused(subject: Subject, name: str, value: object) -> None:
    try:
        subject.made(**{name: value})
    except TfsmError:
        return
    except Exception as error:
        raise Failed(
            f"{name}={value!r} is right by its type, and raises {type(error).__name__}: {error}",
            "constrain the option (Annotated[int, Ge(1)]), or raise a tfsm.TfsmError that says what is expected",
        ) from error
