"""The table of checks, the parts and plugins under test, and functions that find them and run the checks."""

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
from tfsm.plugins.options import option_names, validate
from tfsm.plugins.registry import KINDS, Entry, Kind
from tfsm.settings.sources import parse_assignments

if TYPE_CHECKING:
    from tfsm.models.network import Network
    from tfsm.testing.check_domains import TrialEvaluation


CheckKind: TypeAlias = Literal["plugin"] | Kind
"""What can be checked: a whole plugin, or a part of one of the kinds."""


@dataclass(frozen=True, eq=False)
class PartUnderTest:
    """A registered part with its options. What several checks need of it is computed once.

    >>> from tfsm.plugins import load_plugins
    >>> from tfsm.testing import PartUnderTest
    >>> subject = PartUnderTest(load_plugins().mutations["sm-r"], {"tolerance": 0.1})
    >>> subject.name, subject.part.tolerance
    ('mutation:sm-r', 0.1)
    """

    entry: Entry
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> CheckKind:
        """The kind of the part."""
        return self.entry.kind

    @property
    def name(self) -> str:
        """The name in results: `mutation:control`."""
        return f"{self.entry.kind}:{self.entry.name}"

    @property
    def title(self) -> str:
        """The name of its class, for messages."""
        return type(self.part).__name__

    @cached_property
    def part(self) -> Any:
        """The part, built with its options."""
        return self.build()

    def build(self, **changes: Any) -> Any:
        """Build the part again, with some options changed; an instance is returned as it is."""
        from tfsm.plugins.registry import build_part

        return build_part(self.entry, {**self.options, **changes})

    @cached_property
    def network(self) -> Network:
        """A domain's network, or a small one with the same inputs and outputs if that is large."""
        from tfsm.testing.check_mutations import make_network

        return make_network(self.part)

    @cached_property
    def trial(self) -> TrialEvaluation:
        """A domain's evaluation of a few genomes."""
        from tfsm.testing.check_domains import TrialEvaluation

        return TrialEvaluation(self)


@dataclass(frozen=True, eq=False)
class PluginUnderTest:
    """A whole plugin, loaded or broken."""

    info: PluginInfo
    module: str
    """The module that its entry point names."""

    @property
    def kind(self) -> CheckKind:
        """The kind: a plugin."""
        return "plugin"

    @property
    def name(self) -> str:
        """The name in results: `plugin:tfsm-toy`."""
        return f"plugin:{self.info.name}"


PACKAGE: Final = "package"
PREFIXES: Final = (*KINDS, "plugin", PACKAGE)


@dataclass(frozen=True)
class CheckTargets:
    """The parts that a name stands for, and the plugins, if it is the name of a plugin or package.

    >>> from tfsm.plugins import load_plugins
    >>> from tfsm.testing import CheckTargets
    >>> targets = CheckTargets((load_plugins().domains["parity"],))
    >>> [entry.name for entry in targets.parts], targets.plugins
    (['parity'], ())
    """

    parts: tuple[Entry, ...]
    plugins: tuple[PluginUnderTest, ...] = ()


def find_targets(plugins: Plugins, name: str) -> CheckTargets:
    """Find a part by its name, a plugin by its entry point, or a whole package by its distribution.

    Args:
        plugins: the installed plugins.
        name: the name; `mutation:NAME`, `plugin:NAME` or `package:NAME` if it is ambiguous.

    >>> from tfsm.plugins import load_plugins
    >>> from tfsm.testing import find_targets
    >>> [entry.name for entry in find_targets(load_plugins(), "plugin:tfsm-toy").parts]
    ['simple-easy', 'simple-medium', 'simple-washout']
    """
    prefix, _, rest = name.partition(":")
    if rest and prefix in PREFIXES:
        targets = _find_by_prefix(plugins, prefix, rest)
        if targets is None:
            raise UnknownNameError(prefix, rest, _known_names(plugins, prefix))
        return targets
    every = {prefix: _find_by_prefix(plugins, prefix, name) for prefix in PREFIXES}
    matches = {prefix: targets for prefix, targets in every.items() if targets is not None}
    if "plugin" in matches and matches["plugin"] == matches.get(PACKAGE):
        del matches[PACKAGE]
    if len(matches) > 1:
        forms = " or ".join(f"{prefix}:{name}" for prefix in matches)
        raise TfsmError(f"{name!r} is ambiguous: use {forms}")
    if not matches:
        known = {known for prefix in PREFIXES for known in _known_names(plugins, prefix)}
        raise UnknownNameError("part, plugin or package", name, known)
    return next(iter(matches.values()))


def _find_by_prefix(plugins: Plugins, prefix: str, name: str) -> CheckTargets | None:
    for kind in KINDS:
        if prefix == kind:
            parts = plugins.parts(kind)
            return CheckTargets((parts[name],)) if name in parts else None
    infos = [info for info in plugins.infos if name == (info.name if prefix == "plugin" else info.distribution)]
    return (
        CheckTargets(tuple(_registered_parts(plugins, infos)), tuple(map(_plugin_under_test, infos))) if infos else None
    )


def _registered_parts(plugins: Plugins, infos: Iterable[PluginInfo]) -> Iterable[Entry]:
    return (plugins.parts(kind)[name] for info in infos for kind in KINDS for name in info.registers[kind])


def _plugin_under_test(info: PluginInfo) -> PluginUnderTest:
    """Return a plugin with its module, which the entry point names."""
    points = [point for point in entry_points(group=PROJECT) if point.name == info.name]
    exact = [point for point in points if point.dist is not None and point.dist.name == info.distribution]
    return PluginUnderTest(info, (exact or points)[0].module if points else info.name)


def _known_names(plugins: Plugins, prefix: str) -> set[str]:
    for kind in KINDS:
        if prefix == kind:
            return set(plugins.parts(kind))
    return {info.name if prefix == "plugin" else info.distribution for info in plugins.infos}


def parts_under_test(entries: Sequence[Entry], sets: Iterable[str] = ()) -> list[PartUnderTest]:
    """Return the parts with the options of `--set`."""
    return build_parts_under_test(entries, {one.key: one.value for one in parse_assignments(list(sets))}, "--set")


def build_parts_under_test(entries: Sequence[Entry], values: Mapping[str, object], where: str) -> list[PartUnderTest]:
    """Return the parts with options by name. Each option must belong to at least one part."""
    parts = [entry.with_options() for entry in entries]
    chosen: list[dict[str, object]] = [{} for _ in parts]
    known = [option_names(entry.options) for entry in parts]
    for key, value in values.items():
        matches = [
            (index, name)
            for index, entry in enumerate(parts)
            for name in known[index]
            if key in (name, f"{entry.name}.{name}")
        ]
        if not matches:
            every = dict.fromkeys(name for names in known for name in names)
            hint = suggestion(key, every) if every else "; there are no options"
            raise TfsmError(f"{where} {key}={value}: no such option{hint}")
        for index, name in matches:
            options = parts[index].options
            assert options is not None
            chosen[index] |= validate(options, {name: value}, where=where)
    return [PartUnderTest(entry, options) for entry, options in zip(parts, chosen, strict=True)]


class CheckFailure(AssertionError):
    """A part does not pass a check.

    Args:
        message: what is wrong, with numbers.
        advice: how to fix it.

    >>> from tfsm.testing import CheckFailure
    >>> print(CheckFailure("a child has 3 NaNs", "divide by a sensitivity that is not zero"))
    a child has 3 NaNs
    how to fix it: divide by a sensitivity that is not zero
    """

    def __init__(self, message: str, advice: str) -> None:
        self.message, self.advice = message, advice
        super().__init__(f"{message}\nhow to fix it: {advice}")


def require(condition: object, message: str, advice: str) -> None:
    """Raise a `CheckFailure` unless a condition is true."""
    if not bool(condition):
        raise CheckFailure(message, advice)


CheckState: TypeAlias = Literal["ok", "failed", "skipped"]


_LIBRARIES: Final = frozenset({"tensorflow", "keras", "numpy", "tfsm"})
"""Packages whose code the author of a part cannot change."""


@dataclass(frozen=True)
class Check:
    """One check: a function of `tfsm.testing`, imported when it is run.

    >>> from tfsm.testing import Check
    >>> Check("mutation", "check_mutations:zero_intensity_returns_the_parent").name
    'zero intensity returns the parent'
    """

    kind: CheckKind
    target: str

    @property
    def name(self) -> str:
        """The requirement, in words."""
        return self.target.partition(":")[2].replace("_", " ")

    def __call__(self, subject: PartUnderTest | PluginUnderTest) -> None:
        """Raise a `CheckFailure` if the part does not pass."""
        module, _, function = self.target.partition(":")
        getattr(importlib.import_module(f"tfsm.testing.{module}"), function)(subject)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    >>> from tfsm.testing import CheckResult
    >>> CheckResult("mutation:sm-r", "can be compiled", "ok").state
    'ok'
    """

    subject: str
    check: str
    state: CheckState
    message: str = ""
    advice: str = ""


def _checks(kind: CheckKind, **modules: str) -> tuple[Check, ...]:
    return tuple(Check(kind, f"{module}:{name}") for module, names in modules.items() for name in names.split())


_COMMON: Final = "can_be_built is_documented registered_options_match_the_class invalid_options_are_rejected"
_FROZEN: Final = f"{_COMMON} is_a_frozen_dataclass"
_FROZEN_WITH_DEFAULTS: Final = f"{_FROZEN} registered_defaults_are_valid"

CHECKS: Final[Mapping[CheckKind, tuple[Check, ...]]] = MappingProxyType(
    {
        "plugin": _checks(
            "plugin",
            check_common="""
                loads_and_registers_parts
                declares_the_interface_version
                registers_without_importing_tensorflow
            """,
        ),
        "mutation": _checks(
            "mutation",
            check_common=_FROZEN_WITH_DEFAULTS,
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
        "domain": _checks(
            "domain",
            check_common=_FROZEN_WITH_DEFAULTS,
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
        "selection": _checks(
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
        "observer": _checks(
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
    """Return the checks for a plugin or for a kind of part.

    >>> from tfsm.testing import checks_for
    >>> checks_for("selection")[0].name
    'can be built'
    """
    return CHECKS[kind]


def run_checks(subject: PartUnderTest | PluginUnderTest, checks: Sequence[Check] = ()) -> Iterator[CheckResult]:
    """Run checks, by default all for the kind; if the first one fails, the others are skipped.

    >>> from tfsm.plugins import load_plugins
    >>> from tfsm.testing import PartUnderTest, checks_for, run_checks
    >>> subject = PartUnderTest(load_plugins().selections["tournament"])
    >>> [result.state for result in run_checks(subject, checks_for("selection")[:2])]
    ['ok', 'ok']
    """
    first, *rest = checks or checks_for(subject.kind)
    result = _run_check(first, subject)
    yield result
    for check in rest:
        if result.state == "ok":
            yield _run_check(check, subject)
        else:
            yield CheckResult(subject.name, check.name, "skipped", f"failed: {first.name}")


def check(part: object, kind: Kind) -> list[CheckResult]:
    """Check an object that no plugin registers.

    >>> from tfsm.testing import check
    >>> class Empty: "An observer without methods."
    >>> check(Empty(), "observer")[0].state
    'failed'
    """
    return list(run_checks(PartUnderTest(Entry.from_instance(kind, part))))


def _run_check(check: Check, subject: PartUnderTest | PluginUnderTest) -> CheckResult:
    def result(state: CheckState, message: str = "", advice: str = "") -> CheckResult:
        return CheckResult(subject.name, check.name, state, message, advice)

    try:
        check(subject)
    except CheckFailure as failure:
        return result("failed", failure.message, failure.advice)
    except TfsmError as error:
        return result("failed", str(error), "fix what the message says")
    # Any exception: the part is third-party code, and the other checks may still be useful.
    except Exception as error:
        return result("failed", f"it raised {_describe_error(error)}", f"fix {_find_line(error)}")
    return result("ok")


def _describe_error(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"


def _find_line(error: Exception) -> str:
    """Return the line that the author can change: the last one outside of tfsm and libraries."""
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    changeable = [frame for frame in frames if not _LIBRARIES & set(Path(frame.filename).parts)]
    frame = (changeable or frames)[-1]
    return f"line {frame.lineno} of {frame.filename}"
