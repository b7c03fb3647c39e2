"""The pytest plugin: a marker that names the part under test, the checks as a fixture, and fixtures for own tests.

It is installed with tfsm and does nothing in tests that do not use it. Importing it does not import TensorFlow.
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
    """Register the marker."""
    config.addinivalue_line("markers", f"{MARKER}(name, **options): the part, plugin or package under test")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Create one test per check."""
    if "tfsm_check" not in metafunc.fixturenames:
        return
    from tfsm.testing.suite import checks_for

    marker = metafunc.definition.get_closest_marker(MARKER)
    targets = _find_targets(marker, pytest.Collector.CollectError)
    several = len(targets) > 1
    cases: list[Any] = []
    for subject in targets:
        for check in checks_for(subject.kind):
            name = f"{subject.name} {check.name}" if several else check.name
            cases.append(pytest.param((subject, check), id=name.replace(" ", "-")))
    metafunc.parametrize("tfsm_check", cases, indirect=True)


@pytest.fixture
def tfsm_check(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Return a function that runs one check of what the marker names."""
    subject: PartUnderTest | PluginUnderTest
    check: Check
    subject, check = request.param
    return lambda: check(subject)


@pytest.fixture
def tfsm_part_under_test(request: pytest.FixtureRequest) -> PartUnderTest:
    """Return the part that the marker names."""
    from tfsm.testing.suite import PartUnderTest

    parts = [
        target for target in _find_targets(request.node.get_closest_marker(MARKER)) if isinstance(target, PartUnderTest)
    ]
    if len(parts) != 1:
        pytest.fail(f"marker {MARKER} names {len(parts)} parts, expected one: {_USE}", pytrace=False)
    return parts[0]


@pytest.fixture
def tfsm_part(tfsm_part_under_test: PartUnderTest) -> Any:
    """Return the part, built with the marker's options."""
    return tfsm_part_under_test.part


@pytest.fixture
def tfsm_network(tfsm_part_under_test: PartUnderTest) -> Network:
    """Return the network of a domain, or a small one for an operator."""
    from tfsm.models.network import Network
    from tfsm.testing.check_mutations import plain_model

    return tfsm_part_under_test.network if tfsm_part_under_test.kind == "domain" else Network(plain_model())


@pytest.fixture
def tfsm_children(tfsm_part_under_test: PartUnderTest, tfsm_network: Network) -> Callable[..., Any]:
    """Return a function from an intensity and a count to a parent `[P]` and its children `[count, P]`."""
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
        part, network = tfsm_part_under_test.part, tfsm_part_under_test.network
        genomes = tf.constant(genomes, network.dtype)
        return tf.nest.map_structure(np.asarray, evaluate_as_engine(part, network, genomes, seeds(len(genomes), seed)))

    return evaluate


@pytest.fixture
def tfsm_choose(tfsm_part_under_test: PartUnderTest) -> Callable[..., Any]:
    """Return a function from a population's fitness and a count to parents and replaced individuals, `[count]` each."""
    from tfsm.testing.check_selections import sample_choices

    return lambda fitness, count=100: sample_choices(tfsm_part_under_test.part, fitness, count)


@pytest.fixture
def tfsm_notify(tfsm_part_under_test: PartUnderTest) -> Callable[[Path], Any]:
    """Return a function from a run directory to an observer that has observed a made-up experiment there."""
    from tfsm.testing.check_observers import example_events, notify

    def observe(directory: Path) -> Any:
        observer = tfsm_part_under_test.build()
        for method, event in example_events(directory):
            notify(observer, method, event)
        return observer

    return observe


def _find_targets(
    marker: pytest.Mark | None, error: Callable[[str], BaseException] = pytest.fail.Exception
) -> list[PartUnderTest | PluginUnderTest]:
    """Return what a marker names, or raise an error without a traceback."""
    from tfsm.errors import TfsmError
    from tfsm.plugins import load_plugins
    from tfsm.testing.suite import build_parts_under_test, find_targets

    if marker is None or len(marker.args) != 1:
        raise error(f"name the part under test with a marker: {_USE}")
    try:
        targets = find_targets(load_plugins(), str(marker.args[0]))
        return [*targets.plugins, *build_parts_under_test(targets.parts, marker.kwargs, f"{MARKER} marker:")]
    except TfsmError as problem:
        raise error(f"{problem}\nis the package installed? pip install --editable '.[test]'") from problem
