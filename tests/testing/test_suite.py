"""Every check catches a part that is wrong in that one thing, and says what to do; parts that are right pass all."""

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
from tfsm.testing.suite import CHECKS, Failed, Outcome, PluginSubject, Subject, check, checks_for, outcomes

DEAR = ("lock_step:evolves_in_lock_step", "lock_step:changes_no_run")
"""Checks that evolve, of which each takes seconds."""


def plugin(state: Any = "loaded", module: str = "tfsm_domains.toy", hooks: int | None = 1) -> PluginSubject:
    names = {kind: ("a",) if kind == "domain" else () for kind in KINDS}
    return PluginSubject(
        PluginInfo(name="p", distribution="d", version="1", state=state, reason="why", hooks=hooks, registers=names),
        module,
    )


CASES: list[tuple[str, str, Any, str]] = [
    ("plugin", "loads", plugin("broken"), "plugin 'p' (d 1) is broken: why"),
    ("plugin", "says its version of the interface", plugin(hooks=None), "write tfsm_hooks = 1 into it"),
    ("plugin", "imports no tensorflow to be listed", plugin(module="tfsm_domains.toy.simple"), "imports TensorFlow"),
    ("mutation", "can be made", subject("mutation", values.NoCall), "NoCall has no method __call__"),
    ("domain", "can be made", subject("domain", values.NoCall), "no method network, evaluate, observe"),
    ("observer", "can be made", subject("observer", observers.Deaf), "Deaf hears nothing"),
    ("mutation", "is described", subject("mutation", values.Nameless), "Nameless has no docstring"),
    ("mutation", "is described", subject("mutation", GoodNoise, description=""), "without a description"),
    (
        "mutation",
        "is described",
        subject("mutation", values.Unexplained, options=values.UnexplainedOptions),
        "option 'size' is not explained",
    ),
    (
        "mutation",
        "registered options are its own",
        subject("mutation", values.OtherDefault, options=SizeOptions),
        "SizeOptions is registered, and OtherDefault differs from it in size",
    ),
    ("mutation", "wrong options are refused", subject("mutation", values.Fussy), "size=-1 is right by its type"),
    ("mutation", "wrong options are refused", subject("mutation", values.Vague), "'size' takes anything"),
    ("mutation", "wrong options are refused", subject("mutation", values.Contradicting), "default is refused"),
    ("mutation", "is a frozen value", subject("mutation", values.Changing), "Changing can be changed"),
    ("mutation", "is a frozen value", subject("mutation", values.Unhashable), "Unhashable cannot be hashed"),
    ("mutation", "is a frozen value", subject("mutation", values.Unequal), "are not equal"),
    (
        "mutation",
        "pickles and does the same",
        Subject(subject("mutation", values.Forgetful).entry, {"size": 5}),
        "after",
    ),
    ("mutation", "pickles and does the same", subject("mutation", values.Stuck), "cannot pickle 'window' object"),
    ("mutation", "pickles and does the same", subject("mutation", mutations.Reminded), "it makes other children"),
    ("mutation", "zero intensity gives the parent", subject("mutation", mutations.Restless), "with intensity 0"),
    ("mutation", "the same seed gives the same child", subject("mutation", mutations.Moody), "two different children"),
    ("mutation", "other seeds give other children", subject("mutation", mutations.Deaf), "6 seeds give 1 different"),
    ("mutation", "a batch is mutated as one after another", subject("mutation", mutations.Sociable), "among others"),
    ("mutation", "children are finite and like their parents", subject("mutation", mutations.Short), "float32 [25]"),
    (
        "mutation",
        "children are finite and like their parents",
        subject("mutation", mutations.Explosive),
        "intensity 10",
    ),
    ("mutation", "children are finite and like their parents", subject("mutation", mutations.Talkative), "'noise'"),
    (
        "mutation",
        "dull experience leaves children finite",
        subject("mutation", mutations.Dividing),
        "nothing but zeros",
    ),
    ("mutation", "no global randomness is touched", subject("mutation", mutations.Moody), "generators of tf.random"),
    ("mutation", "no global randomness is touched", subject("mutation", mutations.Secret), "random and np.random"),
    (
        "mutation",
        "only trainable weights change",
        subject("mutation", mutations.Hasty),
        "never assign to network.model",
    ),
    ("mutation", "layers with a smaller share change less", subject("mutation", mutations.Even), "network.noise(seed)"),
    ("mutation", "can be traced", subject("mutation", mutations.Untraceable), ""),
    ("mutation", "evolves in lock step", subject("mutation", mutations.Crowded), "is another run alone"),
    ("domain", "its network is built anew each time", subject("domain", domains.Stingy), "one model twice"),
    ("domain", "evaluations have the declared shapes", subject("domain", domains.Columns), "is float32 [8, 1]"),
    ("domain", "evaluations have the declared shapes", subject("domain", domains.Misnamed), "behavior_names are"),
    ("domain", "evaluations are finite", subject("domain", domains.Dividing), "of the behavior of 8 ordinary genomes"),
    ("domain", "the same seed gives the same evaluation", subject("domain", domains.Moody), "the second time"),
    (
        "domain",
        "a batch is evaluated as one after another",
        subject("domain", domains.Ranking),
        "alone and among others",
    ),
    ("domain", "fitness and solved are consistent", subject("domain", domains.Hiding), "NaN has the fitness -9"),
    ("domain", "fitness and solved are consistent", subject("domain", domains.Generous), "broken genome counts as"),
    ("domain", "fitness and solved are consistent", subject("domain", domains.Ranking), "breaks the fitness of others"),
    ("domain", "genomes do not all fare alike", subject("domain", domains.Flat), "all have the fitness"),
    (
        "domain",
        "experience can be observed again",
        subject("domain", domains.Wide),
        "of shape [4], the network takes [2]",
    ),
    ("domain", "no global randomness is touched", subject("domain", domains.Hosted), "generators of np.random"),
    ("domain", "pickles and does the same", subject("domain", domains.Reminded), "pickled, it evaluates differently"),
    ("domain", "evolves in lock step", subject("domain", domains.Crowded), "is another run alone"),
    ("selection", "choices are individuals", subject("selection", selections.Beyond), "to 30 of 30 individuals"),
    (
        "selection",
        "the same seed gives the same choice",
        subject("selection", selections.Moody),
        "two different choices",
    ),
    ("selection", "a batch is chosen from as one after another", subject("selection", selections.Sociable), "alone"),
    ("selection", "broken individuals are no trouble", subject("selection", selections.Fragile), "minus infinity"),
    ("selection", "acceptance is said for each", subject("selection", selections.Sweeping), "accepts returns bool []"),
    ("selection", "acceptance is said for each", subject("selection", selections.Perverse), "that is better"),
    ("selection", "choosing is compiled", subject("selection", selections.Uncompiled), ""),
    ("selection", "no global randomness is touched", subject("selection", selections.Moody), "generators of tf.random"),
    ("selection", "pickles and does the same", subject("selection", selections.Reminded), "it chooses differently"),
    ("selection", "evolves in lock step", subject("selection", selections.Crowded), "is another run alone"),
    (
        "observer",
        "hears what is told",
        subject("observer", observers.Misheard),
        "def best(self, run, evaluations, fitness",
    ),
    ("observer", "stands a whole experiment", subject("observer", observers.Certain), "interval raises TypeError"),
    ("observer", "stands an experiment that ends at once", subject("observer", observers.Impatient), ""),
    ("observer", "stands an experiment without a directory", subject("observer", observers.Homeless), "is None where"),
    ("observer", "two experiments do not mix", subject("observer", observers.Mixing), "into one place"),
    ("observer", "what it is given stays as it is", subject("observer", observers.Meddling), "interval changes what"),
    ("observer", "no global randomness is touched", subject("observer", observers.Secret), "generators of random"),
    ("observer", "pickles before it starts", subject("observer", observers.Stuck), "cannot pickle"),
    ("observer", "changes no run", subject("observer", observers.Raising), "RuntimeError: not like that"),
]

SHARED = ("is described", "registered options are its own", "wrong options are refused", "is a frozen value")
"""Checks that are the same function for all kinds, and shown to work with one."""


def outcome_of(name: str, part: Any) -> Outcome:
    from tfsm.testing.suite import _outcome

    (one,) = [each for each in checks_for(part.kind) if each.name == name]
    return _outcome(one, part)


@pytest.mark.parametrize(
    ("kind", "name", "part", "message"),
    [
        pytest.param(*case, id=f"{case[2].name} {case[1]}", marks=[pytest.mark.slow] * ("lock step" in case[1]))
        for case in CASES
    ],
)
def test_a_check_catches_what_it_is_for(kind: str, name: str, part: Any, message: str) -> None:
    assert part.kind == kind
    found = outcome_of(name, part)
    assert found.state == "failed"
    assert message in f"{found.found} {found.advice}"
    assert found.advice


def test_every_check_is_shown_to_catch_something() -> None:
    shown = {(kind, name) for kind, name, *_ in CASES}
    every = {(kind, each.name) for kind, checks in CHECKS.items() for each in checks}
    shared = {(kind, name) for kind in CHECKS for name in SHARED} | {("selection", "can be made")}
    assert every - shown - shared == set()
    assert shown <= every


@pytest.mark.parametrize(
    "part",
    [
        subject("mutation", GoodNoise, options=SizeOptions),
        subject("domain", Add),
        subject("selection", GoodScheme),
        subject("observer", Ears),
        plugin(),
    ],
    ids=lambda part: part.kind,
)
def test_a_part_that_is_right_passes(part: Any) -> None:
    for each in checks_for(part.kind):
        if each.target not in DEAR:
            each(part)


def test_where_there_is_nothing_to_check_the_rest_is_skipped() -> None:
    first, *rest = outcomes(subject("mutation", values.NoCall))
    assert (first.state, first.check) == ("failed", "can be made")
    assert {(each.state, each.found) for each in rest} == {("skipped", "not so: can be made")}


@pytest.mark.slow
def test_a_part_can_be_checked_before_it_is_registered() -> None:
    states = {each.check: each.state for each in check(Ears(), "observer") if each.check != "changes no run"}
    assert set(states.values()) == {"ok"}


def test_an_exception_names_the_line_that_an_author_can_mend() -> None:
    found = outcome_of("stands an experiment that ends at once", subject("observer", observers.Impatient))
    assert found.found.startswith("it raised IndexError: ")
    assert found.advice.startswith("mend line ")
    assert found.advice.endswith("broken_observers.py")


def test_a_failure_says_what_was_found_and_what_to_do() -> None:
    with pytest.raises(Failed, match=r"(?s)with intensity 0 a weight changes by .*\nwhat to do: scale every change"):
        checks_for("mutation")[5](subject("mutation", mutations.Restless))
