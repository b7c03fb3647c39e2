"""The topdown maze as a compiled domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsm.abilities import Film
from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.kernels.experience import IndexedFrames
from tfsm.models.network import Network
from tfsm.models.stepper import Stepper
from tfsm_domains.pixel_maze import TopdownOptions
from tfsm_domains.pixel_maze.base import PixelMaze, convolutional_lstm_network, stacked_conv_lstm_network
from tfsm_domains.pixel_maze.drawing import PixelFilm
from tfsm_domains.pixel_maze.layout import MazeLayout, Square, count_distinct_squares, read_layout

BLOCK: Final = 21
"""Side of a square, in pixels."""
SIZE: Final = 64
"""Three squares, plus one row and one column that stay black."""

MOVES: Final = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))
"""Row and column offsets of the five actions: up, right, down, left, none."""


@dataclass(frozen=True)
class Grid:
    """Lookup tables of a maze. Free squares are numbered row by row."""

    squares: tuple[Square, ...]
    view: np.ndarray
    """`[S]`, the view of each square, an index into `views`."""
    views: np.ndarray
    """`[V, 64, 64]`, the distinct views: free is 1, a wall 0."""
    after: np.ndarray
    """`[S, 5]`, the square after each action; a move into a wall does nothing."""
    on_path: np.ndarray
    """`[S]`, whether a square is on the hidden path."""
    start: int
    route: np.ndarray
    """The squares of the path, in order."""
    points: np.ndarray
    """Points for the first 0, 1, 2, ... squares of the route."""

    @property
    def goals(self) -> int:
        """The number of squares to touch."""
        return int(self.on_path.sum())

    @cached_property
    def centers(self) -> np.ndarray:
        """`[S, 2]`, x and y of the squares' centers."""
        return np.array([(square.column + 0.5, square.row + 0.5) for square in self.squares])


def build_grid(layout: MazeLayout) -> Grid:
    """Number the free squares of a maze and collect its distinct views."""
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


def _neighborhood(layout: MazeLayout, square: Square) -> np.ndarray:
    near = range(-1, 2)
    return np.array([[layout.free(Square(square.row + r, square.column + c)) for c in near] for r in near])


def _draw_view(pattern: np.ndarray) -> np.ndarray:
    picture = np.zeros([SIZE, SIZE], np.float32)
    picture[: 3 * BLOCK, : 3 * BLOCK] = np.kron(pattern, np.ones([BLOCK, BLOCK]))
    return picture


DEPTH = 12
RATE = 6.0
"""Moves per second in films."""


class TopdownAgents(NamedTuple):
    """The state of B agents. Squares are given by number."""

    square: Tensor
    """`[B]`"""
    touched: Tensor
    """`[B, S]`, the squares visited so far."""
    progress: Tensor
    """`[B]`, the number of squares of the route visited in order."""


class TopdownEpisode(NamedTuple):
    """An episode of B agents."""

    squares: Tensor
    """`[B, steps + 1]`: the square before each move and after the last."""
    end: TopdownAgents
    finite: Tensor
    """`[B]`, whether all outputs were finite."""


@dataclass(frozen=True, init=False)
class TopdownMaze(PixelMaze):
    """The maze seen from above. The options are those of `TopdownOptions`."""

    options: TopdownOptions
    grid: Grid = field(repr=False, compare=False)

    def __init__(self, **options: Any) -> None:
        parsed = TopdownOptions(**options)
        layout = read_layout(parsed.maze, parsed.steps)
        self._set(options=parsed, layout=layout, grid=build_grid(layout))

    def network(self) -> keras.Model:
        """Return the network that the options select, by default the paper's."""
        if self.options.network == "convlstm":
            return stacked_conv_lstm_network(self.options.steps)
        return convolutional_lstm_network(self.options.steps, DEPTH, dual_bias=self.options.dual_bias)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let each of genomes `[B, P]` control an agent."""
        episode = self.simulate(network, genomes)
        count = self.score(episode.end)
        return Evaluation(
            tf.where(episode.finite, count, float("nan")),
            tf.equal(count, float(self.grid.goals)),
            tf.gather(tf.constant(self.grid.centers, tf.float32), episode.end.square),
            episode.squares[:, :-1],
        )

    def observe(self, experience: Nest) -> Nest:
        """Return the views of squares `[B, T]` as one sequence of images."""
        return IndexedFrames(self._pictures(), tf.gather(self.grid.view, experience)[:, None])

    def simulate(self, network: Network, genomes: Tensor) -> TopdownEpisode:
        """Return a complete episode of genomes `[B, P]`."""
        # The convolutions run once per distinct view. Two lanes at least: XLA sums a lone lane in another order.
        step = network.stepper(genomes, table=self._pictures(), min_lanes=2)
        episode = tf.function(lambda: self._run_episode(step), jit_compile=True, autograph=False)()
        return tf.nest.map_structure(lambda x: x[: genomes.shape[0]], episode)

    def begin(self, count: int) -> TopdownAgents:
        """Return `count` agents at the start."""
        start = tf.fill([count], self.grid.start)
        return TopdownAgents(start, tf.gather(self._on_square(), start), tf.ones([count], tf.int32))

    def move(self, agents: TopdownAgents, action: Tensor) -> TopdownAgents:
        """Apply one action per agent, `[B]`: up, right, down, left, none."""
        due = tf.constant([*self.grid.route, -1])  # -1: the route is complete
        square = tf.gather_nd(self.grid.after, tf.stack([agents.square, action], axis=-1))
        progress = agents.progress + tf.cast(tf.equal(square, tf.gather(due, agents.progress)), tf.int32)
        return TopdownAgents(square, agents.touched | tf.gather(self._on_square(), square), progress)

    def score(self, agents: TopdownAgents) -> Tensor:
        """Return the number of path squares that count as touched, `[B]`."""
        if self.options.scoring == "progress":
            return tf.cast(tf.gather(self.grid.points, agents.progress), tf.float32)
        return tf.reduce_sum(tf.cast(agents.touched & self.grid.on_path, tf.float32), axis=-1)

    def gray_views(self) -> np.ndarray:
        """Return all distinct views as gray levels, `[V, 64, 64]`, uint8."""
        return (255 * self.grid.views).astype(np.uint8)

    def _run_episode(self, step: Stepper) -> TopdownEpisode:
        grid, count, steps = self.grid, step.lanes, self.options.steps

        def move(
            t: Tensor, agents: TopdownAgents, finite: Tensor, state: Nest, past: tf.TensorArray
        ) -> tuple[Tensor, TopdownAgents, Tensor, Nest, tf.TensorArray]:
            outputs, state = step(tf.gather(grid.view, agents.square), state)
            action = tf.argmax(outputs, axis=-1, output_type=tf.int32)
            past = past.write(t, agents.square)
            finite &= tf.reduce_all(tf.math.is_finite(outputs), axis=-1)
            return t + 1, self.move(agents, action), finite, state, past

        past = tf.TensorArray(tf.int32, steps + 1, element_shape=[count])
        first = (tf.constant(0), self.begin(count), tf.ones([count], tf.bool), step.start, past)
        _, end, finite, _, past = tf.while_loop(lambda t, *_: t < steps, move, first, maximum_iterations=steps)
        return TopdownEpisode(tf.transpose(past.write(steps, end.square).stack()), end, finite)

    def _on_square(self) -> np.ndarray:
        return np.eye(len(self.grid.squares), dtype=bool)

    def _pictures(self) -> Tensor:
        return tf.constant(self.grid.views[..., None])

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film agents, with the view next to the map if there is only one."""
        squares = self.simulate(network, genomes).squares.numpy()
        pictures = self.gray_views()[self.grid.view[squares[0]]]
        return PixelFilm(self.layout, self.grid.centers[squares], pictures, rate=RATE)
