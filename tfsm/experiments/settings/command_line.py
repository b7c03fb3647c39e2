"""What the command line says about one run: its flags, and `--set`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tfsm.errors import TfsmError, suggestion
from tfsm.experiments.settings.assignments import PARTS, Assignment, part_of
from tfsm.experiments.settings.layers import Given, Layer
from tfsm.experiments.settings.run_options import RUN_KEYS

_OPTIONS: Final[Mapping[str, str]] = {
    "domain_options": "domain",
    "mutation_options": "mutation",
    "selection_options": "selection",
    "engine": "engine",
}
"""The overrides that are themselves tables, and the part each is about."""

_FLAGS: Final[Mapping[str, str]] = {"observers": "observer", "mutated_layers": "layers"}
"""The flags that are not called like the settings they give."""


def from_flags(overrides: Mapping[str, object]) -> dict[str, Layer]:
    """Sort flags by the part they are about; None means that a flag was not given."""
    layers: dict[str, Layer] = {part: {} for part in PARTS}
    for name, value in overrides.items():
        if value is None:
            continue
        if name in RUN_KEYS:
            flag = _FLAGS.get(name, name.replace("_", "-"))
            layers["run"][name] = Given(value, "command line", f"--{flag}:", True)
        elif name in _OPTIONS and isinstance(value, Mapping):
            for key, option in value.items():
                layers[_OPTIONS[name]][str(key)] = Given(option, "command line", f"{name}:", True)
        elif name in _OPTIONS:
            raise TfsmError(f"{name}: expected a mapping of options, got {value!r}")
        else:
            raise TfsmError(f"{name}: no such setting{suggestion(name, (*RUN_KEYS, *_OPTIONS))}")
    return layers


def add_assignments(
    layers: dict[str, Layer],
    assignments: Sequence[Assignment],
    known: Mapping[str, Sequence[str]],
    unused: Sequence[str] = (),
) -> None:
    """Add what `--set` said to what the flags did; `unused` are observers that the run does not have."""
    for assignment in assignments:
        part, key = part_of(assignment, known, unused)
        before = layers.setdefault(part, {}).get(key)
        if before is not None:
            first = before.source if before.source.startswith("--set") else before.where.removesuffix(":")
            raise TfsmError(f"--set {assignment.text}: {key} was already given by {first}")
        layers[part][key] = given(assignment)


def given(assignment: Assignment) -> Given:
    """Return what a `--set` gives."""
    return Given(assignment.value, f"--set {assignment.text}", "--set", True)
