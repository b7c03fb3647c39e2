"""Divergence and sensitivity in the log, compared with closed forms for a linear unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.domains import Target
from tests.helpers.engines import evolve, make_engine
from tfsm.evolution.divergence import MAX_PROBES, probe_count
from tfsm.evolution.engine import Engine
from tfsm.evolution.reporter import quartiles, spread
from tfsm.interfaces import Child, Nest, Tensor
from tfsm.kernels.random import fold_in, gaussian, root_seed, split
from tfsm.models.genome import Section
from tfsm.models.network import Network
from tfsm.utils.files import to_json
from tfsm_plugins.mutations.gradient import SafeMutationAbs, SafeMutationSecondOrder, SafeMutationSum
from tfsm_plugins.mutations.gradient_free import Control, SafeMutationRescale
from tfsm_plugins.selections.steady_state import HillClimber

MODES: dict[str, dict[str, Any]] = {
    "xla, kept": {},
    "xla": {"reuse": False},
    "graph, one by one, kept": {"compile": "graph", "one_by_one": True},
    "graph, one by one": {"compile": "graph", "one_by_one": True, "reuse": False},
}


@dataclass(frozen=True, kw_only=True)
class AddIntensity:
    """Add the intensity itself to every weight; an operator whose divergence is known."""

    batched: ClassVar[bool] = True

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        return parent + intensity


@dataclass(frozen=True, kw_only=True)
class InfiniteOutputs(AddIntensity):
    """Makes the outputs of every child infinite."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        return parent + np.inf


def evolve_lines(engine: Engine, evaluations: int = 41) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Evolve, and yield the last line of each run with its population."""
    _, recorder = evolve(engine, evaluations=evaluations, log_every=evaluations)
    yield from zip(recorder.metrics, engine.state.genomes.numpy(), strict=True)


@pytest.mark.parametrize(("log_every", "count"), [(1, 5), (20, 5), (250, 5), (400, 9), (999, 17), (10**9, 17)])
def test_the_number_of_probes_is_limited(log_every: int, count: int) -> None:
    assert probe_count(log_every) == count
    assert probe_count(log_every) % 4 == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutation", "compile"),
    [
        (Control(), "xla"),
        (Control(), "graph"),
        (SafeMutationRescale(), "xla"),
        (SafeMutationSum(), "xla"),
        (SafeMutationSecondOrder(), "graph"),
    ],
    ids=lambda m: m if isinstance(m, str) else type(m).__name__,
)
def test_without_intensity_no_child_diverges(mutation: Any, compile: str) -> None:
    for line, _ in evolve_lines(make_engine(Target(near=0.0), mutation, intensity=0.0, compile=compile)):
        assert line["divergence"] == 0.0
        assert line["divergence_quantiles"] == [0.0] * 5


@pytest.mark.slow
def test_each_quantile_is_the_divergence_of_a_child() -> None:
    engine = make_engine(Target(near=0.0), AddIntensity(), intensity=0.25)
    for line, population in evolve_lines(engine):
        # A unit with the inputs w (its own weights) and (1, 1, 1): the outputs move by sum(w) / 4 and by 3 / 4.
        possible = (np.square(population.sum(axis=1) * 0.25) + 0.75**2) / 2
        quantiles = line["divergence_quantiles"]
        assert quantiles == sorted(quantiles)
        assert all(np.isclose(possible, quantile, rtol=1e-5).any() for quantile in quantiles)
        assert line["divergence"] == pytest.approx(np.mean(quantiles), rel=1e-5), "the quantiles are all five children"


def test_the_probe_makes_the_requested_number_of_children() -> None:
    engine = make_engine(Target(near=0.0), Control())
    lanes = tf.range(2)
    engine.initialize(tf.constant(6), lanes, tf.constant(2), tf.constant(6))
    few, many = (engine.probe(lanes, tf.constant(count))[0].numpy() for count in (5, MAX_PROBES))
    assert (few.shape, many.shape) == ((2, 5), (2, MAX_PROBES))
    np.testing.assert_array_equal(few, many[:, :5])
    assert len(np.unique(many)) == many.size
    assert engine.probe.traces == 1, "whatever the count"


def test_children_with_infinite_outputs_have_no_finite_divergence() -> None:
    for line, _ in evolve_lines(make_engine(Target(near=0.0), InfiniteOutputs())):
        assert line["divergence"] is None
        assert line["divergence_quantiles"] == [None] * 5


def test_broken_children_sort_last_in_quartiles() -> None:
    assert quartiles(np.array([3.0, np.nan, 1.0, 2.0, np.inf])) == pytest.approx([1, 2, 3, np.inf, np.nan], nan_ok=True)
    assert to_json(quartiles(np.array([3.0, np.nan, 1.0, 2.0, np.inf]))) == [1.0, 2.0, 3.0, None, None]
    assert quartiles(np.arange(17.0)[::-1]) == [0, 4, 8, 12, 16]


def test_a_spread_covers_the_weights_of_one_layer() -> None:
    sections = [Section("a", ((0, 101),)), Section("b", ((101, 102), (103, 104)))]
    values = np.concatenate([np.arange(101.0), [3.0, -1.0, 5.0]])
    assert spread(sections, values) == {"a": [5, 50, 95], "b": pytest.approx([3.1, 4.0, 4.9])}
    values[[102, 103]] = np.nan, np.inf
    assert to_json(spread(sections, values)) == {"a": [5, 50, 95], "b": [None, None, None]}


# A linear unit with the inputs w and (1, 1, 1): the mean absolute gradient, and the absolute sum of gradients.
LINEAR_UNIT: dict[str, tuple[Any, Any]] = {
    "abs": (SafeMutationAbs(), lambda w: (np.abs(w) + 1) / 2),
    "sum": (SafeMutationSum(), lambda w: np.abs(w + 1)),
}
DEFAULT_CASES = (("abs", "xla, kept"), ("sum", "graph, one by one"))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(name, mode, marks=() if (name, mode) in DEFAULT_CASES else pytest.mark.slow)
        for name in LINEAR_UNIT
        for mode in MODES
    ],
)
def test_the_sensitivity_of_a_linear_unit_follows_from_its_inputs(name: str, mode: str) -> None:
    mutation, expected = LINEAR_UNIT[name]
    engine = make_engine(Target(near=0.0), mutation, HillClimber(), population=1, **MODES[mode])
    assert engine.reuses_sensitivities is ("kept" in mode)
    for line, ((parent,)) in evolve_lines(engine):
        quantiles = np.quantile(expected(parent), [0.05, 0.5, 0.95])
        assert line["sensitivity"] == {"linear": pytest.approx(quantiles, rel=1e-5)}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["xla", pytest.param("graph, one by one", marks=pytest.mark.slow)])
def test_curvature_is_measured_along_a_random_unit_vector(mode: str) -> None:
    engine = make_engine(Target(near=0.0), SafeMutationSecondOrder(), HillClimber(), population=1, **MODES[mode])
    for run, (line, (parent,)) in enumerate(evolve_lines(engine)):
        _, seed, _ = split(fold_in(root_seed(0), run, -1 - MAX_PROBES * 41), 3)
        noise = gaussian(seed, 3).numpy()
        inputs = np.stack([parent, np.ones(3)])  # [I, P]; the divergence of d is the mean of (x d)^2
        curvature = 2 * inputs.T @ inputs / 2 @ (noise / np.linalg.norm(noise))
        quantiles = np.quantile(np.sqrt(np.abs(curvature)), [0.05, 0.5, 0.95])
        assert line["sensitivity"] == {"linear": pytest.approx(quantiles, rel=1e-4)}


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [Control(), SafeMutationRescale()], ids=lambda m: type(m).__name__)
def test_an_operator_without_sensitivity_logs_none(mutation: Any) -> None:
    engine = make_engine(Target(near=0.0), mutation)
    _, recorder = evolve(engine)
    assert not any("sensitivity" in line for line in recorder.metrics)
    assert recorder.sensitivities == []


@pytest.mark.slow
def test_observers_receive_the_sensitivities_behind_the_quantiles() -> None:
    engine = make_engine(Target(near=0.0), SafeMutationAbs())
    _, recorder = evolve(engine)
    assert [(run, number) for run, number, _ in recorder.sensitivities] == [
        (line["run"], line["evaluations"]) for line in recorder.metrics
    ]
    for line, (_, _, values) in zip(recorder.metrics, recorder.sensitivities, strict=True):
        assert values.shape == (3,)
        assert line["sensitivity"]["linear"] == pytest.approx(np.quantile(values, [0.05, 0.5, 0.95]), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(SafeMutationAbs(), id="kept"),
        pytest.param(SafeMutationSecondOrder(), id="measured", marks=pytest.mark.slow),
    ],
)
def test_the_probe_is_traced_once(mutation: Any) -> None:
    engine = make_engine(Target(near=0.0), mutation)
    evolve(engine, evaluations=100)
    assert engine.probe.traces == 1
    assert engine.step.traces == 1


@dataclass(frozen=True, kw_only=True)
class ReportsOwnMetrics(SafeMutationSecondOrder):
    """Reports its own metrics, some with names that the log uses too."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Child:
        child = super().__call__(network, parent, experience, intensity, seed)
        ones = tf.ones_like(parent[:, 0])
        return Child(child, {"sensitivity": ones, "divergence": ones, "mine": 3.0 * ones})


@pytest.mark.slow
def test_metrics_of_an_operator_do_not_override_those_of_the_log() -> None:
    for line, _ in evolve_lines(make_engine(Target(near=0.0), ReportsOwnMetrics())):
        assert line["mine"] == 3.0
        assert line["divergence"] == pytest.approx(np.mean(line["divergence_quantiles"]), rel=1e-5)
        assert set(line["sensitivity"]) == {"linear"}


@pytest.mark.slow
def test_logging_more_often_changes_no_run() -> None:
    for mutation in (SafeMutationSum(), SafeMutationSecondOrder()):
        engine = make_engine(Target(near=0.0), mutation)
        often, _ = evolve(engine, evaluations=80, log_every=7)
        rarely, _ = evolve(engine, evaluations=80, log_every=80)
        for one, other in zip(often, rarely, strict=True):
            np.testing.assert_array_equal(one.champion, other.champion)
