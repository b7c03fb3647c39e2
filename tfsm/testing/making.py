"""The first check of every part: there is one, and it has the methods of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.evolution.records import EVENTS
from tfsm.options import describe
from tfsm.testing.failure import Failed, require
from tfsm.testing.trying import Checked, Subject

METHODS: Final[Mapping[Checked, tuple[str, ...]]] = {
    "mutation": ("__call__",),
    "domain": ("network", "evaluate", "observe"),
    "selection": ("choose", "accepts"),
}

SURVEYING: Final = ("memory", "select", "admit")
"""Those of a selection scheme that looks at more than fitness."""


def can_be_made(subject: Subject) -> None:
    """The part can be imported and made, and has the methods of its kind."""
    missing = [f"--set {name}=VALUE" for name in lacking(subject)]
    require(not missing, f"{subject.name} has options without a default", f"give {' '.join(missing)}")
    part = _made(lambda: subject.part, "let the class be made from its options alone, as keyword arguments")
    if subject.kind == "observer":
        heard = any(_has(part, event) for event in EVENTS)
        require(heard, f"{subject.title} hears nothing", f"give it one of the methods {', '.join(EVENTS)}")
        return
    wanted = SURVEYING if subject.kind == "selection" and _has(part, "select") else METHODS[subject.kind]
    lacks = [name for name in wanted if not _has(part, name)]
    require(not lacks, f"{subject.title} has no method {', '.join(lacks)}", "see 'What a part must be' in the docs")
    if subject.kind == "domain":
        _made(lambda: subject.network, "let network() return a Keras model that is built")


def lacking(subject: Subject) -> list[str]:
    """Return the options that must be given and are not."""
    if subject.entry.part is not None or subject.entry.options is None:
        return []
    return [o.name for o in describe(subject.entry.options) if o.required and o.name not in subject.options]


def _made(make: Any, advice: str) -> Any:
    try:
        return make()
    except TfsmError as error:
        raise Failed(str(error), advice) from error


def _has(part: object, method: str) -> bool:
    return callable(getattr(part, method, None))
