"""Options for the parts under test: `KEY=VALUE`, or `NAME.KEY=VALUE` where it is meant for one of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tfsm.errors import TfsmError, suggestion
from tfsm.experiments.settings.assignments import parse
from tfsm.options import describe, validate
from tfsm.registry import Entry
from tfsm.testing.trying import Subject


def subjects(entries: Sequence[Entry], sets: Iterable[str] = ()) -> list[Subject]:
    """Return the parts with the options that `--set` gives."""
    return with_options(entries, {one.key: one.value for one in parse(list(sets))}, "--set")


def with_options(entries: Sequence[Entry], values: Mapping[str, object], where: str) -> list[Subject]:
    """Return the parts with options by name; each must be an option of one of them at least."""
    asked = [entry.with_options() for entry in entries]
    chosen: list[dict[str, object]] = [{} for _ in asked]
    known = [[option.name for option in describe(entry.options)] if entry.options else [] for entry in asked]
    for key, value in values.items():
        takers = [
            (place, name)
            for place, entry in enumerate(asked)
            for name in known[place]
            if key in (name, f"{entry.name}.{name}")
        ]
        if not takers:
            every = dict.fromkeys(name for names in known for name in names)
            hint = suggestion(key, every) if every else "; there are none to set"
            raise TfsmError(f"{where} {key}={value}: no such option{hint}")
        for place, name in takers:
            options = asked[place].options
            assert options is not None, "it has this option"
            chosen[place] |= validate(options, {name: value}, where=where)
    return [Subject(entry, options) for entry, options in zip(asked, chosen, strict=True)]
