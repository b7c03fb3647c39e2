"""Adaptive intensities."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.domains import OneGenomeNoise, Target
from tests.helpers.engines import evolve, make_engine
from tfsm.evolution.variation import MAX_SCALE, Adaptation
from tfsm.kernels.random import fold_in, root_seed
from tfsm_plugins.mutations.gradient import SafeMutationAbs
from tfsm_plugins.mutations.gradient_free import SafeMutationRescale

SEEDS = fold_in(root_seed(1), tf.range(4_000))


def test_a_scale_is_inherited_with_lognormal_noise() -> None:
    parents = tf.fill([4_000], 3.0)
    found = np.log(Adaptation("self", rate=0.5).inherit(parents, SEEDS).numpy())
    assert found.mean() == pytest.approx(np.log(3.0), abs=5 * 0.5 / np.sqrt(4_000))
    assert found.std() == pytest.approx(0.5, rel=0.06)


def test_a_scale_is_bounded() -> None:
    extreme = tf.fill([4_000], MAX_SCALE)
    assert float(tf.reduce_max(Adaptation("self", rate=2.0).inherit(extreme, SEEDS))) == MAX_SCALE


@pytest.mark.slow
def test_a_scale_does_not_depend_on_how_many_runs_share_the_batch() -> None:
    variation = make_engine(adaptation=Adaptation("divergence", rate=0.3, target=0.01)).variation
    scales = tf.constant(np.random.default_rng(0).lognormal(size=999), tf.float32)
    divergences = tf.constant(np.random.default_rng(1).lognormal(size=999), tf.float32)
    seeds = SEEDS[:999]
    together = variation.inherit_scale(scales, seeds), variation.correct_scale(scales, divergences)
    pairs = [slice(start, start + 3) for start in range(0, 999, 3)]
    alone = [
        tf.concat([variation.inherit_scale(scales[part], seeds[part]) for part in pairs], axis=0),
        tf.concat([variation.correct_scale(scales[part], divergences[part]) for part in pairs], axis=0),
    ]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("gain", [0.1, 7.0])
def test_corrections_converge_to_the_target_divergence(gain: float) -> None:
    adaptation = Adaptation("divergence", rate=0.3, target=0.02)
    scale = tf.constant([1.0])
    for _ in range(60):
        scale = adaptation.correct(scale, gain * scale**2)
    assert float(gain * scale[0] ** 2) == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize("divergence", [0.0, float("nan"), float("inf")])
def test_corrections_are_bounded_for_extreme_divergences(divergence: float) -> None:
    corrected = Adaptation("divergence", rate=0.2, target=0.01).correct(tf.constant([1.0]), tf.constant([divergence]))
    assert np.exp(-1.0) - 1e-6 <= float(corrected[0]) <= np.exp(1.0) + 1e-6
    assert (float(corrected[0]) > 1) == (divergence == 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutation", "mode"),
    [
        pytest.param(OneGenomeNoise(), "self", marks=pytest.mark.slow),
        (SafeMutationAbs(), "divergence"),
        pytest.param(SafeMutationRescale(), "self", marks=pytest.mark.slow),
    ],
)
def test_an_adaptive_run_is_the_same_alone(mutation: object, mode: str) -> None:
    adaptation = Adaptation(mode, rate=0.3, target=0.01)  # type: ignore[arg-type]
    both, recorder = evolve(make_engine(mutation=mutation, adaptation=adaptation, seed=5), runs=2, evaluations=40)
    second = make_engine(mutation=mutation, adaptation=adaptation, seed=5, runs=1)
    alone, _ = evolve(second, runs=2, evaluations=40)
    for one, other in zip(both, alone, strict=True):
        np.testing.assert_array_equal(one.champion, other.champion)
    used = [line["intensity"] for line in recorder.metrics if line["run"] == 0 and line["intensity"] is not None]
    assert len(set(used)) > 1


@pytest.mark.slow
def test_children_reach_the_target_divergence() -> None:
    adaptation = Adaptation("divergence", rate=0.3, target=1e-3)
    engine = make_engine(Target(near=0.0), intensity=5.0, adaptation=adaptation)
    _, recorder = evolve(engine, evaluations=300, log_every=100)
    last = [line["divergence_quantiles"][2] for line in recorder.metrics if line["evaluations"] == 300]
    assert np.median(last) == pytest.approx(1e-3, rel=0.9)
    assert float(engine.state.run_intensity_scale[0]) < 0.1
