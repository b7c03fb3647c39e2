"""The same algorithm as a competent user would write it with Keras alone: eagerly, and with `tf.function`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class PlainTask:
    """Inputs `[I, ...]`, and the fitness of a network from its outputs `[I, K]`."""

    inputs: np.ndarray
    fitness: Callable[[tf.Tensor], tf.Tensor]


def build_task(domain: str) -> PlainTask | None:
    """Return the task of a domain, or None if it is not implemented here."""
    if domain == "parity":
        return _build_parity_task()
    pairs = {
        "simple-easy": [(0.0, 1.0)],
        "simple-medium": [(1.0, 1.0)],
        "simple-washout": [(1.0, 1.0), (-1.0, -1.0)],
    }.get(domain)
    return None if pairs is None else _build_simple_task(np.array(pairs, np.float32))


def _build_parity_task() -> PlainTask:
    bits = np.array([[int(bit) for bit in f"{number:04b}"] for number in range(16)])
    right = tf.one_hot(bits.sum(axis=1) % 2, 2)

    def fitness(outputs: tf.Tensor) -> tf.Tensor:
        likelihood = tf.reduce_sum(outputs * right, axis=1)
        return tf.reduce_mean(tf.math.log(tf.maximum(likelihood, 1e-30)))

    return PlainTask(bits[..., None].astype(np.float32), fitness)


def _build_simple_task(pairs: np.ndarray) -> PlainTask:
    return PlainTask(pairs, lambda outputs: -tf.reduce_mean(tf.reduce_sum(tf.square(outputs - pairs), axis=1)))


class NumpyPopulation:
    """A population in NumPy with steady-state selection.

    Args:
        genomes: `[N, P]`.
        fitness: `[N]`.
        selection: "tournament" or "hill-climber".
    """

    def __init__(self, genomes: np.ndarray, fitness: np.ndarray, selection: str) -> None:
        self.genomes, self.fitness = genomes.copy(), fitness.copy()
        self._is_hill_climber = selection == "hill-climber"
        self._random = np.random.default_rng(0)

    def advance(self, reproduce: Callable[[np.ndarray], tuple[np.ndarray, float]]) -> None:
        """Select a parent, let it reproduce, and insert the child."""
        parent, replaced = (0, 0) if self._is_hill_climber else self._hold_tournaments()
        child, fitness = reproduce(self.genomes[parent])
        if not self._is_hill_climber or fitness > self.fitness[0]:
            self.genomes[replaced], self.fitness[replaced] = child, fitness

    def _hold_tournaments(self) -> tuple[int, int]:
        """Return the best of five, and the worst of five others."""
        first, second = (self._random.choice(len(self.fitness), 5, replace=False) for _ in range(2))
        return first[self.fitness[first].argmax()], second[self.fitness[second].argmin()]


def find_magnitude(divergence: Callable[[float], float], target: float, tolerance: float, max_steps: int = 60) -> float:
    """Return a magnitude whose divergence is within a relative tolerance of the target.

    Divergence grows with the square of a small magnitude. If that guess leaves the bracket, its middle is taken.
    """
    low, high, magnitude = 0.0, math.inf, math.sqrt(target)
    for _ in range(max_steps):
        value = divergence(magnitude)
        if abs(value - target) <= tolerance * target:
            break
        low, high = (magnitude, high) if value < target else (low, magnitude)
        guess = magnitude * math.sqrt(target / max(value, 1e-30))
        inside = low < guess < high
        magnitude = guess if inside else (0.5 * (low + high) if math.isfinite(high) else 2.0 * magnitude)
        magnitude = min(magnitude, 1e6)
    return magnitude


class EagerLoop:
    """The eager loop: `model.set_weights`, `model(x)` and `tf.GradientTape`, one child at a time.

    Args:
        model: the network, whose weights are overwritten.
        task: the task to evaluate it on.
        operator: the name of the operator.
        intensity: the intensity of the operator.
        options: the options of the operator, as tfsm resolves them.
    """

    def __init__(
        self, model: keras.Model, task: PlainTask, operator: str, intensity: float, options: dict[str, Any]
    ) -> None:
        self._model, self._task, self._operator = model, task, operator
        self._intensity, self._options = intensity, options
        self._inputs = tf.constant(task.inputs)
        self._random = np.random.default_rng(0)
        self._shapes = [weight.shape for weight in model.get_weights()]
        self._cuts = np.cumsum([np.prod(shape, dtype=int) for shape in self._shapes])[:-1]

    def reproduce(self, parent: np.ndarray) -> tuple[np.ndarray, float]:
        """Return a child and its fitness."""
        child = self.make_child(parent)
        return child, self.fitness(child)

    def fitness(self, genome: np.ndarray) -> float:
        """Evaluate a genome."""
        return float(self._task.fitness(self.outputs(genome)))

    def outputs(self, genome: np.ndarray) -> tf.Tensor:
        """Return the outputs `[I, K]` of a genome."""
        self._load(genome)
        return self._model(self._inputs, training=False)

    def make_child(self, parent: np.ndarray) -> np.ndarray:
        """Return a child."""
        noise = self._random.standard_normal(parent.size, np.float32)
        if self._operator == "control":
            return parent + self._intensity * noise
        if self._operator == "sm-r":
            direction = noise / np.linalg.norm(noise)
            before = self.outputs(parent).numpy()

            def divergence(magnitude: float) -> float:
                moved = self.outputs(parent + magnitude * direction).numpy() - before
                return float((moved**2).sum(axis=1).mean())

            return parent + find_magnitude(divergence, self._intensity, self._options["tolerance"]) * direction
        change = self._intensity * noise
        sensitivity = self.sensitivity(parent, change / np.linalg.norm(change))
        guarded = np.maximum(np.where(sensitivity == 0, self._options["zero"], sensitivity), self._options["floor"])
        max_change = self._options["max_change"]
        change = change / guarded
        return parent + (change if max_change is None else np.clip(change, -max_change, max_change))

    def sensitivity(self, genome: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return the operator's sensitivity `[P]`. The direction matters only for `sm-g-so`."""
        self._load(genome)
        weights = self._model.trainable_variables
        if self._operator == "sm-g-so":
            return self._curvature([tf.constant(part) for part in self._split(direction)])
        with tf.GradientTape(persistent=True) as tape:
            outputs = self._model(self._inputs, training=False)
            totals = tf.unstack(tf.reduce_sum(outputs, axis=0))
        if self._operator == "sm-g-sum":
            gradients = [_flatten(tape.gradient(total, weights)) for total in totals]
            return np.sqrt(sum(gradient**2 for gradient in gradients))
        # Looping is faster here than the default, which would retrace its vectorized loop at every call.
        jacobian = tape.jacobian(outputs, weights, experimental_use_pfor=False)
        absolute = [tf.reduce_mean(tf.abs(part), axis=0) for part in jacobian]  # [K, ...]
        return _flatten([tf.sqrt(tf.reduce_sum(part**2, axis=0)) for part in absolute])

    def _curvature(self, direction: list[tf.Tensor]) -> np.ndarray:
        weights = self._model.trainable_variables
        before = self._model(self._inputs, training=False)
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                moved = self._model(self._inputs, training=False) - before
                divergence = tf.reduce_mean(tf.reduce_sum(moved**2, axis=1))
            gradients = inner.gradient(divergence, weights)
            along = tf.add_n([tf.reduce_sum(g * v) for g, v in zip(gradients, direction, strict=True)])
        return np.sqrt(np.abs(_flatten(outer.gradient(along, weights))))

    def _split(self, genome: np.ndarray) -> list[np.ndarray]:
        return [part.reshape(shape) for part, shape in zip(np.split(genome, self._cuts), self._shapes, strict=True)]

    def _load(self, genome: np.ndarray) -> None:
        self._model.set_weights(self._split(genome))


def _flatten(parts: list[tf.Tensor]) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])


class GraphLoop:
    """The loop with `tf.function`: one compiled call makes and evaluates a child. Arguments as in `EagerLoop`."""

    def __init__(
        self, model: keras.Model, task: PlainTask, operator: str, intensity: float, options: dict[str, Any]
    ) -> None:
        self._model, self._task, self._operator = model, task, operator
        self._intensity, self._options = intensity, options
        self._inputs = tf.constant(task.inputs)
        self._shapes = [tuple(weight.shape) for weight in model.trainable_variables]
        self._step = tf.function(self._reproduce)
        self._measure = tf.function(self._sensitivity)

    def reproduce(self, parent: np.ndarray) -> tuple[np.ndarray, float]:
        """Return a child and its fitness."""
        child, fitness = self._step(tf.constant(parent))
        return child.numpy(), float(fitness)

    def fitness(self, genome: np.ndarray) -> float:
        """Evaluate a genome."""
        return float(self._task.fitness(self.outputs(tf.constant(genome))))

    def outputs(self, genome: tf.Tensor) -> tf.Tensor:
        """Return the outputs `[I, K]` of a genome `[P]`."""
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        weights = [tf.reshape(p, s) for p, s in zip(tf.split(genome, sizes), self._shapes, strict=True)]
        fixed = [variable.value for variable in self._model.non_trainable_variables]
        return self._model.stateless_call(weights, fixed, self._inputs, training=False)[0]

    def sensitivity(self, genome: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return the operator's sensitivity `[P]`. The direction matters only for `sm-g-so`."""
        return self._measure(tf.constant(genome), tf.constant(direction)).numpy()

    def _reproduce(self, parent: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        child = self._make_child(parent)
        return child, self._task.fitness(self.outputs(child))

    def _make_child(self, parent: tf.Tensor) -> tf.Tensor:
        noise = tf.random.normal(parent.shape)
        if self._operator == "control":
            return parent + self._intensity * noise
        if self._operator == "sm-r":
            return self._rescale(parent, noise / tf.norm(noise))
        change = self._intensity * noise
        sensitivity = self._sensitivity(parent, change / tf.norm(change))
        guarded = tf.maximum(tf.where(sensitivity == 0, self._options["zero"], sensitivity), self._options["floor"])
        max_change = self._options["max_change"]
        change = change / guarded
        return parent + (change if max_change is None else tf.clip_by_value(change, -max_change, max_change))

    def _rescale(self, parent: tf.Tensor, direction: tf.Tensor) -> tf.Tensor:
        target, tolerance = self._intensity, self._options["tolerance"]
        before = self.outputs(parent)
        low, high, magnitude = tf.constant(0.0), tf.constant(float("inf")), tf.constant(target**0.5)
        done = tf.constant(False)
        for _ in tf.range(60):
            moved = self.outputs(parent + magnitude * direction) - before
            value = tf.reduce_mean(tf.reduce_sum(moved**2, axis=1))
            done = tf.abs(value - target) <= tolerance * target
            if done:
                break
            low, high = tf.where(value < target, magnitude, low), tf.where(value < target, high, magnitude)
            guess = magnitude * tf.sqrt(target / tf.maximum(value, 1e-30))
            middle = tf.where(tf.math.is_finite(high), 0.5 * (low + high), 2.0 * magnitude)
            magnitude = tf.minimum(tf.where((low < guess) & (guess < high), guess, middle), 1e6)
        return parent + magnitude * direction

    def _sensitivity(self, genome: tf.Tensor, direction: tf.Tensor) -> tf.Tensor:
        if self._operator == "sm-g-so":
            return self._curvature(genome, direction)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(genome)
            outputs = self.outputs(genome)
            totals = tf.unstack(tf.reduce_sum(outputs, axis=0))
        if self._operator == "sm-g-sum":
            return tf.sqrt(tf.add_n([tape.gradient(total, genome) ** 2 for total in totals]))
        jacobian = tape.jacobian(outputs, genome)  # [I, K, P]
        return tf.sqrt(tf.reduce_sum(tf.reduce_mean(tf.abs(jacobian), axis=0) ** 2, axis=0))

    def _curvature(self, genome: tf.Tensor, direction: tf.Tensor) -> tf.Tensor:
        before = self.outputs(genome)
        with tf.GradientTape() as outer:
            outer.watch(genome)
            with tf.GradientTape() as inner:
                inner.watch(genome)
                divergence = tf.reduce_mean(tf.reduce_sum((self.outputs(genome) - before) ** 2, axis=1))
            along = tf.reduce_sum(inner.gradient(divergence, genome) * direction)
        return tf.sqrt(tf.abs(outer.gradient(along, genome)))
