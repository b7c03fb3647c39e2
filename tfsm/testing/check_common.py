"""Options, values, pickling, randomness, whole plugin."""

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
from tfsm.plugins.hookspecs import HOOKS_VERSION
from tfsm.plugins.options import describe, union_members, validate
from tfsm.testing.suite import CheckFailure, CheckKind, PartUnderTest, PluginUnderTest, require

_NONSENSE: Final[object] = {"nonsense": ["of", 1, {"kind": "or other"}]}
_CANDIDATES: Final[tuple[object, ...]] = (-1, 0, 1, 7, -0.5, 0.5, 1.5, True, False, "", "nonsense", None)
"""Values of all kinds; those that an option's type and constraints let through are tried."""


def is_documented(subject: PartUnderTest) -> None:
    """Listings can say what it is, and what each option does."""
    require(
        type(subject.part).__doc__ and not str(type(subject.part).__doc__).startswith(f"{subject.title}("),
        f"the class {subject.title} has no docstring",
        "say in one line what it does",
    )
    if subject.entry.instance is not None:
        return
    require(subject.entry.description, "it is registered without a description", "registry.add(..., description=...)")
    for option in describe(subject.entry.options) if subject.entry.options else ():
        require(
            option.help,
            f"the option {option.name!r} is not explained",
            f"write {option.name}: Annotated[..., Doc('what it does')]",
        )


def registered_options_match_the_class(subject: PartUnderTest) -> None:
    """The dataclass that is registered has the names and defaults that the part has."""
    options = subject.entry.options
    # A part that has an option called as one of its methods is holds its options apart.
    own = getattr(subject.part, "options", subject.part)
    if options is None or not is_dataclass(own):
        return
    registered = {option.name: option.default for option in describe(options)}
    found = {field.name: getattr(own, field.name) for field in fields(own) if field.init}
    expected = {**registered, **subject.options}
    different = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name, _NONSENSE) != found.get(name, _NONSENSE)
    )
    require(
        not different,
        f"{options.__name__} is registered, and {type(own).__name__} differs from it in {', '.join(different)}",
        f"derive the class from its options, class {subject.title}({options.__name__}), so that there is one list",
    )


def invalid_options_are_rejected(subject: PartUnderTest) -> None:
    """A value of a wrong kind is a message; one that its type lets through can be used, or is a message, too."""
    if subject.entry.instance is not None:
        return
    options = subject.entry.with_options().options
    if options is None:
        return
    hints = get_type_hints(options, include_extras=True)
    for option in describe(options):
        _nonsense_is_refused(options, option.name)
        if not option.required and option.default is not None:
            _default_is_allowed(options, option.name, option.default)
        for value in _allowed(options, option.name, hints[option.name]):
            _is_made_or_refused(subject, option.name, value)


def _nonsense_is_refused(options: type, name: str) -> None:
    try:
        validate(options, {name: _NONSENSE}, where="")
    except TfsmError as error:
        require(
            "cannot be set" not in str(error), str(error), "use types that TOML has: numbers, text, bool, tuples, Path"
        )
    else:
        raise CheckFailure(f"the option {name!r} takes anything", "say its type, such as Annotated[float, Gt(0)]")


def _default_is_allowed(options: type, name: str, default: object) -> None:
    try:
        validate(options, {name: default}, where="")
    except TfsmError as error:
        raise CheckFailure(f"its own default is refused:{error}", "let type, constraints and default agree") from error


def _allowed(options: type, name: str, hint: Any) -> Iterator[object]:
    literals = [value for kind in union_members(hint) if get_origin(kind) is Literal for value in get_args(kind)]
    for value in (*_CANDIDATES, *literals):
        try:
            yield validate(options, {name: value}, where="")[name]
        except TfsmError:
            continue


def _is_made_or_refused(subject: PartUnderTest, name: str, value: object) -> None:
    try:
        subject.made(**{name: value})
    except TfsmError:
        return
    except Exception as error:
        raise CheckFailure(
            f"{name}={value!r} is right by its type, and raises {type(error).__name__}: {error}",
            "constrain the option (Annotated[int, Ge(1)]), or raise a tfsm.TfsmError that says what is expected",
        ) from error


def is_a_frozen_dataclass(subject: PartUnderTest) -> None:
    """The part never changes, is equal to another one with the same options, and can be a key."""
    part, advice = subject.part, "decorate the class with @dataclass(frozen=True, kw_only=True)"
    require(is_dataclass(part), f"{subject.title} is no dataclass", advice)
    try:
        part.anything_at_all = 1
    except FrozenInstanceError:
        pass
    else:
        raise CheckFailure(f"{subject.title} can be changed", advice)
    require(subject.made() == part, f"two {subject.title} with the same options are not equal", advice)
    try:
        hash(part)
    except TypeError as error:
        raise CheckFailure(
            f"{subject.title} cannot be hashed: {error}", "use tuples for options instead of lists"
        ) from error


def pickle_round_trip(part: Any) -> Any:
    """Return a part as it arrives in another process."""
    advice = (
        "define the class at the top of an importable module, and keep what cannot be sent (windows, files, "
        "compiled functions) out of the fields, or give it a __reduce__ that returns the class and its options"
    )
    try:
        return pickle.loads(pickle.dumps(part))
    # Whatever a part's own pickling raises.
    except Exception as error:
        raise CheckFailure(
            f"{type(part).__name__} cannot be pickled: {type(error).__name__}: {error}", advice
        ) from error


def require_pickle_round_trip(part: Any) -> Any:
    """Return a part as it arrives in another process, once it is known to be equal to the one that was sent."""
    again = pickle_round_trip(part)
    require(
        again == part and hash(again) == hash(part),
        f"{type(part).__name__} is another one after pickling: {again!r} instead of {part!r}",
        "let __reduce__ or __getstate__ keep all options",
    )
    return again


METHODS: Final[Mapping[CheckKind, tuple[str, ...]]] = {
    "mutation": ("__call__",),
    "domain": ("network", "evaluate", "observe"),
    "selection": ("choose", "accepts"),
}

STATEFUL_METHODS: Final = ("init", "select", "admit")
"""Those of a selection scheme that looks at more than fitness."""


def can_be_built(subject: PartUnderTest) -> None:
    """The part can be imported and made, and has the methods of its kind."""
    missing = [f"--set {name}=VALUE" for name in missing_options(subject)]
    require(not missing, f"{subject.name} has options without a default", f"give {' '.join(missing)}")
    part = _made(lambda: subject.part, "let the class be made from its options alone, as keyword arguments")
    if subject.kind == "observer":
        observes = any(_has(part, method) for method in OBSERVER_METHODS)
        hint = f"subclass tfsm.Observer, or define one of {', '.join(OBSERVER_METHODS)}"
        require(observes, f"{subject.title} is not an observer", hint)
        return
    wanted = STATEFUL_METHODS if subject.kind == "selection" and _has(part, "select") else METHODS[subject.kind]
    lacks = [name for name in wanted if not _has(part, name)]
    require(not lacks, f"{subject.title} has no method {', '.join(lacks)}", "see 'What a part must be' in the docs")
    if subject.kind == "domain":
        _made(lambda: subject.network, "let network() return a Keras model that is built")


def missing_options(subject: PartUnderTest) -> list[str]:
    """Return the options that must be given and are not."""
    if subject.entry.instance is not None or subject.entry.options is None:
        return []
    return [o.name for o in describe(subject.entry.options) if o.required and o.name not in subject.options]


def _made(make: Any, advice: str) -> Any:
    try:
        return make()
    except TfsmError as error:
        raise CheckFailure(str(error), advice) from error


def _has(part: object, method: str) -> bool:
    return callable(getattr(part, method, None))


_PROGRAM = "import importlib, sys; importlib.import_module(sys.argv[1]); sys.exit('tensorflow' in sys.modules)"


def loads_and_registers_parts(subject: PluginUnderTest) -> None:
    """The plugin is loaded, and registers something."""
    info = subject.info
    if info.state == "broken":
        raise CheckFailure(str(info), "mend what the message says; docs/plugins.md lists what such messages mean")
    require(info.state == "loaded", str(info), "enable it: --disable-plugin or TFSM_DISABLE_PLUGINS names it")
    require(
        any(info.registers.values()),
        f"the module {subject.module!r} registers nothing",
        "implement a hook such as tfsm_register_mutations(registry), marked with @hookimpl",
    )


def declares_the_interface_version(subject: PluginUnderTest) -> None:
    """It states what it was written for, so that a later tfsm can tell."""
    require(
        subject.info.hooks is not None,
        f"the module {subject.module!r} does not say which version of the plugin interface it was written for",
        f"write tfsm_hooks = {HOOKS_VERSION} into it: then a tfsm with another interface says so instead of failing",
    )


def registers_without_importing_tensorflow(subject: PluginUnderTest) -> None:
    """Importing the plugin is quick, because every command does that."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([sys.executable, "-c", _PROGRAM, subject.module], env=environ, check=False)
    require(
        ended.returncode == 0,
        f"importing {subject.module!r} imports TensorFlow: tfsm --help and every listing would take seconds",
        "register 'module:Class' strings, and keep the dataclasses of options in a module that imports no TensorFlow",
    )


TOLERANCE = 1e-4


def find_differences(mine: Nest, theirs: Nest, *, exact: bool = False) -> list[str]:
    """Say where two nests of tensors differ; unless told to be exact, by more than rounding can explain."""
    try:
        tf.nest.assert_same_structure(mine, theirs)
    except (TypeError, ValueError):
        return [f"{type(mine).__name__} and {type(theirs).__name__} are not made of the same tensors"]
    found = [_difference(np.asarray(a), np.asarray(b), exact) for a, b in _pairs(mine, theirs)]
    return [said for said in found if said]


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
"""Global seeds of TensorFlow, for doing something twice: whatever differs then depends on them."""


@contextmanager
def watch_global_generators(seed: int = SEEDS[0]) -> Iterator[list[str]]:
    """Yield a list that holds, after the block, the names of the global generators that the block was seen to use.

    Operations that draw within a graph are not seen: for these, do it twice with different `SEEDS` and compare.
    """
    used: list[str] = []
    python, numpy = random.getstate(), _numpy_state()
    generator = tf.random.get_global_generator().state.numpy()
    # The eager operations without a seed of their own count on from the global seed: what comes next tells.
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
    """Do something twice, with different global seeds, and return both results."""
    results = []
    for seed in SEEDS:
        with watch_global_generators(seed) as found:
            results.append(make())
        if used is not None:
            used += found
    return results[0], results[1]


def global_generators_used(make: Callable[[], Nest]) -> list[str]:
    """Return the names of the global generators that something uses, which is done twice."""
    used: list[str] = []
    if find_differences(*run_twice(make, used), exact=True):
        used.append("tf.random")
    return list(dict.fromkeys(used))


def require_no_global_generators(used: list[str]) -> None:
    """Fail where a global generator was used."""
    require(
        not used,
        f"it uses the global generators of {' and '.join(used)}",
        "draw from the seed that it is given: by split, uniform and gaussian of tfsm.kernels.random, by "
        "tf.random.stateless_*, or in plain Python by np.random.default_rng(seed)",
    )


def _numpy_state() -> bytes:
    return pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002
