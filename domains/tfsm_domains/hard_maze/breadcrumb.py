"""Breadcrumbs: how far it is to the goal from everywhere, for a robot that does not fit everywhere.

Free space is sampled on a grid of an eighth of the robot's radius. Grid points are joined to those up to four rows and
columns away wherever the robot fits along the whole straight line, and Dijkstra's search runs outwards from the goal.
Directions in between cost at most 0.8 % more than a straight line; between grid points the length is interpolated.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import tensorflow as tf
from scipy import ndimage, sparse
from scipy.sparse.csgraph import connected_components, dijkstra

from tfsm.interfaces import Tensor
from tfsm_domains.hard_maze.maze import Maze
from tfsm_domains.hard_maze.robot import clearance

_SPAN: Final = 4
_MOST_POINTS: Final = 2_000_000


class PathLengthField(NamedTuple):
    """Path lengths on a grid."""

    origin: np.ndarray
    """`[2]`: the first grid point."""
    spacing: float
    length: np.ndarray
    """`[X, Y]`, finite everywhere: where a robot cannot be, as if it first went straight to where it can."""
    free: np.ndarray
    """`[X, Y]`, whether a robot from the start can be there."""

    def at(self, positions: Tensor) -> Tensor:
        """Return path lengths `[B]` of positions `[B, 2]`, in tensor code."""
        place = (tf.cast(positions, tf.float64) - self.origin) / self.spacing
        most = tf.constant(self.length.shape, tf.float64) - 2.0
        corner = tf.floor(tf.clip_by_value(place, 0.0, most))
        x, y = tf.unstack(place - corner, axis=-1)
        table, i = tf.constant(self.length), tf.cast(corner, tf.int32)
        total = tf.zeros_like(x)
        for dx, dy, share in ((0, 0, (1 - x) * (1 - y)), (1, 0, x * (1 - y)), (0, 1, (1 - x) * y), (1, 1, x * y)):
            total += share * tf.gather_nd(table, i + tf.constant([dx, dy]))
        return total


@lru_cache(maxsize=16)
def compute_path_lengths(maze: Maze) -> PathLengthField:
    """Return the field of a maze, or raise an error that says why it is none: open, or without a way to the goal."""
    origin, spacing, points = _grid(maze)
    walls = tf.constant(maze.walls, tf.float64)
    room = np.concatenate([clearance(tf.constant(row), walls).numpy()[None] for row in points])
    _check_room(maze, walls)
    nodes, graph = _graph(points, room, spacing, maze)
    _, regions = connected_components(graph, directed=False)
    start = _start(maze, nodes, points)
    _check_closed(maze, nodes, points, graph, regions, start)
    lengths = _from_goal(maze, nodes, points, graph, regions == regions[start])
    # Where no robot can be, interpolation still needs a number; the other side of a wall is always farther.
    away, nearest = ndimage.distance_transform_edt(~np.isfinite(lengths), return_indices=True)
    filled = lengths[tuple(nearest)] + spacing * away
    return PathLengthField(origin, spacing, filled, np.isfinite(lengths))


def _grid(maze: Maze) -> tuple[np.ndarray, float, np.ndarray]:
    ends = np.reshape(maze.walls, [-1, 2])
    spacing = maze.radius / 8.0
    # Outside the walls there must be room for a robot, to find out whether it can get there.
    margin = 2.0 * maze.radius
    low, high = ends.min(axis=0) - margin, ends.max(axis=0) + margin
    counts = np.ceil((high - low) / spacing).astype(int) + 1
    if math.prod(counts.tolist()) > _MOST_POINTS:
        raise maze.error(("radius",), f"the maze is too large for a robot of radius {maze.radius:g}")
    axes = [low[i] + spacing * np.arange(counts[i]) for i in range(2)]
    return low, spacing, np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def _graph(points: np.ndarray, room: np.ndarray, spacing: float, maze: Maze) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Return grid points' numbers, -1 where a robot does not fit, and who is joined to whom, how far away."""
    fits = room >= maze.radius
    nodes = np.where(fits, np.cumsum(fits).reshape(fits.shape) - 1, -1)
    walls = np.array(maze.walls)
    ends, others, lengths = [], [], []
    for dx in range(_SPAN + 1):
        for dy in range(-_SPAN, _SPAN + 1):
            if math.gcd(dx, dy) != 1 or (dx == 0 and dy < 0):
                continue
            here = (slice(None, nodes.shape[0] - dx), slice(max(0, -dy), nodes.shape[1] - max(0, dy)))
            there = (slice(dx, None), slice(max(0, dy), nodes.shape[1] - max(0, -dy)))
            length = spacing * math.hypot(dx, dy)
            joined = fits[here] & fits[there]
            # Room changes by no more than the way; only lines that pass close to a wall need to be looked at.
            close = joined & (room[here] + room[there] - length < 2.0 * maze.radius)
            joined[close] = _fits_along(points[here][close], points[there][close], walls, maze.radius)
            ends.append(nodes[here][joined])
            others.append(nodes[there][joined])
            lengths.append(np.full(len(ends[-1]), length))
    size = int(fits.sum())
    pairs = (np.concatenate(ends), np.concatenate(others))
    return nodes, sparse.csr_matrix((np.concatenate(lengths), pairs), shape=(size, size))


def _fits_along(starts: np.ndarray, stops: np.ndarray, walls: np.ndarray, radius: float) -> np.ndarray:
    """Say whether lines between free points keep a distance from every wall.

    The nearest points of two segments that do not cross include an end of one. The ends of the lines are free already,
    so the ends of the walls decide. A line that crosses a wall is shorter than the robot's diameter, and its ends could
    not both be free.
    """
    along = (stops - starts)[:, None]
    ends = walls.reshape(-1, 2)
    away = ends - starts[:, None]  # [L, 2W, 2]
    fraction = np.clip((away * along).sum(axis=-1) / (along * along).sum(axis=-1), 0.0, 1.0)
    nearest = away - fraction[..., None] * along
    return ((nearest**2).sum(axis=-1) >= radius**2).all(axis=1)


def _check_room(maze: Maze, walls: Tensor) -> None:
    room = float(clearance(tf.constant(maze.start, tf.float64), walls))
    if room < maze.radius:
        raise maze.error(
            ("start",), f"the start is {room:.3g} from a wall: too close for a robot of radius {maze.radius:g}"
        )


def _start(maze: Maze, nodes: np.ndarray, points: np.ndarray) -> int:
    """Return the free grid point nearest to the start."""
    away = np.where(nodes >= 0, _distances(points, maze.start), np.inf)
    if away.min() > maze.radius:
        raise maze.error(("start",), "the start is outside the maze")
    return int(nodes.flat[away.argmin()])


def _distances(points: np.ndarray, target: tuple[float, float]) -> np.ndarray:
    return np.hypot(*np.moveaxis(points - np.array(target), -1, 0))


def _check_closed(
    maze: Maze, nodes: np.ndarray, points: np.ndarray, graph: sparse.csr_matrix, regions: np.ndarray, start: int
) -> None:
    outside = nodes[0, 0]
    if regions[start] == regions[outside]:
        raise maze.error(
            ("start",),
            f"a robot of radius {maze.radius:g} gets from the start to the outside: the maze is not closed"
            f"{_leak(maze, graph, nodes, points, start, outside)}",
        )


def _leak(maze: Maze, graph: sparse.csr_matrix, nodes: np.ndarray, points: np.ndarray, start: int, outside: int) -> str:
    """Say where a robot gets out: the first point of the shortest way that is beyond the walls' hull."""
    _, back = dijkstra(graph, directed=False, indices=outside, return_predecessors=True)
    ends = np.reshape(maze.walls, [-1, 2])
    low, high = ends.min(axis=0), ends.max(axis=0)
    places, here = points[nodes >= 0], start
    while here >= 0 and (places[here] > low).all() and (places[here] < high).all():
        here = back[here]
    return f" near ({places[here][0]:.0f}, {places[here][1]:.0f})" if here >= 0 else ""


def _from_goal(
    maze: Maze, nodes: np.ndarray, points: np.ndarray, graph: sparse.csr_matrix, reachable: np.ndarray
) -> np.ndarray:
    """Return path lengths `[X, Y]`, infinite where a robot from the start cannot be."""
    away = _distances(points, maze.goal)
    arrives = (nodes >= 0) & (away < maze.reach)
    arrives[arrives] &= _sees(points[arrives], np.array(maze.goal), np.array(maze.walls))
    ends = nodes[arrives]
    if not reachable[ends].any():
        raise maze.error(("goal",), f"a robot of radius {maze.radius:g} finds no way from the start to the goal")
    size = graph.shape[0]
    to_goal = sparse.csr_matrix((away[arrives], (np.zeros(len(ends), int), ends)), shape=(1, size))
    whole = sparse.bmat([[graph, None], [to_goal, sparse.csr_matrix((1, 1))]], format="csr")
    # A grid point that is the goal itself would be no edge at all in a sparse matrix.
    whole.data = np.maximum(whole.data, 1e-9)
    found = dijkstra(whole, directed=False, indices=size)[:size]
    lengths = np.full(nodes.shape, np.inf)
    lengths[nodes >= 0] = np.where(reachable, found, np.inf)
    return lengths


def _sees(points: np.ndarray, target: np.ndarray, walls: np.ndarray) -> np.ndarray:
    """Say whether no wall stands between points and a target."""

    def side(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])

    here, start, stop = points[:, None], walls[:, :2], walls[:, 2:]
    crosses = (side(start, stop, here) * side(start, stop, target) < 0) & (
        side(here, target, start) * side(here, target, stop) < 0
    )
    return ~crosses.any(axis=1)
