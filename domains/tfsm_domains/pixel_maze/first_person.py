"""The first-person maze, as a compiled domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsm.interfaces import Evaluation, Film, Nest, Tensor
from tfsm.models.network import Network
from tfsm_domains.pixel_maze import FirstPersonOptions
from tfsm_domains.pixel_maze.base import PixelMaze
from tfsm_domains.pixel_maze.drawing import PixelFilm
from tfsm_domains.pixel_maze.layout import count_distinct_squares, read_layout
from tfsm_domains.pixel_maze.networks import SIZE, convolutional_lstm, stacked_conv_lstm
from tfsm_domains.pixel_maze.raycast import Pose, begin, draw, move, view, walls_of

DEPTH = 8
RATE = 30.0
"""Frames a second, to be looked at."""


class PathProgress(NamedTuple):
    """What B agents have achieved."""

    touched: Tensor
    """`[B, rows, columns]`, which squares they were ever on."""
    progress: Tensor
    """`[B]`, how far along the path's walk they came, one square after the other."""


class FirstPersonEpisode(NamedTuple):
    """An episode of B agents."""

    poses: Tensor
    """`[B, decisions, 3]`: x, y and heading, where the network was asked."""
    end: Tensor
    """`[B, 2]`"""
    done: PathProgress
    finite: Tensor
    """`[B]`, whether all outputs were numbers."""
    trail: Tensor
    """`[B, frames + 1, 3]`: every pose, if asked for; else of no frames."""


@dataclass(frozen=True, init=False)
class FirstPersonMaze(PixelMaze):
    """A maze in first person; the options are those of `FirstPersonOptions`."""

    options: FirstPersonOptions
    walls: np.ndarray = field(repr=False, compare=False)
    path: np.ndarray = field(repr=False, compare=False)
    route_masks: np.ndarray = field(repr=False, compare=False)
    """Of each square of the walk a map with it alone; then an empty one, once all are behind."""

    def __init__(self, **options: Any) -> None:
        given = FirstPersonOptions(**options)
        # A square takes three frames at least.
        layout = read_layout(given.maze, given.frames // 3)
        walls, walk = walls_of(layout), layout.route()
        due = np.zeros([len(walk) + 1, *walls.shape], bool)
        for number, square in enumerate(walk):
            due[number, square.row, square.column] = True
        self._set(options=given, layout=layout, walls=walls, path=due.any(axis=0), route_masks=due)

    @property
    def decisions(self) -> int:
        """How often the network is asked."""
        return -(-self.options.frames // self.options.hold)

    def network(self) -> keras.Model:
        """Return the paper's network for this task, or the one that was asked for."""
        if self.options.network == "convlstm":
            return stacked_conv_lstm(self.decisions)
        return convolutional_lstm(self.decisions, DEPTH, dual_bias=self.options.dual_bias)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let each of genomes `[B, P]` walk."""
        walk = self.simulate(network, genomes)
        count = self.score(walk.done)
        return Evaluation(
            tf.where(walk.finite, count, float("nan")),
            tf.equal(count, float(self.path.sum())),
            tf.cast(walk.end, tf.float32),
            walk.poses,
        )

    def observe(self, experience: Nest) -> Nest:
        """Return what was seen from poses `[B, T, 3]`, drawn again: one sequence of pictures."""
        return self._seen(experience)[:, None]

    def begin(self, count: int) -> tuple[Tensor, PathProgress]:
        """Return the poses `[B, 3]` of `count` agents at the start, and what they have achieved there."""
        start = _pack(begin(self.layout, count))
        return start, PathProgress(self._occupied(start), tf.ones([count], tf.int32))

    def score(self, done: PathProgress) -> Tensor:
        """Return how many of the path's squares count as touched: `[B]`."""
        if self.options.scoring == "progress":
            return tf.cast(tf.gather(count_distinct_squares(self.layout.route()), done.progress), tf.float32)
        return tf.reduce_sum(tf.cast(done.touched & self.path, tf.float32), axis=[1, 2])

    def simulate(self, network: Network, genomes: Tensor, *, trail: bool = False) -> FirstPersonEpisode:
        """Return a whole episode of genomes `[B, P]`; with `trail`, every frame's pose too."""
        options, count = self.options, genomes.shape[0]
        step = network.stepper(genomes, observation=tf.TensorSpec([SIZE, SIZE, 1], tf.float32))
        # Drawing and moving are many small operations, the network few large ones.
        see = tf.function(self._seen, jit_compile=True, autograph=False)
        go = tf.function(self.hold_action, jit_compile=True, autograph=False)

        def decide(
            t: Tensor, here: Tensor, done: PathProgress, sound: Tensor, state: Nest, *kept: tf.TensorArray
        ) -> Any:
            past, every = kept
            outputs, state = step(see(here), state)
            sound &= tf.reduce_all(tf.math.is_finite(outputs), axis=-1)
            past = past.write(t, here)
            action = tf.argmax(outputs, axis=-1, output_type=tf.int32)
            track, done = go(here, action, done, t * options.hold)
            every = every.write(t, track) if trail else every
            return t + 1, track[:, -1], done, sound, state, past, every

        start, nothing = self.begin(count)
        first = (
            tf.constant(0),
            start,
            nothing,
            tf.ones([count], tf.bool),
            step.start,
            tf.TensorArray(tf.float64, self.decisions, element_shape=[count, 3]),
            tf.TensorArray(tf.float64, self.decisions if trail else 0, element_shape=[count, options.hold, 3]),
        )
        _, here, done, sound, _, past, every = tf.while_loop(
            lambda t, *_: t < self.decisions, decide, first, maximum_iterations=self.decisions
        )
        track = tf.zeros([count, 0, 3], tf.float64)
        if trail:
            walked = tf.reshape(tf.transpose(every.stack(), [1, 0, 2, 3]), [count, -1, 3])
            track = tf.concat([start[:, None], walked[:, : options.frames]], axis=1)
        return FirstPersonEpisode(tf.transpose(past.stack(), [1, 0, 2]), here[:, :2], done, sound, track)

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film agents; what the first one sees is shown beside the map."""
        walked = tf.function(lambda: self.simulate(network, genomes, trail=True), autograph=False)
        trail = walked().trail.numpy()
        pictures = draw(self.walls, None, tf.constant(trail[0, :, :2]), tf.constant(trail[0, :, 2])).numpy()
        trail[..., 2] = np.radians(trail[..., 2])
        return PixelFilm(self.layout, trail, pictures, rate=RATE)

    def _seen(self, poses: Tensor) -> Tensor:
        return view(self.walls, None, poses[..., :2], poses[..., 2])[..., None]

    def hold_action(
        self, here: Tensor, action: Tensor, done: PathProgress, frame: Tensor
    ) -> tuple[Tensor, PathProgress]:
        """Do the same for as many frames as an action is held, as long as there are any left.

        Args:
            here: `[B, 3]`: x, y and heading.
            action: `[B]`
            done: what was achieved before.
            frame: frames that were before: of all agents, or `[B]`.

        Returns:
            The poses after each frame, `[B, hold, 3]`, and what was achieved.
        """
        before, track = tf.reshape(frame, [-1, 1]), []
        for i in range(self.options.hold):
            moved = _pack(move(self.walls, Pose(here[:, :2], here[:, 2]), action))
            here = tf.where(before + i < self.options.frames, moved, here)
            on = self._occupied(here)
            # One square a frame: no step is longer than a third of one.
            next_one = tf.reduce_any(on & tf.gather(self.route_masks, done.progress), axis=[1, 2])
            done = PathProgress(done.touched | on, done.progress + tf.cast(next_one, tf.int32))
            track.append(here)
        return tf.stack(track, axis=1), done

    def _occupied(self, here: Tensor) -> Tensor:
        column, row = tf.unstack(tf.cast(tf.floor(here[:, :2]), tf.int32), axis=-1)
        rows, columns = self.walls.shape
        return (tf.range(rows) == row[:, None])[:, :, None] & (tf.range(columns) == column[:, None])[:, None]


def _pack(pose: Pose) -> Tensor:
    return tf.concat([pose.position, pose.heading[:, None]], axis=-1)
