"""Parts are values: they do not change, they compare, and they can be sent to another process."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, is_dataclass
from typing import Any

from tfsm.testing.failure import Failed, require
from tfsm.testing.trying import Subject


def is_a_frozen_value(subject: Subject) -> None:
    """The part never changes, is equal to another one with the same options, and can be a key."""
    part, advice = subject.part, "decorate the class with @dataclass(frozen=True, kw_only=True)"
    require(is_dataclass(part), f"{subject.title} is no dataclass", advice)
    try:
        part.anything_at_all = 1
    except FrozenInstanceError:
        pass
    else:
        raise Failed(f"{subject.title} can be changed", advice)
    require(subject.made() == part, f"two {subject.title} with the same options are not equal", advice)
    try:
        hash(part)
    except TypeError as error:
        raise Failed(f"{subject.title} cannot be hashed: {error}", "use tuples for options instead of lists") from error


def sent(part: Any) -> Any:
    """Return a part as it arrives in another process."""
    advice = (
        "define the class at the top of an importable module, and keep what cannot be sent (windows, files, "
        "compiled functions) out of the fields, or give it a __reduce__ that returns the class and its options"
    )
    try:
        return pickle.loads(pickle.dumps(part))
    # Whatever a part's own pickling raises.
    except Exception as error:
        raise Failed(f"{type(part).__name__} cannot be pickled: {type(error).__name__}: {error}", advice) from error


def arrived(part: Any) -> Any:
    """Return a part as it arrives in another process, once it is known to be equal to the one that was sent."""
    again = sent(part)
    require(
        again == part and hash(again) == hash(part),
        f"{type(part).__name__} is another one after pickling: {again!r} instead of {part!r}",
        "let __reduce__ or __getstate__ keep all options",
    )
    return again
