"""The plain loop with `tf.function`: making a child and evaluating it is one compiled call, one child at a time."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.plain.tasks import Task


class Graph:
    """Makes and evaluates one child at a time; the arguments are those of `Eager`."""

    def __init__(
        self, model: keras.Model, task: Task, operator: str, intensity: float, options: dict[str, Any]
    ) -> None:
        self._model, self._task, self._operator = model, task, operator
        self._intensity, self._options = intensity, options
        self._inputs = tf.constant(task.inputs)
        self._shapes = [tuple(weight.shape) for weight in model.trainable_variables]
        self._step = tf.function(self._reproduced)
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
        """Return the operator's sensitivity `[P]`; the direction matters for `sm-g-so` only."""
        return self._measure(tf.constant(genome), tf.constant(direction)).numpy()

    def _reproduced(self, parent: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        child = self._child(parent)
        return child, self._task.fitness(self.outputs(child))

    def _child(self, parent: tf.Tensor) -> tf.Tensor:
        noise = tf.random.normal(parent.shape)
        if self._operator == "control":
            return parent + self._intensity * noise
        if self._operator == "sm-r":
            return self._rescaled(parent, noise / tf.norm(noise))
        change = self._intensity * noise
        sensitivity = self._sensitivity(parent, change / tf.norm(change))
        guarded = tf.maximum(tf.where(sensitivity == 0, self._options["zero"], sensitivity), self._options["floor"])
        most = self._options["max_change"]
        change = change / guarded
        return parent + (change if most is None else tf.clip_by_value(change, -most, most))

    def _rescaled(self, parent: tf.Tensor, direction: tf.Tensor) -> tf.Tensor:
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
