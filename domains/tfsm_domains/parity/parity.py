"""Recurrent parity as a compiled domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.models.network import Network
from tfsm.render.canvas import AnswersFilm, pick_rows
from tfsm_domains.parity import ParityOptions


@dataclass(frozen=True, kw_only=True)
class Parity(ParityOptions):
    """Classify every sequence of `bits` bits by whether its number of ones is odd.

    The network reads one bit at a time, most significant first, and answers after the last. Fitness is the mean
    log-likelihood of the right answer; solved means that every sequence is classified correctly.
    """

    compiled: ClassVar[bool] = True
    performance_name: ClassVar[str] = "sequences right"

    @property
    def behavior_bounds(self) -> tuple[tuple[float, float], ...]:
        """Probabilities, one per sequence."""
        return ((0.0, 1.0),) * 2**self.bits

    def network(self) -> keras.Model:
        """Return the paper's network: two tanh layers of 20 recurrent units and, here, a softmax over two classes."""
        layers = keras.layers
        recurrent = [
            layers.SimpleRNN(self.units, return_sequences=i < self.layers - 1, name=f"recurrent_{i + 1}")
            for i in range(self.layers)
        ]
        answer = layers.Dense(self.outputs, activation="softmax" if self.outputs == 2 else "sigmoid", name="answer")
        return keras.Sequential([keras.Input((self.bits, 1)), *recurrent, answer], name="parity")

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]` on all sequences."""
        rows = network.rows(genomes, self.observe(()))  # [B, 2^bits, outputs]
        odd = self._odd()
        p_odd = rows[..., -1]
        p_even = rows[..., 0] if self.outputs == 2 else 1.0 - p_odd
        # Far below what evolution can distinguish, far above where a logarithm overflows.
        likelihood = tf.maximum(tf.where(odd, p_odd, p_even), 1e-30)
        right = tf.where(odd, p_odd > p_even, p_even > p_odd)
        # A maximum may drop NaN on some devices; a broken network must stay broken.
        finite = tf.reduce_all(tf.math.is_finite(rows), axis=[1, 2])
        cases = tf.math.log(likelihood)
        fitness = tf.where(finite, tf.reduce_mean(cases, axis=-1), float("nan"))
        return Evaluation(fitness, tf.reduce_all(right, axis=-1), p_odd, cases=cases)

    def performance(self, evaluation: Evaluation) -> Tensor:
        """Return how many sequences are classified correctly."""
        right = tf.where(self._odd(), evaluation.behavior > 0.5, evaluation.behavior < 0.5)
        return tf.reduce_sum(tf.cast(right, tf.float32), axis=-1)

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> AnswersFilm:
        """Film the answers of genomes `[B, P]` to sequences, at most 16 of them."""
        rows = network.rows(genomes, self.observe(()))
        sequences = self._sequences()
        shown = pick_rows(len(sequences))
        odd, answers = (sequences.sum(axis=(1, 2)) % 2)[shown], np.asarray(rows)[:, shown, -1]  # [S], [B, S]
        right = np.where(odd == 1, answers > 0.5, answers < 0.5)

        def caption(count: int) -> str:
            others = f", mutants {right[1:, :count].mean():.0%}" if len(right) > 1 else ""
            return f"{int(right[0, :count].sum())} of {count} right{others}"

        inputs = sequences[shown].astype(np.float64).transpose(0, 2, 1)
        return AnswersFilm(inputs, odd, answers, (0.0, 1.0), ("even", "odd"), caption, middle=0.5)

    def observe(self, experience: Nest) -> Nest:
        """Return all sequences `[1, 2^bits, bits, 1]`, which are the same for all genomes."""
        return tf.constant(self._sequences()[None], tf.float32)

    def _odd(self) -> Tensor:
        return tf.constant(self._sequences().sum(axis=(1, 2)) % 2 == 1)  # [2^bits]

    def _sequences(self) -> np.ndarray:
        numbers = np.arange(2**self.bits)[:, None]
        return ((numbers >> np.arange(self.bits - 1, -1, -1)) & 1)[..., None]
