"""Breadcrumbs: the shortest path to the goal from every position, for a robot of a given radius.

Free space is sampled on a grid with a spacing of an eighth of the robot's radius. A grid point is connected to those up
to four rows and columns away wherever the robot fits along the whole straight line, and Dijkstra's search runs outwards
from the goal. Directions in between cost at most 0.8 % more than a straight line; between grid points the length is
interpolated.
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
    """`[X, Y]`, finite everywhere; from a blocked point, the straight line to the nearest free point is added."""
    free: np.ndarray
    """`[X, Y]`, whether the point can be reached from the start."""

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
    """Return the path lengths of a maze; raise an error if it is not closed or the goal cannot be reached."""
    origin, spacing, points = _grid(maze)
    walls = tf.constant(maze.walls, tf.float64)
    room = np.concatenate([clearance(tf.constant(row), walls).numpy()[None] for row in points])
    _check_room(maze, walls)
    nodes, graph = _graph(points, room, spacing, maze)
    _, regions = connected_components(graph, directed=False)
    start = _start(maze, nodes, points)
    _check_closed(maze, nodes, points, graph, regions, start)
    lengths = _search_from_goal(maze, nodes, points, graph, regions == regions[start])
    # Interpolation needs a number at blocked points, too; the other side of a wall is always farther.
    away, nearest = ndimage.distance_transform_edt(~np.isfinite(lengths), return_indices=True)
    filled = lengths[tuple(nearest)] + spacing * away
    return PathLengthField(origin, spacing, filled, np.isfinite(lengths))


def _grid(maze: Maze) -> tuple[np.ndarray, float, np.ndarray]:
    ends = np.reshape(maze.walls, [-1, 2])
    spacing = maze.radius / 8.0
    # The grid includes room for a robot outside the walls, to detect whether it can get there.
    margin = 2.0 * maze.radius
    low, high = ends.min(axis=0) - margin, ends.max(axis=0) + margin
    counts = np.ceil((high - low) / spacing).astype(int) + 1
    if math.prod(counts.tolist()) > _MOST_POINTS:
        raise maze.error(("radius",), f"the maze is too large for a robot of radius {maze.radius:g}")
    axes = [low[i] + spacing * np.arange(counts[i]) for i in range(2)]
    return low, spacing, np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def _graph(points: np.ndarray, room: np.ndarray, spacing: float, maze: Maze) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Return node numbers of grid points, -1 where a robot does not fit, and the graph of distances between nodes."""
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
            # Clearance changes by at most the distance travelled, so only lines close to a wall need a check.
            close = joined & (room[here] + room[there] - length < 2.0 * maze.radius)
            joined[close] = _fits_along(points[here][close], points[there][close], walls, maze.radius)
            ends.append(nodes[here][joined])
            others.append(nodes[there][joined])
            lengths.append(np.full(len(ends[-1]), length))
    size = int(fits.sum())
    pairs = (np.concatenate(ends), np.concatenate(others))
    return nodes, sparse.csr_matrix((np.concatenate(lengths), pairs), shape=(size, size))


def _fits_along(starts: np.ndarray, stops: np.ndarray, walls: np.ndarray, radius: float) -> np.ndarray:
    """Return whether lines between free points keep their distance from every wall.

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
            f"the maze is not closed: a robot of radius {maze.radius:g} gets from the start to the outside"
            f"{_leak(maze, graph, nodes, points, start, outside)}",
        )


def _leak(maze: Maze, graph: sparse.csr_matrix, nodes: np.ndarray, points: np.ndarray, start: int, outside: int) -> str:
    """Describe where a robot gets out: the first point of the shortest path outside the walls' bounding box."""
    _, back = dijkstra(graph, directed=False, indices=outside, return_predecessors=True)
    ends = np.reshape(maze.walls, [-1, 2])
    low, high = ends.min(axis=0), ends.max(axis=0)
    places, here = points[nodes >= 0], start
    while here >= 0 and (places[here] > low).all() and (places[here] < high).all():
        here = back[here]
    return f" near ({places[here][0]:.0f}, {places[here][1]:.0f})" if here >= 0 else ""


def _search_from_goal(
    maze: Maze, nodes: np.ndarray, points: np.ndarray, graph: sparse.csr_matrix, reachable: np.ndarray
) -> np.ndarray:
    """Return path lengths `[X, Y]`, infinite at points that cannot be reached from the start."""
    away = _distances(points, maze.goal)
    arrives = (nodes >= 0) & (away < maze.reach)
    arrives[arrives] &= _is_visible(points[arrives], np.array(maze.goal), np.array(maze.walls))
    ends = nodes[arrives]
    if not reachable[ends].any():
        raise maze.error(
            ("goal",), f"there is no path from the start to the goal for a robot of radius {maze.radius:g}"
        )
    size = graph.shape[0]
    to_goal = sparse.csr_matrix((away[arrives], (np.zeros(len(ends), int), ends)), shape=(1, size))
    whole = sparse.bmat([[graph, None], [to_goal, sparse.csr_matrix((1, 1))]], format="csr")
    # An edge of length zero, from the goal to a grid point at the same place, would vanish in a sparse matrix.
    whole.data = np.maximum(whole.data, 1e-9)
    distances = dijkstra(whole, directed=False, indices=size)[:size]
    lengths = np.full(nodes.shape, np.inf)
    lengths[nodes >= 0] = np.where(reachable, distances, np.inf)
    return lengths


def _is_visible(points: np.ndarray, target: np.ndarray, walls: np.ndarray) -> np.ndarray:
    """Return whether there is no wall between points and a target."""

    def side(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])

    here, start, stop = points[:, None], walls[:, :2], walls[:, 2:]
    crosses = (side(start, stop, here) * side(start, stop, target) < 0) & (
        side(here, target, start) * side(here, target, stop) < 0
    )
    return ~crosses.any(axis=1)
