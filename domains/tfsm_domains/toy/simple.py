"""The supplement's simple model: two weights, one a thousand times as sensitive as the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.models.network import Network
from tfsm.render.canvas import AnswersFilm
from tfsm_domains.toy import SimpleOptions

Pairs = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Simple(SimpleOptions):
    r"""Memorise input-output pairs with :math:`y_0 = 100 w_0 x_0, \; y_1 = 0.1 w_1 x_1`."""

    compiled: ClassVar[bool] = True
    pairs: ClassVar[Pairs]
    """The inputs, which are also the targets."""

    def network(self) -> keras.Model:
        """Return the model: each input times its own weight, times a fixed scale."""
        return keras.Sequential(
            [
                keras.Input((2,)),
                keras.layers.EinsumDense("bi,i->bi", output_shape=(2,), name="weights"),
                keras.layers.Rescaling([100.0, 0.1], name="scale"),
            ],
            name="simple",
        )

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Return minus the squared error, averaged over the pairs."""
        targets = tf.constant(self.pairs, genomes.dtype)
        rows = network.rows(genomes, targets[None])  # [B, I, 2]
        errors = tf.reduce_sum(tf.square(rows - targets), axis=-1)  # [B, I]
        error = tf.reduce_mean(errors, axis=-1)
        behavior = tf.reshape(rows, [-1, 2 * len(self.pairs)])
        return Evaluation(-error, error < self.tolerance, behavior, cases=-errors)

    def observe(self, experience: Nest) -> Nest:
        """Return the inputs of the pairs, which are the same for all genomes."""
        return tf.constant([self.pairs], tf.float32)

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> AnswersFilm:
        """Film the two outputs of genomes `[B, P]` for each pair."""
        outputs = np.asarray(network.rows(genomes, self.observe(())))  # [B, I, 2]
        errors = np.square(outputs - self.pairs).sum(axis=-1).mean(axis=-1)
        others = f", mutants {np.median(errors[1:]):.2g} (median)" if len(errors) > 1 else ""
        names = [f"{scale:g} · w{i} · {pair[i]:g}" for pair in self.pairs for i, scale in enumerate((100, 0.1))]
        return AnswersFilm(
            names,
            np.ravel(self.pairs),
            outputs.reshape(len(outputs), -1),
            (-3.0, 3.0),
            ("-3", "3"),
            lambda count: f"squared error {errors[0]:.2g}{others}",
        )


@dataclass(frozen=True, kw_only=True)
class SimpleEasy(Simple):
    """One pair that depends on the insensitive weight only."""

    pairs: ClassVar[Pairs] = ((0.0, 1.0),)


@dataclass(frozen=True, kw_only=True)
class SimpleMedium(Simple):
    """One pair that needs both weights."""

    pairs: ClassVar[Pairs] = ((1.0, 1.0),)


@dataclass(frozen=True, kw_only=True)
class SimpleWashout(Simple):
    """Two pairs of opposite sign, whose gradients cancel in a sum."""

    pairs: ClassVar[Pairs] = ((1.0, 1.0), (-1.0, -1.0))
