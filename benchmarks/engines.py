"""Engines for benchmarks: their runs never end, and starting them compiles no more than is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from benchmarks.synthetic_domains import UnsolvableDomain
from tfsm.evolution.engine import Engine
from tfsm.plugins import Plugins, load_plugins
from tfsm.plugins.registry import build_part
from tfsm.runs.build import build_engine
from tfsm.settings import Settings, built_in_path, resolve

FOREVER = tf.constant(2**30)
"""A budget that no benchmark uses up."""


def resolve_settings(
    domain: str, mutation: str, runs: int, offspring: int | None = None, selection: str | None = None
) -> Settings:
    """Return the built-in settings of a domain and an operator, regardless of a tfsm.toml nearby."""
    overrides = {"runs": runs, "offspring": offspring, "selection": selection}
    return resolve(
        load_plugins(), domain=domain, mutation=mutation, overrides=overrides, config=built_in_path()
    ).settings


def build_endless_engine(settings: Settings) -> Engine:
    """Build an engine whose runs never end."""
    plugins: Plugins = load_plugins()
    inner = build_part(plugins.domains[settings.domain], settings.domain_options)
    plugins, name = plugins.with_part("domain", UnsolvableDomain(inner))
    return build_engine(plugins, replace(settings, domain=name))


def start_engine(engine: Engine) -> Engine:
    """Draw and evaluate the initial populations of an engine, and return it."""
    engine.reset(0)
    steps = engine.batches.count(0, engine.state.population)
    engine.initialize(tf.constant(steps), *_lanes(engine), tf.constant(engine.state.population))
    engine.state.set_baseline()
    return engine


def copy_populations(engine: Engine, donor: Engine) -> Engine:
    """Copy populations to an engine from one with at least as many runs, and return it. Other state is left alone."""
    state, donor_state = vars(engine.state), vars(donor.state)

    def copy(variable: tf.Variable, other: tf.Variable) -> None:
        variable.assign(other[: variable.shape[0]])

    for name, variable in state.items():
        if isinstance(variable, tf.Variable) and variable.shape[1:] == donor_state[name].shape[1:]:
            copy(variable, donor_state[name])
    tf.nest.map_structure(copy, engine.state.experience, donor.state.experience)
    return engine


def make_stepper(engine: Engine, steps: int) -> Callable[[], Any]:
    """Return a call that takes a number of steps in all runs of an engine."""
    count, lanes = tf.constant(steps), _lanes(engine)

    def call() -> Any:
        engine.step(count, *lanes, FOREVER)
        return engine.state.evaluations.numpy()  # wait for the result

    return call


def _lanes(engine: Engine) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the lanes of a batch, padded with idle ones to its minimum width, and the number of active ones."""
    runs, width = engine.state.runs, engine.widths[0]
    return tf.range(width) * tf.cast(tf.range(width) < runs, tf.int32), tf.constant(runs)
