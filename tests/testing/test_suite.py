"""Every check rejects a part that is wrong in one respect, with advice; valid parts pass all checks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing import broken_domains as domains
from tests.testing import broken_mutations as mutations
from tests.testing import broken_observers as observers
from tests.testing import broken_selections as selections
from tests.testing import broken_values as values
from tests.testing.parts import Add, Ears, GoodNoise, GoodScheme, SizeOptions, subject
from tfsm.plugins import PluginInfo
from tfsm.plugins.registry import KINDS
from tfsm.testing.suite import (
    CHECKS,
    Check,
    CheckFailure,
    CheckResult,
    PartUnderTest,
    PluginUnderTest,
    check,
    checks_for,
    run_checks,
)

EXPENSIVE = ("check_runs:runs_are_identical_alone_and_in_lock_step", "check_runs:does_not_affect_the_run")
"""Checks that evolve, of which each takes seconds."""


def plugin(state: Any = "loaded", module: str = "tfsm_domains.toy", hooks: int | None = 1) -> PluginUnderTest:
    names = {kind: ("a",) if kind == "domain" else () for kind in KINDS}
    return PluginUnderTest(
        PluginInfo(name="p", distribution="d", version="1", state=state, reason="why", hooks=hooks, registers=names),
        module,
    )


CASES: list[tuple[str, str, Any, str]] = [
    ("plugin", "loads and registers parts", plugin("broken"), "plugin 'p' (d 1) is broken: why"),
    ("plugin", "declares the interface version", plugin(hooks=None), "add tfsm_hooks = 2"),
    (
        "plugin",
        "registers without importing tensorflow",
        plugin(module="tfsm_domains.toy.simple"),
        "imports TensorFlow",
    ),
    ("mutation", "can be built", subject("mutation", values.NoCall), "NoCall has no method __call__"),
    ("domain", "can be built", subject("domain", values.NoCall), "no method network, evaluate, observe"),
    ("observer", "can be built", subject("observer", observers.Deaf), "Deaf is not an observer"),
    ("mutation", "is documented", subject("mutation", values.Nameless), "Nameless has no docstring"),
    ("mutation", "is documented", subject("mutation", GoodNoise, description=""), "without a description"),
    (
        "mutation",
        "is documented",
        subject("mutation", values.Unexplained, options=values.UnexplainedOptions),
        "option 'size' has no help text",
    ),
    (
        "mutation",
        "registered options match the class",
        subject("mutation", values.OtherDefault, options=SizeOptions),
        "the registered SizeOptions and the class OtherDefault differ in size",
    ),
    ("mutation", "invalid options are rejected", subject("mutation", values.Fussy), "size=-1 is valid for its type"),
    ("mutation", "invalid options are rejected", subject("mutation", values.Vague), "'size' accepts any value"),
    ("mutation", "invalid options are rejected", subject("mutation", values.Contradicting), "the default is invalid"),
    (
        "mutation",
        "registered defaults are valid",
        subject("mutation", GoodNoise, intensity=-1.0),
        "[run.intensity] goodnoise=-1.0: expected a number >= 0",
    ),
    (
        "domain",
        "registered defaults are valid",
        subject("domain", Add, defaults={"populaton": 3}),
        "[domains.add] populaton: unknown key, did you mean 'population'?",
    ),
    ("mutation", "is a frozen dataclass", subject("mutation", values.Changing), "Changing is mutable"),
    ("mutation", "is a frozen dataclass", subject("mutation", values.Unhashable), "Unhashable cannot be hashed"),
    ("mutation", "is a frozen dataclass", subject("mutation", values.Unequal), "are not equal"),
    (
        "mutation",
        "behaves the same after pickling",
        PartUnderTest(subject("mutation", values.Forgetful).entry, {"size": 5}),
        "after",
    ),
    ("mutation", "behaves the same after pickling", subject("mutation", values.Stuck), "cannot pickle 'window' object"),
    (
        "mutation",
        "behaves the same after pickling",
        subject("mutation", mutations.Reminded),
        "it makes different children",
    ),
    ("mutation", "zero intensity returns the parent", subject("mutation", mutations.Restless), "with intensity 0"),
    ("mutation", "same seed gives the same child", subject("mutation", mutations.Moody), "two different children"),
    (
        "mutation",
        "different seeds give different children",
        subject("mutation", mutations.Deaf),
        "6 seeds give 1 different",
    ),
    ("mutation", "children do not depend on the batch", subject("mutation", mutations.Sociable), "in a batch"),
    ("mutation", "children are finite with the parent shape", subject("mutation", mutations.Short), "float32 [25]"),
    (
        "mutation",
        "children are finite with the parent shape",
        subject("mutation", mutations.Explosive),
        "intensity 10",
    ),
    ("mutation", "children are finite with the parent shape", subject("mutation", mutations.Talkative), "'noise'"),
    (
        "mutation",
        "children are finite for degenerate experience",
        subject("mutation", mutations.Dividing),
        "an experience of zeros",
    ),
    ("mutation", "uses no global random state", subject("mutation", mutations.Moody), "generators of tf.random"),
    ("mutation", "uses no global random state", subject("mutation", mutations.Secret), "random and np.random"),
    (
        "mutation",
        "only trainable weights change",
        subject("mutation", mutations.Hasty),
        "never assign to network.model",
    ),
    ("mutation", "layer shares are respected", subject("mutation", mutations.Even), "network.noise(seed)"),
    ("mutation", "can be compiled", subject("mutation", mutations.Untraceable), ""),
    (
        "mutation",
        "runs are identical alone and in lock step",
        subject("mutation", mutations.Crowded),
        "differs alone",
    ),
    ("domain", "network returns a new built model", subject("domain", domains.Stingy), "the same model twice"),
    ("domain", "evaluation shapes are correct", subject("domain", domains.Columns), "is float32 [8, 1]"),
    ("domain", "evaluation shapes are correct", subject("domain", domains.Misnamed), "behavior_names is"),
    ("domain", "evaluations are finite", subject("domain", domains.Dividing), "of the behavior of 8 ordinary genomes"),
    ("domain", "same seed gives the same evaluation", subject("domain", domains.Moody), "different evaluations"),
    (
        "domain",
        "evaluations do not depend on the batch",
        subject("domain", domains.Ranking),
        "alone and in a batch",
    ),
    ("domain", "fitness and solved are consistent", subject("domain", domains.Hiding), "NaN has the fitness -9"),
    ("domain", "fitness and solved are consistent", subject("domain", domains.Generous), "broken genome counts as"),
    ("domain", "fitness and solved are consistent", subject("domain", domains.Ranking), "breaks the fitness of others"),
    ("domain", "fitness distinguishes genomes", subject("domain", domains.Flat), "all have the fitness"),
    (
        "domain",
        "experience converts to network inputs",
        subject("domain", domains.Wide),
        "of shape [4], the network has [2]",
    ),
    ("domain", "uses no global random state", subject("domain", domains.Hosted), "generators of np.random"),
    (
        "domain",
        "behaves the same after pickling",
        subject("domain", domains.Reminded),
        "after pickling it evaluates differently",
    ),
    ("domain", "runs are identical alone and in lock step", subject("domain", domains.Crowded), "differs alone"),
    ("selection", "choices are valid indices", subject("selection", selections.Beyond), "to 30 of 30 individuals"),
    (
        "selection",
        "same seed gives the same choice",
        subject("selection", selections.Moody),
        "two different choices",
    ),
    ("selection", "choices do not depend on the batch", subject("selection", selections.Sociable), "alone"),
    ("selection", "handles broken individuals", subject("selection", selections.Fragile), "minus infinity"),
    ("selection", "acceptance is elementwise", subject("selection", selections.Sweeping), "accepts returns bool []"),
    ("selection", "acceptance is elementwise", subject("selection", selections.Perverse), "that is better"),
    ("selection", "choice can be compiled", subject("selection", selections.Uncompiled), ""),
    ("selection", "uses no global random state", subject("selection", selections.Moody), "generators of tf.random"),
    (
        "selection",
        "behaves the same after pickling",
        subject("selection", selections.Reminded),
        "it chooses differently",
    ),
    (
        "selection",
        "runs are identical alone and in lock step",
        subject("selection", selections.Crowded),
        "differs alone",
    ),
    (
        "observer",
        "event methods have the right signature",
        subject("observer", observers.Misheard),
        "def on_interval(self, interval)",
    ),
    (
        "observer",
        "handles a complete experiment",
        subject("observer", observers.Certain),
        "on_interval raises TypeError",
    ),
    ("observer", "handles an experiment that ends immediately", subject("observer", observers.Impatient), ""),
    ("observer", "handles an experiment without a directory", subject("observer", observers.Homeless), "is None where"),
    ("observer", "concurrent experiments do not interfere", subject("observer", observers.Mixing), "to the same place"),
    ("observer", "does not modify its arguments", subject("observer", observers.Meddling), "on_interval modifies what"),
    ("observer", "uses no global random state", subject("observer", observers.Secret), "generators of random"),
    ("observer", "can be pickled before the start", subject("observer", observers.Stuck), "cannot pickle"),
    ("observer", "does not affect the run", subject("observer", observers.Raising), "RuntimeError: not like that"),
]

SHARED = (
    "is documented",
    "registered options match the class",
    "invalid options are rejected",
    "is a frozen dataclass",
)
"""Checks that are the same function for all kinds, and shown to work with one."""


def find_check(kind: Any, name: str) -> Check:
    (check,) = [check for check in checks_for(kind) if check.name == name]
    return check


def run_check(name: str, part: Any) -> CheckResult:
    (result,) = run_checks(part, [find_check(part.kind, name)])
    return result


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kind", "name", "part", "message"),
    [
        pytest.param(*case, id=f"{case[2].name} {case[1]}", marks=[pytest.mark.slow] * ("lock step" in case[1]))
        for case in CASES
    ],
)
def test_a_check_detects_its_fault(kind: str, name: str, part: Any, message: str) -> None:
    assert part.kind == kind
    found = run_check(name, part)
    assert found.state == "failed"
    assert message in f"{found.message} {found.advice}"
    assert found.advice


def test_every_check_has_a_case() -> None:
    shown = {(kind, name) for kind, name, *_ in CASES}
    every = {(kind, each.name) for kind, checks in CHECKS.items() for each in checks}
    shared = {(kind, name) for kind in CHECKS for name in SHARED} | {("selection", "can be built")}
    assert every - shown - shared == set()
    assert shown <= every


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(subject("mutation", GoodNoise, options=SizeOptions), marks=pytest.mark.slow),
        subject("domain", Add),
        pytest.param(subject("selection", GoodScheme), marks=pytest.mark.slow),  # test_parts.py checks one by default
        subject("observer", Ears),
        plugin(),
    ],
    ids=lambda part: part.kind,
)
def test_a_valid_part_passes(part: Any) -> None:
    for each in checks_for(part.kind):
        if each.target not in EXPENSIVE:
            each(part)


def test_checks_after_a_failed_build_are_skipped() -> None:
    first, *rest = run_checks(subject("mutation", values.NoCall))
    assert (first.state, first.check) == ("failed", "can be built")
    assert {(each.state, each.message) for each in rest} == {("skipped", "failed: can be built")}


@pytest.mark.slow
def test_a_part_can_be_checked_before_it_is_registered() -> None:
    states = {each.check: each.state for each in check(Ears(), "observer") if each.check != "does not affect the run"}
    assert set(states.values()) == {"ok"}


def test_an_exception_names_the_line_that_the_author_can_fix() -> None:
    found = run_check("handles an experiment that ends immediately", subject("observer", observers.Impatient))
    assert found.message.startswith("it raised IndexError: ")
    assert found.advice.startswith("fix line ")
    assert found.advice.endswith("broken_observers.py")


def test_a_failure_has_a_reason_and_advice() -> None:
    with pytest.raises(
        CheckFailure, match=r"(?s)with intensity 0 a weight changes by .*\nhow to fix it: scale every change"
    ):
        find_check("mutation", "zero intensity returns the parent")(subject("mutation", mutations.Restless))
