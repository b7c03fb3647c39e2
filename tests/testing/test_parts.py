"""All registered parts pass the checks for third-party parts in `tfsm.testing`."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tfsm.evolution.observers import OBSERVER_METHODS
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import KINDS, Entry
from tfsm.testing.check_observers import example_events
from tfsm.testing.suite import Check, CheckResult, PartUnderTest, checks_for, find_targets, run_checks

NEEDS = {"tensorboard": "tensorboard", "ple": "ple", "gym": "gymnasium"}
"""Modules without which a part cannot be made; `tests/domains/ple` holds that domain to the suite on a stand-in."""
TABLE = str(Path(__file__).parent.parent / "domains" / "dataset" / "table.csv")
GIVEN: dict[str, dict[str, Any]] = {"gym": {"env": "CartPole-v1", "confirm": 0}, "dataset": {"data": TABLE}}
"""Options without a default, and some that save time."""
DEFAULT = (
    *("control", "sm-g-sum"),
    *("simple-easy", "gym", "dataset"),
    *("tournament", "truncation"),
    "tensorboard",
)
"""Parts that the default tests check: one of each family; the slow tests check all of them."""
EVOLVED_BY_DEFAULT = ("control",)
"""Parts that the default tests evolve; `tests/evolution` evolves others."""


def marks(entry: Entry) -> list[pytest.MarkDecorator]:
    module = NEEDS.get(entry.name)
    missing = module is not None and importlib.util.find_spec(module) is None
    return [pytest.mark.skipif(missing, reason=f"{module} is not installed")]


def runs(check: Check) -> bool:
    return check.target.startswith("check_runs:")


ENTRIES = [entry for kind in KINDS for entry in load_plugins().parts(kind).values() if entry.name != "fitness"]
"""All parts but one that has no network of its own; `tests/domains/dataset` holds it to the suite with a model."""


def cases(default: Collection[str]) -> list[Any]:
    """Return all parts as parameters; those that are not in `default` are slow."""
    slow = {entry.name: [] if entry.name in default else [pytest.mark.slow] for entry in ENTRIES}
    return [
        pytest.param(entry, id=f"{entry.kind} {entry.name}", marks=[*marks(entry), *slow[entry.name]])
        for entry in ENTRIES
    ]


@functools.cache
def subject(entry: Entry) -> PartUnderTest:
    return PartUnderTest(entry, GIVEN.get(entry.name, {}))


def failures(found: list[CheckResult]) -> list[str]:
    return [f"{each.check}: {each.message} -> {each.advice}" for each in found if each.state == "failed"]


# One test per part, so that a domain evaluates its few genomes only once, in whichever process.
@pytest.mark.sample(4)
@pytest.mark.parametrize("entry", cases(DEFAULT))
def test_a_part_passes_the_checks(entry: Entry) -> None:
    cheap = [check for check in checks_for(entry.kind) if not runs(check)]
    assert failures(list(run_checks(subject(entry), cheap))) == []


@pytest.mark.slow
@pytest.mark.parametrize("entry", cases(EVOLVED_BY_DEFAULT))
def test_a_part_completes_whole_runs(entry: Entry) -> None:
    for check in checks_for(entry.kind):
        if runs(check):
            check(subject(entry))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [info.name for info in load_plugins().infos if info.distribution == "tfsm"])
def test_a_plugin_passes_the_checks(name: str) -> None:
    (plugin,) = find_targets(load_plugins(), f"plugin:{name}").plugins
    assert failures(list(run_checks(plugin))) == []


def test_the_synthetic_history_has_every_event_in_order() -> None:
    assert tuple(dict.fromkeys(method for method, _ in example_events(None))) == OBSERVER_METHODS
