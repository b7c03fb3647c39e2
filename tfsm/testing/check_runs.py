"""Checks with whole runs: lock step does not change a run, and neither does an observer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import keras
import tensorflow as tf

from tfsm.errors import format_error
from tfsm.evolution.observers import Interval
from tfsm.interfaces import Choice, Evaluation, Nest, Observer, Tensor
from tfsm.kernels.random import uniform
from tfsm.models.network import Network
from tfsm.plugins import Plugins
from tfsm.plugins.registry import KINDS, Parts
from tfsm.runs.result import Result
from tfsm.runs.runner import run_experiment
from tfsm.settings import resolve
from tfsm.testing.check_common import find_differences
from tfsm.testing.check_mutations import INPUTS, OUTPUTS, plain_model
from tfsm.testing.check_selections import population_size
from tfsm.testing.suite import CheckFailure, PartUnderTest, require


@dataclass(frozen=True, kw_only=True)
class StubDomain:
    """Output 0.5 for two random inputs, which differ between individuals."""

    behavior_bounds: ClassVar[tuple[tuple[float, float], ...]] = ((0.0, 1.0),) * 2 * OUTPUTS

    def network(self) -> keras.Model:
        """Return the model that operators are checked with."""
        return plain_model()

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Return minus the squared error; it is never solved."""
        inputs = tf.reshape(uniform(seed, 2 * INPUTS), [-1, 2, INPUTS])
        outputs = tf.reshape(network.rows(genomes, inputs), [-1, 2 * OUTPUTS])
        errors = tf.square(outputs - 0.5)
        error = tf.reduce_sum(errors, axis=-1)
        return Evaluation(-error, error < 0.0, outputs, inputs, -errors)

    def observe(self, experience: Nest) -> Nest:
        """Return the inputs."""
        return experience


@dataclass(frozen=True, kw_only=True)
class StubMutation:
    """Add noise."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child."""
        return parent + intensity * network.noise(seed)


@dataclass(frozen=True, kw_only=True)
class StubSelection:
    """Choose a random parent; the child replaces the worst individual."""

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose at random."""
        parent = tf.cast(uniform(seed, 1)[0] * fitness.shape[-1], tf.int32)
        return Choice(parent, tf.argmin(fitness))

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Accept every child."""
        return tf.ones_like(child, tf.bool)


RUNS = 3
CHILDREN = 8


class MetricsRecorder(Observer):
    """Records the metrics."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, Any]] = []

    def on_interval(self, interval: Interval) -> None:
        """Record them."""
        self.metrics.append(interval.metrics)


def runs_are_identical_alone_and_in_lock_step(subject: PartUnderTest) -> None:
    """A run is bit-for-bit the same alone and together with others."""
    together, recorder = _evolve(subject, RUNS)
    alone, recorder_alone = _evolve(subject, 1)
    for mine, theirs in zip(alone.runs, together.runs, strict=True):
        differences = find_differences(mine.champion, theirs.champion, exact=True)
        require(
            not differences
            and mine.summary() == theirs.summary()
            and _metrics_of(mine.run, recorder_alone) == _metrics_of(mine.run, recorder),
            f"run {mine.run} of {RUNS} differs alone and together with others {'; '.join(differences)}".strip(),
            "let results depend only on one individual and its seed: no state between calls, nothing shared along the "
            "first axis, and no rounding that depends on the size of the batch",
        )


def does_not_affect_the_run(subject: PartUnderTest) -> None:
    """A run is the same with and without the observer, which does not raise."""
    warnings: list[str] = []
    plain, recorder = _evolve(subject, RUNS, observe=False)
    watched, observed = _evolve(subject, RUNS, warn=warnings.append)
    require(
        recorder.metrics == observed.metrics
        and [r.summary() for r in plain.runs] == [r.summary() for r in watched.runs],
        "a run differs when it is observed",
        "do not modify the arguments, and use no global random generator",
    )
    require(
        not warnings,
        "; ".join(warnings),
        "an observer that raises is disabled: handle what you can",
    )


def _evolve(
    subject: PartUnderTest, width: int, *, observe: bool = True, warn: Any = None
) -> tuple[Result, MetricsRecorder]:
    """Run the part together with stubs for the other parts, `width` runs at a time."""
    none: dict[str, Any] = {f"{kind}s": Parts(kind) for kind in KINDS}
    plugins = Plugins(infos=(), **none)
    names: dict[str, str] = {}
    parts = {
        "domain": StubDomain(),
        "mutation": StubMutation(),
        "selection": StubSelection(),
        subject.kind: subject.part,
    }
    for kind in KINDS:
        if kind in parts and kind != "observer":
            plugins, names[kind] = plugins.with_part(kind, parts[kind])
    population = population_size(parts["selection"])
    overrides = {
        "intensity": 0.1,
        "selection": names["selection"],
        "runs": RUNS,
        "population": population,
        "evaluations": population + CHILDREN,
        "log_every": CHILDREN // 2,
        "engine": {"width": width},
    }
    recorder = MetricsRecorder()
    observers: list[Any] = [recorder, subject.build()] if subject.kind == "observer" and observe else [recorder]
    # From the root, so that a tfsm.toml of the author does not apply.
    root = Path(Path.cwd().anchor)
    resolved = resolve(plugins, domain=names["domain"], mutation=names["mutation"], overrides=overrides, cwd=root)
    model = subject.network.model if subject.kind == "domain" else None
    with TemporaryDirectory(prefix="tfsm-check-") as name:
        try:
            result = run_experiment(
                plugins,
                resolved,
                model=model,
                out=Path(name, "run"),
                keep=subject.kind == "observer",
                observers=observers,
                notify=warn or (lambda message: None),
            )
        # Any exception: the part is third-party code.
        except Exception as error:
            raise CheckFailure(
                f"a run fails: {format_error(error)}", "fix what the other checks report first"
            ) from error
    return result, recorder


def _metrics_of(run: int, recorder: MetricsRecorder) -> list[dict[str, Any]]:
    """Return a run's metrics, without those that are measured outside of the run: their rounding may differ."""
    excluded = ("divergence", "divergence_quantiles", "sensitivity")
    lines = [line for line in recorder.metrics if line["run"] == run]
    return [{name: value for name, value in line.items() if name not in excluded} for line in lines]
