"""The plain loop, eager: `model.set_weights`, `model(x)` and `tf.GradientTape`, one child at a time."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.plain.search import rescaled
from benchmarks.plain.tasks import Task


class Eager:
    """Makes and evaluates one child at a time.

    Args:
        model: the network; its weights are overwritten all the time.
        task: what it is evaluated on.
        operator: the operator's name.
        intensity: the operator's intensity.
        options: the operator's options, as tfsm resolves them.
    """

    def __init__(
        self, model: keras.Model, task: Task, operator: str, intensity: float, options: dict[str, Any]
    ) -> None:
        self._model, self._task, self._operator = model, task, operator
        self._intensity, self._options = intensity, options
        self._inputs = tf.constant(task.inputs)
        self._random = np.random.default_rng(0)
        self._shapes = [weight.shape for weight in model.get_weights()]
        self._cuts = np.cumsum([np.prod(shape, dtype=int) for shape in self._shapes])[:-1]

    def reproduce(self, parent: np.ndarray) -> tuple[np.ndarray, float]:
        """Return a child and its fitness."""
        child = self.child(parent)
        return child, self.fitness(child)

    def fitness(self, genome: np.ndarray) -> float:
        """Evaluate a genome."""
        return float(self._task.fitness(self.outputs(genome)))

    def outputs(self, genome: np.ndarray) -> tf.Tensor:
        """Return the outputs `[I, K]` of a genome."""
        self._load(genome)
        return self._model(self._inputs, training=False)

    def child(self, parent: np.ndarray) -> np.ndarray:
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

            return parent + rescaled(divergence, self._intensity, self._options["tolerance"]) * direction
        change = self._intensity * noise
        sensitivity = self.sensitivity(parent, change / np.linalg.norm(change))
        guarded = np.maximum(np.where(sensitivity == 0, self._options["zero"], sensitivity), self._options["floor"])
        most = self._options["max_change"]
        change = change / guarded
        return parent + (change if most is None else np.clip(change, -most, most))

    def sensitivity(self, genome: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return the operator's sensitivity `[P]`; the direction matters for `sm-g-so` only."""
        self._load(genome)
        weights = self._model.trainable_variables
        if self._operator == "sm-g-so":
            return self._curvature([tf.constant(part) for part in self._parts(direction)])
        with tf.GradientTape(persistent=True) as tape:
            outputs = self._model(self._inputs, training=False)
            totals = tf.unstack(tf.reduce_sum(outputs, axis=0))
        if self._operator == "sm-g-sum":
            gradients = [_flat(tape.gradient(total, weights)) for total in totals]
            return np.sqrt(sum(gradient**2 for gradient in gradients))
        # Looping is faster here than the default, which would trace its vectorised loop anew at every call.
        jacobian = tape.jacobian(outputs, weights, experimental_use_pfor=False)
        absolute = [tf.reduce_mean(tf.abs(part), axis=0) for part in jacobian]  # [K, ...]
        return _flat([tf.sqrt(tf.reduce_sum(part**2, axis=0)) for part in absolute])

    def _curvature(self, direction: list[tf.Tensor]) -> np.ndarray:
        weights = self._model.trainable_variables
        before = self._model(self._inputs, training=False)
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                moved = self._model(self._inputs, training=False) - before
                divergence = tf.reduce_mean(tf.reduce_sum(moved**2, axis=1))
            gradients = inner.gradient(divergence, weights)
            along = tf.add_n([tf.reduce_sum(g * v) for g, v in zip(gradients, direction, strict=True)])
        return np.sqrt(np.abs(_flat(outer.gradient(along, weights))))

    def _parts(self, genome: np.ndarray) -> list[np.ndarray]:
        return [part.reshape(shape) for part, shape in zip(np.split(genome, self._cuts), self._shapes, strict=True)]

    def _load(self, genome: np.ndarray) -> None:
        self._model.set_weights(self._parts(genome))


def _flat(parts: list[tf.Tensor]) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])
