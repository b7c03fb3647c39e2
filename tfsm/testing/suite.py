"""Table of checks, the part under test, run them."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.plugins import PluginInfo, Plugins
from tfsm.plugins.hookspecs import PROJECT
from tfsm.plugins.options import describe, validate
from tfsm.plugins.registry import KINDS, Entry, Kind
from tfsm.settings.sources import parse_assignments

if TYPE_CHECKING:
    from tfsm.models.network import Network
    from tfsm.plugins import PluginInfo
    from tfsm.testing.check_domains import TrialEvaluation


CheckKind: TypeAlias = Literal["plugin"] | Kind
"""What there are checks for: a whole plugin, and parts of each kind."""


@dataclass(frozen=True, eq=False)
class PartUnderTest:
    """A registered part with its options; what checks need of it is made when it is first needed, and kept."""

    entry: Entry
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> CheckKind:
        """What kind of part it is."""
        return self.entry.kind

    @property
    def name(self) -> str:
        """What to call it: `mutation:control`."""
        return f"{self.entry.kind}:{self.entry.name}"

    @property
    def title(self) -> str:
        """What to call its class in a message."""
        return type(self.part).__name__

    @cached_property
    def part(self) -> Any:
        """The part itself."""
        return self.made()

    def made(self, **changes: Any) -> Any:
        """Make the part anew, with some options changed; one that came ready made is what it is."""
        from tfsm.plugins.registry import build_part

        return build_part(self.entry, {**self.options, **changes})

    @cached_property
    def network(self) -> Network:
        """A domain's network; where that is a large one, a small one that takes and gives the same."""
        from tfsm.testing.check_mutations import make_network

        return make_network(self.part)

    @cached_property
    def tried(self) -> TrialEvaluation:
        """What a domain says of a few genomes, and whether it used a global generator for that."""
        from tfsm.testing.check_domains import TrialEvaluation

        return TrialEvaluation(self)


@dataclass(frozen=True, eq=False)
class PluginUnderTest:
    """A whole plugin, loaded or broken."""

    info: PluginInfo
    module: str
    """What its entry point names."""

    @property
    def kind(self) -> CheckKind:
        """A plugin."""
        return "plugin"

    @property
    def name(self) -> str:
        """What to call it: `plugin:tfsm-toy`."""
        return f"plugin:{self.info.name}"


PACKAGE: Final = "package"
PREFIXES: Final = (*KINDS, "plugin", PACKAGE)


@dataclass(frozen=True)
class CheckTargets:
    """What goes by a name: parts, and whole plugins where one is meant."""

    parts: tuple[Entry, ...]
    plugins: tuple[PluginUnderTest, ...] = ()


def find_targets(plugins: Plugins, name: str) -> CheckTargets:
    """Find a part by its name, a plugin by its entry point's, or all of a package by its distribution's.

    Args:
        plugins: what is installed.
        name: as users have it; `mutation:NAME`, `plugin:NAME` or `package:NAME` where it is ambiguous.
    """
    prefix, _, rest = name.partition(":")
    if rest and prefix in PREFIXES:
        found = _by_prefix(plugins, prefix, rest)
        if found is None:
            raise UnknownNameError(prefix, rest, _known(plugins, prefix))
        return found
    every = {prefix: _by_prefix(plugins, prefix, name) for prefix in PREFIXES}
    meant = {prefix: found for prefix, found in every.items() if found is not None}
    if "plugin" in meant and meant["plugin"] == meant.get(PACKAGE):
        del meant[PACKAGE]
    if len(meant) > 1:
        forms = " or ".join(f"{prefix}:{name}" for prefix in meant)
        raise TfsmError(f"{name!r} is the name of several things: give {forms}")
    if not meant:
        known = {known for prefix in PREFIXES for known in _known(plugins, prefix)}
        raise UnknownNameError("part, plugin or package", name, known)
    return next(iter(meant.values()))


def _by_prefix(plugins: Plugins, prefix: str, name: str) -> CheckTargets | None:
    for kind in KINDS:
        if prefix == kind:
            parts = plugins.parts(kind)
            return CheckTargets((parts[name],)) if name in parts else None
    infos = [info for info in plugins.infos if name == (info.name if prefix == "plugin" else info.distribution)]
    return CheckTargets(tuple(_parts(plugins, infos)), tuple(map(_whole, infos))) if infos else None


def _parts(plugins: Plugins, infos: Iterable[PluginInfo]) -> Iterable[Entry]:
    return (plugins.parts(kind)[name] for info in infos for kind in KINDS for name in info.registers[kind])


def _whole(info: PluginInfo) -> PluginUnderTest:
    """Return a plugin with its module, for which the entry point is looked up again."""
    points = [point for point in entry_points(group=PROJECT) if point.name == info.name]
    own = [point for point in points if point.dist is not None and point.dist.name == info.distribution]
    return PluginUnderTest(info, (own or points)[0].module if points else info.name)


def _known(plugins: Plugins, prefix: str) -> set[str]:
    for kind in KINDS:
        if prefix == kind:
            return set(plugins.parts(kind))
    return {info.name if prefix == "plugin" else info.distribution for info in plugins.infos}


def parts_under_test(entries: Sequence[Entry], sets: Iterable[str] = ()) -> list[PartUnderTest]:
    """Return the parts with the options that `--set` gives."""
    return build_parts_under_test(entries, {one.key: one.value for one in parse_assignments(list(sets))}, "--set")


def build_parts_under_test(entries: Sequence[Entry], values: Mapping[str, object], where: str) -> list[PartUnderTest]:
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
    return [PartUnderTest(entry, options) for entry, options in zip(asked, chosen, strict=True)]


class CheckFailure(AssertionError):
    """A part does not satisfy a check.

    Args:
        found: what is wrong, with numbers.
        advice: what to do about it.
    """

    def __init__(self, found: str, advice: str) -> None:
        self.found, self.advice = found, advice
        super().__init__(f"{found}\nwhat to do: {advice}")


def require(condition: object, found: str, advice: str) -> None:
    """Fail unless something is so."""
    if not bool(condition):
        raise CheckFailure(found, advice)


CheckState: TypeAlias = Literal["ok", "failed", "skipped"]


_OTHERS: Final = frozenset({"tensorflow", "keras", "numpy", "tfsm"})
"""Packages whose lines an author cannot mend."""


@dataclass(frozen=True)
class Check:
    """One thing that must be so; known by name, imported when it is run."""

    kind: CheckKind
    target: str

    @property
    def name(self) -> str:
        """What must be so, in words."""
        return self.target.partition(":")[2].replace("_", " ")

    def __call__(self, subject: PartUnderTest | PluginUnderTest) -> None:
        """Raise `Failed` where it is not so."""
        module, _, function = self.target.partition(":")
        getattr(importlib.import_module(f"tfsm.testing.{module}"), function)(subject)


@dataclass(frozen=True)
class CheckResult:
    """What came of one check."""

    subject: str
    check: str
    state: CheckState
    found: str = ""
    advice: str = ""


def _listed(kind: CheckKind, **modules: str) -> tuple[Check, ...]:
    return tuple(Check(kind, f"{module}:{name}") for module, names in modules.items() for name in names.split())


_COMMON: Final = "can_be_built is_documented registered_options_match_the_class invalid_options_are_rejected"
_FROZEN: Final = f"{_COMMON} is_a_frozen_dataclass"

CHECKS: Final[Mapping[CheckKind, tuple[Check, ...]]] = MappingProxyType(
    {
        "plugin": _listed(
            "plugin",
            check_common="""
                loads_and_registers_parts
                declares_the_interface_version
                registers_without_importing_tensorflow
            """,
        ),
        "mutation": _listed(
            "mutation",
            check_common=_FROZEN,
            check_mutations="""
                zero_intensity_returns_the_parent
                same_seed_gives_the_same_child
                different_seeds_give_different_children
                children_do_not_depend_on_the_batch
                children_are_finite_with_the_parent_shape
                children_are_finite_for_degenerate_experience
                uses_no_global_random_state
                behaves_the_same_after_pickling
                only_trainable_weights_change
                layer_shares_are_respected
                can_be_compiled
            """,
            check_runs="runs_are_identical_alone_and_in_lock_step",
        ),
        "domain": _listed(
            "domain",
            check_common=_FROZEN,
            check_domains="""
                network_returns_a_new_built_model
                evaluation_shapes_are_correct
                evaluations_are_finite
                same_seed_gives_the_same_evaluation
                evaluations_do_not_depend_on_the_batch
                fitness_and_solved_are_consistent
                fitness_distinguishes_genomes
                experience_converts_to_network_inputs
                uses_no_global_random_state
                behaves_the_same_after_pickling
            """,
            check_runs="runs_are_identical_alone_and_in_lock_step",
        ),
        "selection": _listed(
            "selection",
            check_common=_FROZEN,
            check_selections="""
                choices_are_valid_indices
                same_seed_gives_the_same_choice
                choices_do_not_depend_on_the_batch
                handles_broken_individuals
                acceptance_is_elementwise
                choice_can_be_compiled
                uses_no_global_random_state
                behaves_the_same_after_pickling
            """,
            check_runs="runs_are_identical_alone_and_in_lock_step",
        ),
        "observer": _listed(
            "observer",
            check_common=_COMMON,
            check_observers="""
                event_methods_have_the_right_signature
                handles_a_complete_experiment
                handles_an_experiment_that_ends_immediately
                handles_an_experiment_without_a_directory
                concurrent_experiments_do_not_interfere
                does_not_modify_its_arguments
                uses_no_global_random_state
                can_be_pickled_before_the_start
            """,
            check_runs="does_not_affect_the_run",
        ),
    }
)


def checks_for(kind: CheckKind) -> tuple[Check, ...]:
    """Return the checks for a whole plugin, or for a kind of part."""
    return CHECKS[kind]


def run_checks(subject: PartUnderTest | PluginUnderTest, checks: Sequence[Check] = ()) -> Iterator[CheckResult]:
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
            yield CheckResult(subject.name, check.name, "skipped", f"not so: {first.name}")


def check(part: object, kind: Kind) -> list[CheckResult]:
    """Check a part that no plugin registers yet.

    >>> from tfsm.testing import check
    >>> class Deaf: "Hears nothing."
    >>> check(Deaf(), "observer")[0].state
    'failed'
    """
    return list(run_checks(PartUnderTest(Entry.from_instance(kind, part))))


def _outcome(check: Check, subject: PartUnderTest | PluginUnderTest) -> CheckResult:
    def said(state: CheckState, found: str = "", advice: str = "") -> CheckResult:
        return CheckResult(subject.name, check.name, state, found, advice)

    try:
        check(subject)
    except CheckFailure as failure:
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
