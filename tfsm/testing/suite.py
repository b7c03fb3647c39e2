"""The table of checks, and running them. A check is a function that raises `Failed`; its name says what must be so."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from tfsm.errors import TfsmError
from tfsm.registry import Entry, Kind
from tfsm.testing.failure import Failed
from tfsm.testing.trying import Checked, PluginSubject, Subject

State: TypeAlias = Literal["ok", "failed", "skipped"]


_OTHERS: Final = frozenset({"tensorflow", "keras", "numpy", "tfsm"})
"""Packages whose lines an author cannot mend."""


@dataclass(frozen=True)
class Check:
    """One thing that must be so; known by name, imported when it is run."""

    kind: Checked
    target: str

    @property
    def name(self) -> str:
        """What must be so, in words."""
        return self.target.partition(":")[2].replace("_", " ")

    def __call__(self, subject: Subject | PluginSubject) -> None:
        """Raise `Failed` where it is not so."""
        module, _, function = self.target.partition(":")
        getattr(importlib.import_module(f"tfsm.testing.{module}"), function)(subject)


@dataclass(frozen=True)
class Outcome:
    """What came of one check."""

    subject: str
    check: str
    state: State
    found: str = ""
    advice: str = ""


def _listed(kind: Checked, **modules: str) -> tuple[Check, ...]:
    return tuple(Check(kind, f"{module}:{name}") for module, names in modules.items() for name in names.split())


_MAKING: Final = "can_be_made"
_COMMON: Final = "is_described registered_options_are_its_own wrong_options_are_refused"
_VALUE: Final = "is_a_frozen_value"

CHECKS: Final[Mapping[Checked, tuple[Check, ...]]] = MappingProxyType(
    {
        "plugin": _listed("plugin", whole="loads says_its_version_of_the_interface imports_no_tensorflow_to_be_listed"),
        "mutation": _listed(
            "mutation",
            making=_MAKING,
            options=_COMMON,
            values=_VALUE,
            mutations="""
                zero_intensity_gives_the_parent
                the_same_seed_gives_the_same_child
                other_seeds_give_other_children
                a_batch_is_mutated_as_one_after_another
                children_are_finite_and_like_their_parents
                dull_experience_leaves_children_finite
                no_global_randomness_is_touched
                pickles_and_does_the_same
            """,
            mutating_models="only_trainable_weights_change layers_with_a_smaller_share_change_less can_be_traced",
            lock_step="evolves_in_lock_step",
        ),
        "domain": _listed(
            "domain",
            making=_MAKING,
            options=_COMMON,
            values=_VALUE,
            domains="""
                its_network_is_built_anew_each_time
                evaluations_have_the_declared_shapes
                evaluations_are_finite
                the_same_seed_gives_the_same_evaluation
                a_batch_is_evaluated_as_one_after_another
                fitness_and_solved_are_consistent
                genomes_do_not_all_fare_alike
                experience_can_be_observed_again
                no_global_randomness_is_touched
                pickles_and_does_the_same
            """,
            lock_step="evolves_in_lock_step",
        ),
        "selection": _listed(
            "selection",
            making=_MAKING,
            options=_COMMON,
            values=_VALUE,
            selections="""
                choices_are_individuals
                the_same_seed_gives_the_same_choice
                a_batch_is_chosen_from_as_one_after_another
                broken_individuals_are_no_trouble
                acceptance_is_said_for_each
                choosing_is_compiled
                no_global_randomness_is_touched
                pickles_and_does_the_same
            """,
            lock_step="evolves_in_lock_step",
        ),
        "observer": _listed(
            "observer",
            making=_MAKING,
            options=_COMMON,
            observers="""
                hears_what_is_told
                stands_a_whole_experiment
                stands_an_experiment_that_ends_at_once
                stands_an_experiment_without_a_directory
                two_experiments_do_not_mix
                what_it_is_given_stays_as_it_is
                no_global_randomness_is_touched
                pickles_before_it_starts
            """,
            lock_step="changes_no_run",
        ),
    }
)


def checks_for(kind: Checked) -> tuple[Check, ...]:
    """Return the checks for a whole plugin, or for a kind of part."""
    return CHECKS[kind]


def outcomes(subject: Subject | PluginSubject, checks: Sequence[Check] = ()) -> Iterator[Outcome]:
    """Run checks, all that there are for its kind unless some are named.

    The first is whether there is something to check at all, and decides about the others.
    """
    first, *rest = checks or checks_for(subject.kind)
    outcome = _outcome(first, subject)
    yield outcome
    for check in rest:
        if outcome.state == "ok":
            yield _outcome(check, subject)
        else:
            yield Outcome(subject.name, check.name, "skipped", f"not so: {first.name}")


def check(part: object, kind: Kind) -> list[Outcome]:
    """Check a part that no plugin registers yet.

    >>> from tfsm.testing import check
    >>> class Deaf: "Hears nothing."
    >>> check(Deaf(), "observer")[0].state
    'failed'
    """
    return list(outcomes(Subject(Entry.ready_made(kind, part))))


def _outcome(check: Check, subject: Subject | PluginSubject) -> Outcome:
    def said(state: State, found: str = "", advice: str = "") -> Outcome:
        return Outcome(subject.name, check.name, state, found, advice)

    try:
        check(subject)
    except Failed as failure:
        return said("failed", failure.found, failure.advice)
    except TfsmError as error:
        return said("failed", str(error), "mend what the message says")
    # Whatever a part raises is the part's, and the other checks may still have something to say.
    except Exception as error:
        return said("failed", f"it raised {_told(error)}", f"mend {_where(error)}")
    return said("ok")


def _told(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"


def _where(error: Exception) -> str:
    """Name the line that an author can look at: the last one that is neither tfsm's nor a library's."""
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _OTHERS & set(Path(frame.filename).parts)]
    frame = (own or frames)[-1]
    return f"line {frame.lineno} of {frame.filename}"
