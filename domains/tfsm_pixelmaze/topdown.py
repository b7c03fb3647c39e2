"""The topdown maze, as a compiled domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsm.contracts import Evaluation, Film, Nest, Tensor
from tfsm.kernels.frames import Frames
from tfsm.models.network import Network
from tfsm.models.stepping import Stepper
from tfsm_pixelmaze.common import PixelMaze
from tfsm_pixelmaze.drawing import PixelFilm
from tfsm_pixelmaze.layout import read_layout
from tfsm_pixelmaze.networks import convolutional_lstm, stacked_conv_lstm
from tfsm_pixelmaze.options import TopdownOptions
from tfsm_pixelmaze.views import Ground, ground_of

DEPTH = 12


class Walk(NamedTuple):
    """An episode of B agents; squares are numbers of free squares."""

    squares: Tensor
    """`[B, steps + 1]`: where they were before each move and after the last."""
    touched: Tensor
    """`[B, S]`, which squares they were ever on."""
    progress: Tensor
    """`[B]`, how far along the path's walk they came, one square after the other."""
    sound: Tensor
    """`[B]`, whether all outputs were numbers."""


@dataclass(frozen=True, init=False)
class TopdownMaze(PixelMaze):
    """A maze seen from above; the options are those of `TopdownOptions`."""

    options: TopdownOptions
    ground: Ground = field(repr=False, compare=False)

    def __init__(self, **options: Any) -> None:
        given = TopdownOptions(**options)
        layout = read_layout(given.maze, given.steps)
        self._set(options=given, layout=layout, ground=ground_of(layout))

    def network(self) -> keras.Model:
        """Return the paper's network for this task, or the one that was asked for."""
        if self.options.network == "convlstm":
            return stacked_conv_lstm(self.options.steps)
        return convolutional_lstm(self.options.steps, DEPTH, dual_bias=self.options.dual_bias)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let each of genomes `[B, P]` walk."""
        walk = self.walk(network, genomes)
        if self.options.scoring == "progress":
            count = tf.cast(tf.gather(self.ground.points, walk.progress), tf.float32)
        else:
            count = tf.reduce_sum(tf.cast(walk.touched & self.ground.on_path, tf.float32), axis=-1)
        places = tf.constant([(s.column + 0.5, s.row + 0.5) for s in self.ground.squares], tf.float32)
        return Evaluation(
            tf.where(walk.sound, count, float("nan")),
            tf.equal(count, float(self.ground.goals)),
            tf.gather(places, walk.squares[:, -1]),
            walk.squares[:, :-1],
        )

    def observe(self, experience: Nest) -> Nest:
        """Return what was seen on squares `[B, T]`, as one sequence of pictures."""
        return Frames(self._pictures(), tf.gather(self.ground.view, experience)[:, None])

    def walk(self, network: Network, genomes: Tensor) -> Walk:
        """Return a whole episode of genomes `[B, P]`."""
        # All that can be seen is looked at once. Two lanes at least: XLA sums in another order where there is one.
        step = network.stepper(genomes, table=self._pictures(), least=2)
        found = tf.function(lambda: self._walked(step), jit_compile=True, autograph=False)()
        return Walk(*(x[: genomes.shape[0]] for x in found))

    def _walked(self, step: Stepper) -> Walk:
        ground, count, steps = self.ground, step.lanes, self.options.steps
        on_square = tf.eye(len(ground.squares), dtype=tf.bool)

        def move(
            t: Tensor, here: Tensor, touched: Tensor, progress: Tensor, sound: Tensor, state: Nest, past: tf.TensorArray
        ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Nest, tf.TensorArray]:
            outputs, state = step(tf.gather(ground.view, here), state)
            action = tf.argmax(outputs, axis=-1, output_type=tf.int32)
            past = past.write(t, here)
            here = tf.gather_nd(ground.after, tf.stack([here, action], axis=-1))
            sound &= tf.reduce_all(tf.math.is_finite(outputs), axis=-1)
            progress += tf.cast(tf.equal(here, tf.gather(due, progress)), tf.int32)
            return t + 1, here, touched | tf.gather(on_square, here), progress, sound, state, past

        due = tf.constant([*ground.walk, -1])  # nothing, once all are behind
        start, one = tf.fill([count], ground.start), tf.ones([count], tf.int32)
        past = tf.TensorArray(tf.int32, steps + 1, element_shape=[count])
        first = (tf.constant(0), start, tf.gather(on_square, start), one, tf.equal(one, 1), step.start, past)
        _, here, touched, progress, sound, _, past = tf.while_loop(
            lambda t, *_: t < steps, move, first, maximum_iterations=steps
        )
        return Walk(tf.transpose(past.write(steps, here).stack()), touched, progress, sound)

    def _pictures(self) -> Tensor:
        return tf.constant(self.ground.views[..., None])

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film agents; what the first one sees is shown beside the map."""
        walk = self.walk(network, genomes)
        squares = walk.squares.numpy()
        middles = np.array([(s.column + 0.5, s.row + 0.5) for s in self.ground.squares])
        pictures = (255 * self.ground.views[self.ground.view[squares[0]]]).astype(np.uint8)
        return PixelFilm(self.layout, middles[squares], pictures, rate=6.0)
