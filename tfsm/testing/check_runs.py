"""Lock step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import keras
import tensorflow as tf

from tfsm.evolution.observers import Interval
from tfsm.interfaces import Choice, Evaluation, Nest, Observer, Tensor
from tfsm.kernels.random import uniform
from tfsm.models.network import Network
from tfsm.plugins import Plugins
from tfsm.plugins.registry import KINDS, Parts
from tfsm.runs.observers import summarize_error
from tfsm.runs.result import Result
from tfsm.runs.runner import run_experiment
from tfsm.settings import resolve
from tfsm.testing.check_common import find_differences
from tfsm.testing.check_mutations import ANSWERS, INPUTS, plain_model
from tfsm.testing.check_selections import population_size
from tfsm.testing.suite import CheckFailure, PartUnderTest, require


@dataclass(frozen=True, kw_only=True)
class StubDomain:
    """Answer two random questions with a half; every individual sees questions of its own."""

    behavior_bounds: ClassVar[tuple[tuple[float, float], ...]] = ((0.0, 1.0),) * 2 * ANSWERS

    def network(self) -> keras.Model:
        """Return the model that operators are tried on."""
        return plain_model()

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Return minus the squared error; nobody ever solves it."""
        seen = tf.reshape(uniform(seed, 2 * INPUTS), [-1, 2, INPUTS])
        answers = tf.reshape(network.rows(genomes, seen), [-1, 2 * ANSWERS])
        errors = tf.square(answers - 0.5)
        error = tf.reduce_sum(errors, axis=-1)
        return Evaluation(-error, error < 0.0, answers, seen, -errors)

    def observe(self, experience: Nest) -> Nest:
        """Return the questions."""
        return experience


@dataclass(frozen=True, kw_only=True)
class StubMutation:
    """Add noise."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child."""
        return parent + intensity * network.noise(seed)


@dataclass(frozen=True, kw_only=True)
class StubSelection:
    """Let anybody breed, and put the child in the place of the worst."""

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose by chance."""
        parent = tf.cast(uniform(seed, 1)[0] * fitness.shape[-1], tf.int32)
        return Choice(parent, tf.argmin(fitness))

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let every child in."""
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
    """A run is the same alone and among others, bit by bit."""
    together, heard = _evolve(subject, RUNS)
    alone, heard_alone = _evolve(subject, 1)
    for mine, theirs in zip(alone.runs, together.runs, strict=True):
        found = find_differences(mine.champion, theirs.champion, exact=True)
        require(
            not found
            and mine.summary() == theirs.summary()
            and _metrics_of(mine.run, heard_alone) == _metrics_of(mine.run, heard),
            f"run {mine.run} of {RUNS} is another run alone than among others {'; '.join(found)}".strip(),
            "let results depend on one individual and its seed alone: no state from call to call, nothing shared along "
            "the first axis, and no numbers that only nearly agree between batches of different sizes",
        )


def does_not_affect_the_run(subject: PartUnderTest) -> None:
    """A run is the same whether it is watched or not, and the observer stands it."""
    warnings: list[str] = []
    plain, heard = _evolve(subject, RUNS, watched=False)
    seen, heard_seen = _evolve(subject, RUNS, warn=warnings.append)
    require(
        heard.metrics == heard_seen.metrics and [r.summary() for r in plain.runs] == [r.summary() for r in seen.runs],
        "a run that it watches is another run",
        "do not change what you are given, and use no global generator",
    )
    require(
        not warnings,
        "; ".join(warnings),
        "an observer that raises is disabled: handle what you can",
    )


def _evolve(
    subject: PartUnderTest, width: int, *, watched: bool = True, warn: Any = None
) -> tuple[Result, MetricsRecorder]:
    """Evolve the part together with stand-ins for the others, so many runs at a time."""
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
    heard = MetricsRecorder()
    observers: list[Any] = [heard, subject.made()] if subject.kind == "observer" and watched else [heard]
    # From the root: whatever settings the author's own folder has are for his runs.
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
        # Whatever the part raises while it is traced or run.
        except Exception as error:
            raise CheckFailure(
                f"a run of it fails: {summarize_error(error)}", "fix what the other checks report first"
            ) from error
    return result, heard


def _metrics_of(run: int, heard: MetricsRecorder) -> list[dict[str, Any]]:
    """Return a run's metrics, without those that are measured beside the run: rounding may differ in these."""
    beside = ("divergence", "divergence_quantiles", "sensitivity")
    lines = [line for line in heard.metrics if line["run"] == run]
    return [{name: value for name, value in line.items() if name not in beside} for line in lines]
