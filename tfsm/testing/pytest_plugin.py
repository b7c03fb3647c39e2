"""The pytest plugin: a marker that names what is tested, the checks as a fixture, and fixtures to test the rest with.

It is installed with tfsm, and does nothing in tests that do not ask for it: importing it imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tfsm.models.network import Network
    from tfsm.testing.suite import Check, PartUnderTest, PluginUnderTest


MARKER = "tfsm"
_USE = f"@pytest.mark.{MARKER}('mutation:my-noise')"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", f"{MARKER}(name, **options): the part, plugin or package that tfsm_check checks")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of every check."""
    if "tfsm_check" not in metafunc.fixturenames:
        return
    from tfsm.testing.suite import checks_for

    marker = metafunc.definition.get_closest_marker(MARKER)
    found = _subjects(marker, pytest.Collector.CollectError)
    several = len(found) > 1
    cases: list[Any] = []
    for subject in found:
        for check in checks_for(subject.kind):
            name = f"{subject.name} {check.name}" if several else check.name
            cases.append(pytest.param((subject, check), id=name.replace(" ", "-")))
    metafunc.parametrize("tfsm_check", cases, indirect=True)


@pytest.fixture
def tfsm_check(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Return one of the checks of what the marker names, to be called; it raises what an author can act on."""
    subject: PartUnderTest | PluginUnderTest
    check: Check
    subject, check = request.param
    return lambda: check(subject)


@pytest.fixture
def tfsm_part_under_test(request: pytest.FixtureRequest) -> PartUnderTest:
    """Return the one part that the marker names."""
    from tfsm.testing.suite import PartUnderTest

    parts = [one for one in _subjects(request.node.get_closest_marker(MARKER)) if isinstance(one, PartUnderTest)]
    if len(parts) != 1:
        pytest.fail(f"the marker {MARKER} names {len(parts)} parts, expected one: {_USE}", pytrace=False)
    return parts[0]


@pytest.fixture
def tfsm_part(tfsm_part_under_test: PartUnderTest) -> Any:
    """Return the part itself, made with the marker's options."""
    return tfsm_part_under_test.part


@pytest.fixture
def tfsm_network(tfsm_part_under_test: PartUnderTest) -> Network:
    """Return the network of a domain, or a small one for an operator."""
    from tfsm.models.network import Network
    from tfsm.testing.check_mutations import plain_model

    return tfsm_part_under_test.network if tfsm_part_under_test.kind == "domain" else Network(plain_model())


@pytest.fixture
def tfsm_children(tfsm_part_under_test: PartUnderTest, tfsm_network: Network) -> Callable[..., Any]:
    """Return a function from an intensity and a number to a parent `[P]` and so many children `[N, P]` of it."""
    from tfsm.testing.check_mutations import make_siblings

    return lambda intensity=0.05, count=100: make_siblings(tfsm_part_under_test.part, tfsm_network, intensity, count)


@pytest.fixture
def tfsm_evaluate(tfsm_part_under_test: PartUnderTest) -> Callable[..., Any]:
    """Return a function from genomes `[B, P]` and a seed to a domain's evaluation, as arrays."""
    import numpy as np
    import tensorflow as tf

    from tfsm.testing.check_domains import evaluate_as_engine
    from tfsm.testing.check_mutations import seeds

    def evaluate(genomes: Any, seed: int = 0) -> Any:
        own = tf.constant(genomes, tfsm_part_under_test.network.dtype)
        found = evaluate_as_engine(tfsm_part_under_test.part, tfsm_part_under_test.network, own, seeds(len(own), seed))
        return tf.nest.map_structure(np.asarray, found)

    return evaluate


@pytest.fixture
def tfsm_choose(tfsm_part_under_test: PartUnderTest) -> Callable[..., Any]:
    """Return a function from a population's fitness and a number to so many choices: who breeds and who leaves."""
    from tfsm.testing.check_selections import sample_choices

    return lambda fitness, count=100: sample_choices(tfsm_part_under_test.part, fitness, count)


@pytest.fixture
def tfsm_notify(tfsm_part_under_test: PartUnderTest) -> Callable[[Path], Any]:
    """Return a function from a run directory to an observer that has observed a made-up experiment there."""
    from tfsm.testing.check_observers import example_events, notify

    def observe(directory: Path) -> Any:
        observer = tfsm_part_under_test.made()
        for method, event in example_events(directory):
            notify(observer, method, event)
        return observer

    return observe


def _subjects(
    marker: pytest.Mark | None, error: Callable[[str], BaseException] = pytest.fail.Exception
) -> list[PartUnderTest | PluginUnderTest]:
    """Return what a marker names; what is wrong with it is said without a traceback."""
    from tfsm.errors import TfsmError
    from tfsm.plugins import load_plugins
    from tfsm.testing.suite import build_parts_under_test, find_targets

    if marker is None or len(marker.args) != 1:
        raise error(f"say by a marker what is tested: {_USE}")
    try:
        found = find_targets(load_plugins(), str(marker.args[0]))
        return [*found.plugins, *build_parts_under_test(found.parts, marker.kwargs, f"{MARKER} marker:")]
    except TfsmError as problem:
        raise error(f"{problem}\nis the package installed? pip install --editable '.[test]'") from problem
