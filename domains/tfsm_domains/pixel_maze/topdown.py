"""The topdown maze, as a compiled domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsm.interfaces import Evaluation, Film, Nest, Tensor
from tfsm.kernels.experience import IndexedFrames
from tfsm.models.network import Network
from tfsm.models.stepper import Stepper
from tfsm_domains.pixel_maze import TopdownOptions
from tfsm_domains.pixel_maze.base import PixelMaze
from tfsm_domains.pixel_maze.drawing import PixelFilm
from tfsm_domains.pixel_maze.layout import Layout, Square, count_distinct_squares, read_layout
from tfsm_domains.pixel_maze.networks import convolutional_lstm, stacked_conv_lstm

BLOCK: Final = 21
"""Pixels of a square."""
SIZE: Final = 64
"""Three squares, and one row and column more, which stay black."""

MOVES: Final = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))
"""Rows and columns of the five actions: up, right, down, left, none."""


@dataclass(frozen=True)
class Grid:
    """A maze in numbers: free squares are counted row by row."""

    squares: tuple[Square, ...]
    view: np.ndarray
    """`[S]`, which view each square has."""
    views: np.ndarray
    """`[V, 64, 64]`: free is 1, a wall 0."""
    after: np.ndarray
    """`[S, 5]`, the square in which each action ends; a move into a wall does nothing."""
    on_path: np.ndarray
    """`[S]`, whether a square is on the hidden path."""
    start: int
    route: np.ndarray
    """The squares of the path, in its order."""
    points: np.ndarray
    """What the first 0, 1, 2, ... of these are worth."""

    @property
    def goals(self) -> int:
        """How many squares there are to touch."""
        return int(self.on_path.sum())

    @cached_property
    def middles(self) -> np.ndarray:
        """`[S, 2]`, x and y of the squares' middles."""
        return np.array([(square.column + 0.5, square.row + 0.5) for square in self.squares])


def build_grid(layout: Layout) -> Grid:
    """Number a maze's free squares, and find its distinct views."""
    squares = tuple(layout.squares())
    number = {square: i for i, square in enumerate(squares)}
    patterns = np.array([_neighborhood(layout, square) for square in squares])  # [S, 3, 3]
    distinct, view = np.unique(patterns.reshape(len(squares), 9), axis=0, return_inverse=True)
    after = [
        [number.get(Square(square.row + down, square.column + right), i) for down, right in MOVES]
        for i, square in enumerate(squares)
    ]
    return Grid(
        squares,
        view.reshape(-1).astype(np.int32),
        np.stack([_draw_view(pattern.reshape(3, 3)) for pattern in distinct]),
        np.array(after, np.int32),
        np.array([square in layout.path for square in squares]),
        number[layout.start],
        np.array([number[square] for square in layout.route()], np.int32),
        np.array(count_distinct_squares(layout.route()), np.int32),
    )


def _neighborhood(layout: Layout, square: Square) -> np.ndarray:
    near = range(-1, 2)
    return np.array([[layout.free(Square(square.row + r, square.column + c)) for c in near] for r in near])


def _draw_view(pattern: np.ndarray) -> np.ndarray:
    picture = np.zeros([SIZE, SIZE], np.float32)
    picture[: 3 * BLOCK, : 3 * BLOCK] = np.kron(pattern, np.ones([BLOCK, BLOCK]))
    return picture


DEPTH = 12
RATE = 6.0
"""Moves a second, to be looked at."""


class TopdownAgents(NamedTuple):
    """Where B agents are and have been; squares are numbers of free squares."""

    here: Tensor
    """`[B]`"""
    touched: Tensor
    """`[B, S]`, which squares they were ever on."""
    progress: Tensor
    """`[B]`, how far along the path's walk they came, one square after the other."""


class TopdownEpisode(NamedTuple):
    """An episode of B agents."""

    squares: Tensor
    """`[B, steps + 1]`: where they were before each move and after the last."""
    end: TopdownAgents
    finite: Tensor
    """`[B]`, whether all outputs were numbers."""


@dataclass(frozen=True, init=False)
class TopdownMaze(PixelMaze):
    """A maze seen from above; the options are those of `TopdownOptions`."""

    options: TopdownOptions
    grid: Grid = field(repr=False, compare=False)

    def __init__(self, **options: Any) -> None:
        given = TopdownOptions(**options)
        layout = read_layout(given.maze, given.steps)
        self._set(options=given, layout=layout, grid=build_grid(layout))

    def network(self) -> keras.Model:
        """Return the paper's network for this task, or the one that was asked for."""
        if self.options.network == "convlstm":
            return stacked_conv_lstm(self.options.steps)
        return convolutional_lstm(self.options.steps, DEPTH, dual_bias=self.options.dual_bias)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let each of genomes `[B, P]` walk."""
        walk = self.simulate(network, genomes)
        count = self.score(walk.end)
        return Evaluation(
            tf.where(walk.finite, count, float("nan")),
            tf.equal(count, float(self.grid.goals)),
            tf.gather(tf.constant(self.grid.middles, tf.float32), walk.end.here),
            walk.squares[:, :-1],
        )

    def observe(self, experience: Nest) -> Nest:
        """Return what was seen on squares `[B, T]`, as one sequence of pictures."""
        return IndexedFrames(self._pictures(), tf.gather(self.grid.view, experience)[:, None])

    def simulate(self, network: Network, genomes: Tensor) -> TopdownEpisode:
        """Return a whole episode of genomes `[B, P]`."""
        # All that can be seen is looked at once. Two lanes at least: XLA sums in another order where there is one.
        step = network.stepper(genomes, table=self._pictures(), min_lanes=2)
        found = tf.function(lambda: self._run_episode(step), jit_compile=True, autograph=False)()
        return tf.nest.map_structure(lambda x: x[: genomes.shape[0]], found)

    def begin(self, count: int) -> TopdownAgents:
        """Return `count` agents on the start."""
        start = tf.fill([count], self.grid.start)
        return TopdownAgents(start, tf.gather(self._on_square(), start), tf.ones([count], tf.int32))

    def move(self, agents: TopdownAgents, action: Tensor) -> TopdownAgents:
        """Let agents make one move each, `[B]`: up, right, down, left, none."""
        due = tf.constant([*self.grid.route, -1])  # nothing, once all are behind
        here = tf.gather_nd(self.grid.after, tf.stack([agents.here, action], axis=-1))
        progress = agents.progress + tf.cast(tf.equal(here, tf.gather(due, agents.progress)), tf.int32)
        return TopdownAgents(here, agents.touched | tf.gather(self._on_square(), here), progress)

    def score(self, agents: TopdownAgents) -> Tensor:
        """Return how many of the path's squares count as touched: `[B]`."""
        if self.options.scoring == "progress":
            return tf.cast(tf.gather(self.grid.points, agents.progress), tf.float32)
        return tf.reduce_sum(tf.cast(agents.touched & self.grid.on_path, tf.float32), axis=-1)

    def gray_views(self) -> np.ndarray:
        """Return all distinct views in gray levels from 0 to 255, 8 bits: `[V, 64, 64]`."""
        return (255 * self.grid.views).astype(np.uint8)

    def _run_episode(self, step: Stepper) -> TopdownEpisode:
        grid, count, steps = self.grid, step.lanes, self.options.steps

        def move(
            t: Tensor, agents: TopdownAgents, sound: Tensor, state: Nest, past: tf.TensorArray
        ) -> tuple[Tensor, TopdownAgents, Tensor, Nest, tf.TensorArray]:
            outputs, state = step(tf.gather(grid.view, agents.here), state)
            action = tf.argmax(outputs, axis=-1, output_type=tf.int32)
            past = past.write(t, agents.here)
            sound &= tf.reduce_all(tf.math.is_finite(outputs), axis=-1)
            return t + 1, self.move(agents, action), sound, state, past

        past = tf.TensorArray(tf.int32, steps + 1, element_shape=[count])
        first = (tf.constant(0), self.begin(count), tf.ones([count], tf.bool), step.start, past)
        _, end, sound, _, past = tf.while_loop(lambda t, *_: t < steps, move, first, maximum_iterations=steps)
        return TopdownEpisode(tf.transpose(past.write(steps, end.here).stack()), end, sound)

    def _on_square(self) -> np.ndarray:
        return np.eye(len(self.grid.squares), dtype=bool)

    def _pictures(self) -> Tensor:
        return tf.constant(self.grid.views[..., None])

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film agents; what the first one sees is shown beside the map."""
        walk = self.simulate(network, genomes)
        squares = walk.squares.numpy()
        pictures = self.gray_views()[self.grid.view[squares[0]]]
        return PixelFilm(self.layout, self.grid.middles[squares], pictures, rate=RATE)
