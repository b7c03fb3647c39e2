"""tfsm's engine as a benchmark needs it: never done, and started without compiling more than is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import keras
import tensorflow as tf

from tfsm.evolution.engine import Engine
from tfsm.interfaces import Domain, Evaluation, Nest, Tensor
from tfsm.models.network import Network
from tfsm.plugins import Plugins, load_plugins
from tfsm.plugins.registry import build_part
from tfsm.runs.build import build_engine
from tfsm.settings import Settings, built_in_path, resolve

FOREVER = tf.constant(2**30)
"""A budget that no benchmark spends."""


@dataclass(frozen=True)
class Unsolvable:
    """A domain that never calls anything solved, so that every run goes on."""

    inner: Domain

    @property
    def compiled(self) -> bool:
        """As the domain itself says."""
        return getattr(self.inner, "compiled", True)

    def network(self) -> keras.Model:
        """Return the domain's network."""
        return self.inner.network()

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Evaluate as the domain does, and call nothing solved."""
        found = self.inner.evaluate(network, genomes, seed)
        return found._replace(solved=tf.zeros_like(found.solved))

    def observe(self, experience: Nest) -> Nest:
        """Return what the domain makes of its experience."""
        return self.inner.observe(experience)


def settings_of(domain: str, mutation: str, runs: int) -> Settings:
    """Return the built-in settings of a domain and an operator, whatever a tfsm.toml nearby says."""
    overrides = {"runs": runs}
    return resolve(
        load_plugins(), domain=domain, mutation=mutation, overrides=overrides, config=built_in_path()
    ).settings


def engine_of(settings: Settings) -> Engine:
    """Return an engine whose runs never end."""
    plugins: Plugins = load_plugins()
    inner = build_part(plugins.domains[settings.domain], settings.domain_options)
    plugins, name = plugins.with_part("domain", Unsolvable(inner))
    return build_engine(plugins, replace(settings, domain=name))


def begun(engine: Engine) -> Engine:
    """Draw and evaluate an engine's initial populations."""
    engine.reset(0)
    engine.begin(tf.constant(engine.state.population), *_lanes(engine), tf.constant(engine.state.population))
    engine.state.set_baseline()
    return engine


def started(engine: Engine, donor: Engine) -> Engine:
    """Give an engine the populations of another that has at least as many runs; what only one has is left alone."""
    mine, theirs = vars(engine.state), vars(donor.state)

    def copy(own: tf.Variable, other: tf.Variable) -> None:
        own.assign(other[: own.shape[0]])

    for name, own in mine.items():
        if isinstance(own, tf.Variable) and own.shape[1:] == theirs[name].shape[1:]:
            copy(own, theirs[name])
    tf.nest.map_structure(copy, engine.state.experience, donor.state.experience)
    return engine


def advance(engine: Engine, steps: int) -> Callable[[], Any]:
    """Return a call that takes so many steps in all of an engine's runs."""
    count, lanes = tf.constant(steps), _lanes(engine)

    def call() -> Any:
        engine.advance(count, *lanes, FOREVER)
        return engine.state.evaluations.numpy()  # wait for the result

    return call


def _lanes(engine: Engine) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the lanes of a batch, filled up with idle ones to its least width, and how many are not idle."""
    runs, width = engine.state.runs, engine.plan.width
    return tf.range(width) * tf.cast(tf.range(width) < runs, tf.int32), tf.constant(runs)
