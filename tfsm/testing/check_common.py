"""Checks for all kinds of parts and for whole plugins, and helpers to compare results and watch random generators."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.observers import OBSERVER_METHODS
from tfsm.interfaces import Nest
from tfsm.plugins import load_plugins
from tfsm.plugins.hookspecs import HOOKS_VERSION
from tfsm.plugins.options import OBJECT, describe, union_members, validate
from tfsm.settings.sources import plugin_source
from tfsm.settings.validation import check_source
from tfsm.testing.suite import CheckFailure, CheckKind, PartUnderTest, PluginUnderTest, require

_NONSENSE: Final[object] = {"nonsense": ["of", 1, {"kind": "or other"}]}
_CANDIDATES: Final[tuple[object, ...]] = (-1, 0, 1, 7, -0.5, 0.5, 1.5, True, False, "", "nonsense", None)
"""Values of many types. Those that an option's type and constraints allow are tried."""


def is_documented(subject: PartUnderTest) -> None:
    """The part and its options have descriptions for listings."""
    require(
        type(subject.part).__doc__ and not str(type(subject.part).__doc__).startswith(f"{subject.title}("),
        f"the class {subject.title} has no docstring",
        "describe in one line what it does",
    )
    if subject.entry.instance is not None:
        return
    require(
        subject.entry.description, "it is registered without a description", "pass registry.add(..., description=...)"
    )
    for option in describe(subject.entry.options) if subject.entry.options else ():
        require(
            option.help,
            f"option {option.name!r} has no help text",
            f"write {option.name}: Annotated[..., Doc('what it does')]",
        )


def registered_options_match_the_class(subject: PartUnderTest) -> None:
    """The registered dataclass has the names and defaults of the part itself."""
    options = subject.entry.options
    # A part with an option named like one of its methods keeps its options in an attribute.
    actual = getattr(subject.part, "options", subject.part)
    if options is None or not is_dataclass(actual):
        return
    registered = {option.name: option.default for option in describe(options)}
    found = {
        field.name: getattr(actual, field.name) for field in fields(actual) if field.init and field.metadata != OBJECT
    }
    expected = {**registered, **subject.options}
    different = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name, _NONSENSE) != found.get(name, _NONSENSE)
    )
    require(
        not different,
        f"the registered {options.__name__} and the class {type(actual).__name__} differ in {', '.join(different)}",
        f"subclass the options: class {subject.title}({options.__name__})",
    )


def invalid_options_are_rejected(subject: PartUnderTest) -> None:
    """Values of the wrong type are rejected; every other value works or raises a `TfsmError`."""
    if subject.entry.instance is not None:
        return
    options = subject.entry.with_options().options
    if options is None:
        return
    hints = get_type_hints(options, include_extras=True)
    for option in describe(options):
        _require_rejection(options, option.name)
        if not option.required and option.default is not None:
            _require_valid_default(options, option.name, option.default)
        for value in _valid_values(options, option.name, hints[option.name]):
            _require_build_or_error(subject, option.name, value)


def _require_rejection(options: type, name: str) -> None:
    try:
        validate(options, {name: _NONSENSE}, where="")
    except TfsmError as error:
        require(
            "cannot be set" not in str(error), str(error), "use types that TOML has: numbers, text, bool, tuples, Path"
        )
    else:
        raise CheckFailure(f"option {name!r} accepts any value", "declare its type, such as Annotated[float, Gt(0)]")


def _require_valid_default(options: type, name: str, default: object) -> None:
    try:
        validate(options, {name: default}, where="")
    except TfsmError as error:
        raise CheckFailure(f"the default is invalid:{error}", "make type, constraints and default agree") from error


def _valid_values(options: type, name: str, hint: Any) -> Iterator[object]:
    literals = [value for kind in union_members(hint) if get_origin(kind) is Literal for value in get_args(kind)]
    for value in (*_CANDIDATES, *literals):
        try:
            yield validate(options, {name: value}, where="")[name]
        except TfsmError:
            continue


def _require_build_or_error(subject: PartUnderTest, name: str, value: object) -> None:
    try:
        subject.build(**{name: value})
    except TfsmError:
        return
    except Exception as error:
        raise CheckFailure(
            f"{name}={value!r} is valid for its type, but raises {type(error).__name__}: {error}",
            "constrain the option (Annotated[int, Ge(1)]), or raise a tfsm.TfsmError that says what is expected",
        ) from error


def is_a_frozen_dataclass(subject: PartUnderTest) -> None:
    """The part is immutable and hashable, and equal to another one with the same options."""
    part, advice = subject.part, "decorate the class with @dataclass(frozen=True, kw_only=True)"
    require(is_dataclass(part), f"{subject.title} is not a dataclass", advice)
    try:
        part.anything_at_all = 1
    except FrozenInstanceError:
        pass
    else:
        raise CheckFailure(f"{subject.title} is mutable", advice)
    require(subject.build() == part, f"two {subject.title} objects with the same options are not equal", advice)
    try:
        hash(part)
    except TypeError as error:
        raise CheckFailure(
            f"{subject.title} cannot be hashed: {error}", "use tuples instead of lists for options"
        ) from error


def registered_defaults_are_valid(subject: PartUnderTest) -> None:
    """The registered intensity or defaults would be valid in a tfsm.toml."""
    source = plugin_source(subject.entry)
    if source is None:
        return
    try:
        check_source(source, load_plugins())
    except TfsmError as error:
        raise CheckFailure(str(error), "fix intensity=... or defaults={...} of registry.add") from error


def pickle_round_trip(part: Any) -> Any:
    """Return a part as another process would receive it."""
    advice = (
        "define the class at the top level of an importable module, and keep what cannot be pickled (windows, files, "
        "compiled functions) out of its fields, or define a __reduce__ that returns the class and its options"
    )
    try:
        return pickle.loads(pickle.dumps(part))
    # Any exception: pickling may be third-party code.
    except Exception as error:
        raise CheckFailure(
            f"{type(part).__name__} cannot be pickled: {type(error).__name__}: {error}", advice
        ) from error


def require_pickle_round_trip(part: Any) -> Any:
    """Return a part as another process would receive it, after checking that it is equal to the original."""
    again = pickle_round_trip(part)
    require(
        again == part and hash(again) == hash(part),
        f"{type(part).__name__} differs after pickling: {again!r} instead of {part!r}",
        "make __reduce__ or __getstate__ keep all options",
    )
    return again


METHODS: Final[Mapping[CheckKind, tuple[str, ...]]] = {
    "mutation": ("__call__",),
    "domain": ("network", "evaluate", "observe"),
    "selection": ("choose", "accepts"),
}

STATEFUL_METHODS: Final = ("init", "select", "admit")
"""The methods of a `StatefulSelection`."""


def can_be_built(subject: PartUnderTest) -> None:
    """The part can be imported and built, and has the methods of its kind."""
    missing = [f"--set {name}=VALUE" for name in missing_options(subject)]
    require(not missing, f"{subject.name} has options without a default", f"give {' '.join(missing)}")
    part = _build(lambda: subject.part, "let the class take its options, and nothing else, as keyword arguments")
    if subject.kind == "observer":
        observes = any(_has(part, method) for method in OBSERVER_METHODS)
        hint = f"subclass tfsm.Observer, or define one of {', '.join(OBSERVER_METHODS)}"
        require(observes, f"{subject.title} is not an observer", hint)
        return
    required = STATEFUL_METHODS if subject.kind == "selection" and _has(part, "select") else METHODS[subject.kind]
    lacks = [name for name in required if not _has(part, name)]
    require(not lacks, f"{subject.title} has no method {', '.join(lacks)}", "see tfsm.interfaces")
    if subject.kind == "domain":
        _build(lambda: subject.network, "return a built Keras model from network()")


def missing_options(subject: PartUnderTest) -> list[str]:
    """Return the required options that were not given."""
    if subject.entry.instance is not None or subject.entry.options is None:
        return []
    return [o.name for o in describe(subject.entry.options) if o.required and o.name not in subject.options]


def _build(make: Any, advice: str) -> Any:
    try:
        return make()
    except TfsmError as error:
        raise CheckFailure(str(error), advice) from error


def _has(part: object, method: str) -> bool:
    return callable(getattr(part, method, None))


_PROGRAM = "import importlib, sys; importlib.import_module(sys.argv[1]); sys.exit('tensorflow' in sys.modules)"


def loads_and_registers_parts(subject: PluginUnderTest) -> None:
    """The plugin loads and registers at least one part."""
    info = subject.info
    if info.state == "broken":
        raise CheckFailure(str(info), "fix what the message says; docs/reference/hooks.md explains the messages")
    require(info.state == "loaded", str(info), "enable it: it is named by --disable-plugin or TFSM_DISABLE_PLUGINS")
    require(
        any(info.registers.values()),
        f"module {subject.module!r} registers nothing",
        "implement a hook such as tfsm_register_mutations(registry), marked with @hookimpl",
    )


def declares_the_interface_version(subject: PluginUnderTest) -> None:
    """The plugin declares the version of the plugin interface that it was written for."""
    require(
        subject.info.hooks is not None,
        f"module {subject.module!r} does not declare the version of the plugin interface",
        f"add tfsm_hooks = {HOOKS_VERSION}: an incompatible tfsm then reports the version instead of failing",
    )


def registers_without_importing_tensorflow(subject: PluginUnderTest) -> None:
    """Importing the plugin is fast, because every command does it."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([sys.executable, "-c", _PROGRAM, subject.module], env=environ, check=False)
    require(
        ended.returncode == 0,
        f"importing {subject.module!r} imports TensorFlow: every command would take seconds longer",
        "register 'module:Class' strings, and define options in a module that does not import TensorFlow",
    )


TOLERANCE = 1e-4


def find_differences(mine: Nest, theirs: Nest, *, exact: bool = False) -> list[str]:
    """Describe where two nests of tensors differ; unless `exact`, by more than rounding errors."""
    try:
        tf.nest.assert_same_structure(mine, theirs)
    except (TypeError, ValueError):
        return [f"{type(mine).__name__} and {type(theirs).__name__} do not have the same structure"]
    found = [_difference(np.asarray(a), np.asarray(b), exact) for a, b in _pairs(mine, theirs)]
    return [text for text in found if text]


def _pairs(mine: Nest, theirs: Nest) -> Any:
    return zip(tf.nest.flatten(mine), tf.nest.flatten(theirs), strict=True)


def _difference(a: np.ndarray, b: np.ndarray, exact: bool) -> str:
    if a.shape != b.shape:
        return f"a tensor of shape {a.shape} instead of {b.shape}"
    if a.dtype.kind not in "fc":
        return "" if (a == b).all() else f"{(a != b).sum()} of {a.size} values differ"
    same = np.array_equal(a, b, equal_nan=True) if exact else np.allclose(a, b, TOLERANCE, TOLERANCE / 10, True)
    with np.errstate(invalid="ignore"):
        return "" if same else f"values differ by up to {np.nanmax(np.abs(a - b), initial=0.0):.3g}"


SEEDS = (11, 12)
"""Global seeds of TensorFlow for two calls: results that differ depend on the global seed."""


@contextmanager
def watch_global_generators(seed: int = SEEDS[0]) -> Iterator[list[str]]:
    """Yield a list that contains, after the block, the names of the global generators that the block used.

    Operations within a graph are not detected: for these, call it twice with different `SEEDS` and compare.
    """
    used: list[str] = []
    python, numpy = random.getstate(), _numpy_state()
    generator = tf.random.get_global_generator().state.numpy()
    # Eager operations without a seed advance a counter of the global seed: the next numbers show whether any ran.
    tf.random.set_seed(seed)
    expected = tf.random.uniform([3]).numpy()
    tf.random.set_seed(seed)
    yield used
    if random.getstate() != python:
        used.append("random")
    if _numpy_state() != numpy:
        used.append("np.random")
    drawn = tf.random.uniform([3]).numpy()
    if (drawn != expected).any() or (tf.random.get_global_generator().state.numpy() != generator).any():
        used.append("tf.random")


def run_twice(make: Callable[[], Nest], used: list[str] | None = None) -> tuple[Nest, Nest]:
    """Call a function twice, with different global seeds, and return both results."""
    results = []
    for seed in SEEDS:
        with watch_global_generators(seed) as found:
            results.append(make())
        if used is not None:
            used += found
    return results[0], results[1]


def global_generators_used(make: Callable[[], Nest]) -> list[str]:
    """Return the names of the global generators that a function uses; it is called twice."""
    used: list[str] = []
    if find_differences(*run_twice(make, used), exact=True):
        used.append("tf.random")
    return list(dict.fromkeys(used))


def require_no_global_generators(used: list[str]) -> None:
    """Raise a `CheckFailure` if a global generator was used."""
    require(
        not used,
        f"it uses the global generators of {' and '.join(used)}",
        "draw from the seed argument: with split, uniform and gaussian of tfsm.kernels.random, with "
        "tf.random.stateless_*, or in plain Python with np.random.default_rng(seed)",
    )


def _numpy_state() -> bytes:
    return pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002
