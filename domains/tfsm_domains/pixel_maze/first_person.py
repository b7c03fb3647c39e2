"""The first-person maze as a compiled domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsm.abilities import Film
from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.kernels.experience import IndexedFrames
from tfsm.models.network import Network
from tfsm_domains.pixel_maze import FirstPersonOptions
from tfsm_domains.pixel_maze.base import SIZE, PixelMaze, convolutional_lstm_network, stacked_conv_lstm_network
from tfsm_domains.pixel_maze.drawing import PixelFilm
from tfsm_domains.pixel_maze.layout import count_distinct_squares, read_layout
from tfsm_domains.pixel_maze.raycast import Pose, draw, move, start_poses, view, walls_of

DEPTH = 8
RATE = 30.0
"""Frames per second in films."""


class PathProgress(NamedTuple):
    """The squares that B agents have visited."""

    touched: Tensor
    """`[B, rows, columns]`, the squares visited so far."""
    progress: Tensor
    """`[B]`, the number of squares of the route visited in order."""


class FirstPersonEpisode(NamedTuple):
    """An episode of B agents."""

    poses: Tensor
    """`[B, decisions, 3]`: x, y and heading at each decision."""
    end: Tensor
    """`[B, 2]`"""
    done: PathProgress
    finite: Tensor
    """`[B]`, whether all outputs were finite."""
    trail: Tensor
    """`[B, frames + 1, 3]`: every pose; `[B, 0, 3]` unless requested."""


@dataclass(frozen=True, init=False)
class FirstPersonMaze(PixelMaze):
    """The maze in first person. The options are those of `FirstPersonOptions`."""

    options: FirstPersonOptions
    walls: np.ndarray = field(repr=False, compare=False)
    path: np.ndarray = field(repr=False, compare=False)
    route_masks: np.ndarray = field(repr=False, compare=False)
    """One map per square of the route with that square alone; then an empty one, for a complete route."""

    def __init__(self, **options: Any) -> None:
        parsed = FirstPersonOptions(**options)
        # Crossing a square takes at least three frames.
        layout = read_layout(parsed.maze, parsed.frames // 3)
        walls, route = walls_of(layout), layout.route()
        masks = np.zeros([len(route) + 1, *walls.shape], bool)
        for number, square in enumerate(route):
            masks[number, square.row, square.column] = True
        self._set(options=parsed, layout=layout, walls=walls, path=masks.any(axis=0), route_masks=masks)

    @property
    def decisions(self) -> int:
        """The number of decisions per episode."""
        return -(-self.options.frames // self.options.hold)

    def network(self) -> keras.Model:
        """Return the network that the options select, by default the paper's."""
        if self.options.network == "convlstm":
            return stacked_conv_lstm_network(self.decisions)
        return convolutional_lstm_network(self.decisions, DEPTH, dual_bias=self.options.dual_bias)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let each of genomes `[B, P]` control an agent."""
        episode = self.simulate(network, genomes)
        count = self.score(episode.done)
        return Evaluation(
            tf.where(episode.finite, count, float("nan")),
            tf.equal(count, float(self.path.sum())),
            tf.cast(episode.end, tf.float32),
            episode.poses,
        )

    def observe(self, experience: Nest) -> Nest:
        """Return the views from poses `[B, T, 3]`, rendered again, as one sequence of images."""
        return self._render(experience)[:, None]

    def observe_distinct(self, experience: Nest) -> Nest:
        """Return the views from poses `[1, T, 3]`, with those from equal poses once.

        An agent that walks into a wall, or does nothing, stands still.
        """
        bits = tf.bitcast(experience[0], tf.int64)  # [T, 3]
        equal = tf.reduce_all(bits[:, None] == bits, axis=-1)  # [T, T]
        first = tf.argmax(equal, axis=-1, output_type=tf.int32)  # of all equal poses
        distinct, index = tf.unique(first)
        # All are rendered, as in `observe`: a plain graph may round at the end of an array otherwise than within it.
        return IndexedFrames(tf.gather(self._render(experience)[0], distinct), index[None, None])

    def begin(self, count: int) -> tuple[Tensor, PathProgress]:
        """Return the poses `[B, 3]` of `count` agents at the start, and their progress there."""
        start = _pack(start_poses(self.layout, count))
        return start, PathProgress(self._occupied(start), tf.ones([count], tf.int32))

    def score(self, done: PathProgress) -> Tensor:
        """Return the number of path squares that count as touched, `[B]`."""
        if self.options.scoring == "progress":
            return tf.cast(tf.gather(count_distinct_squares(self.layout.route()), done.progress), tf.float32)
        return tf.reduce_sum(tf.cast(done.touched & self.path, tf.float32), axis=[1, 2])

    def simulate(self, network: Network, genomes: Tensor, *, trail: bool = False) -> FirstPersonEpisode:
        """Return a complete episode of genomes `[B, P]`; with `trail`, including the pose of every frame."""
        options, count = self.options, genomes.shape[0]
        step = network.stepper(genomes, observation=tf.TensorSpec([SIZE, SIZE, 1], tf.float32))
        # XLA for rendering and moving, which are many small operations; the network is a few large ones.
        see = tf.function(self._render, jit_compile=True, autograph=False)
        go = tf.function(self.hold_action, jit_compile=True, autograph=False)

        def decide(
            t: Tensor, pose: Tensor, done: PathProgress, finite: Tensor, state: Nest, *kept: tf.TensorArray
        ) -> Any:
            past, every = kept
            outputs, state = step(see(pose), state)
            finite &= tf.reduce_all(tf.math.is_finite(outputs), axis=-1)
            past = past.write(t, pose)
            action = tf.argmax(outputs, axis=-1, output_type=tf.int32)
            track, done = go(pose, action, done, t * options.hold)
            every = every.write(t, track) if trail else every
            return t + 1, track[:, -1], done, finite, state, past, every

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
        _, pose, done, finite, _, past, every = tf.while_loop(
            lambda t, *_: t < self.decisions, decide, first, maximum_iterations=self.decisions
        )
        track = tf.zeros([count, 0, 3], tf.float64)
        if trail:
            moves = tf.reshape(tf.transpose(every.stack(), [1, 0, 2, 3]), [count, -1, 3])
            track = tf.concat([start[:, None], moves[:, : options.frames]], axis=1)
        return FirstPersonEpisode(tf.transpose(past.stack(), [1, 0, 2]), pose[:, :2], done, finite, track)

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film agents, with the view next to the map if there is only one."""
        simulate = tf.function(lambda: self.simulate(network, genomes, trail=True), autograph=False)
        trail = simulate().trail.numpy()
        pictures = draw(self.walls, None, tf.constant(trail[0, :, :2]), tf.constant(trail[0, :, 2])).numpy()
        trail[..., 2] = np.radians(trail[..., 2])
        return PixelFilm(self.layout, trail, pictures, rate=RATE)

    def _render(self, poses: Tensor) -> Tensor:
        return view(self.walls, None, poses[..., :2], poses[..., 2])[..., None]

    def hold_action(
        self, pose: Tensor, action: Tensor, done: PathProgress, frame: Tensor
    ) -> tuple[Tensor, PathProgress]:
        """Repeat an action for `hold` frames, or until the episode ends.

        Args:
            pose: `[B, 3]`: x, y and heading.
            action: `[B]`
            done: the progress so far.
            frame: frames already played: a scalar for all agents, or `[B]`.

        Returns:
            The poses after each frame, `[B, hold, 3]`, and the new progress.
        """
        before, track = tf.reshape(frame, [-1, 1]), []
        for i in range(self.options.hold):
            moved = _pack(move(self.walls, Pose(pose[:, :2], pose[:, 2]), action))
            pose = tf.where(before + i < self.options.frames, moved, pose)
            on = self._occupied(pose)
            # At most one new square per frame: no step is longer than a third of one.
            next_one = tf.reduce_any(on & tf.gather(self.route_masks, done.progress), axis=[1, 2])
            done = PathProgress(done.touched | on, done.progress + tf.cast(next_one, tf.int32))
            track.append(pose)
        return tf.stack(track, axis=1), done

    def _occupied(self, pose: Tensor) -> Tensor:
        column, row = tf.unstack(tf.cast(tf.floor(pose[:, :2]), tf.int32), axis=-1)
        rows, columns = self.walls.shape
        return (tf.range(rows) == row[:, None])[:, :, None] & (tf.range(columns) == column[:, None])[:, None]


def _pack(pose: Pose) -> Tensor:
    return tf.concat([pose.position, pose.heading[:, None]], axis=-1)
