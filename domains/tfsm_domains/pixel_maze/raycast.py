"""Movement and rendering of the first-person maze, equivalent to PLE's RaycastMaze, for a batch of agents.

Positions are in squares, x along a row and y down a column: the center of row r, column c is (c + 0.5, r + 0.5).
Headings are degrees clockwise on the map: 0 looks along +x, 90 along +y, and a turn to the right adds.

Everything but the pixels is 64-bit: the last digits decide whether a step ends in a wall, on which side a ray passes a
corner and how a shade is truncated to an integer, and they differ from one compiled program to the next.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfsm.interfaces import Tensor
from tfsm_domains.pixel_maze.layout import MazeLayout, Square

FORWARD, LEFT, RIGHT, BACKWARD, NONE = range(5)
"""PLE's actions, in PLE's order."""
STEP: Final = 1 / 3
"""Squares per frame: 20 per second, at 60 frames per second."""
TURN: Final = 12.41
"""Degrees per frame: 13 radians per second, at 60 frames per second, to two decimals."""
PLANE: Final = 0.66
"""Half the width of the screen, at distance 1."""
FADING: Final = 22.5
"""Gray levels that a wall loses per square of distance."""
SIDE: Final = 0.65
"""Brightness of faces across y, relative to faces across x."""
WHITE, RED = (255.0, 255.0, 255.0), (255.0, 100.0, 100.0)
FLOOR: Final = 92

Walls = npt.NDArray[np.bool_]
"""`[rows, columns]`, with a closed border."""


class Pose(NamedTuple):
    """The positions and headings of B agents."""

    position: Tensor
    """`[B, 2]`: x and y"""
    heading: Tensor
    """`[B]`: degrees, not reduced to one turn; an episode is too short for that to cost precision"""


def walls_of(layout: MazeLayout) -> Walls:
    """Return the squares that are walls."""
    return np.array([[not layout.free(Square(r, c)) for c in range(layout.width)] for r in range(layout.height)])


def start_poses(layout: MazeLayout, count: int | Tensor) -> Pose:
    """Return `count` agents at the center of the start, looking along +x."""
    center = [[layout.start.column + 0.5, layout.start.row + 0.5]]
    return Pose(tf.tile(tf.constant(center, tf.float64), [count, 1]), tf.zeros([count], tf.float64))


def move(walls: Walls, pose: Pose, action: Tensor) -> Pose:
    """Simulate one frame: move, unless the step ends in a wall, or turn.

    Args:
        walls: the squares that are walls.
        pose: the agents.
        action: `[B]`, integers: forward, left, right, backward, none.
    """
    ahead = tf.gather(tf.constant([STEP, 0.0, 0.0, -STEP, 0.0], tf.float64), action)
    turned = tf.gather(tf.constant([0.0, -TURN, TURN, 0.0, 0.0], tf.float64), action)
    moved = pose.position + ahead[:, None] * tf.stack(_direction(pose.heading), axis=-1)
    column, row = tf.unstack(tf.cast(tf.floor(moved), tf.int32), axis=-1)
    blocked = tf.gather(tf.constant(walls.reshape(-1)), row * walls.shape[1] + column)
    return Pose(tf.where(blocked[:, None], pose.position, moved), pose.heading + turned)


def draw(walls: Walls, goal: Square | None, position: Tensor, heading: Tensor, size: int = 64) -> Tensor:
    """Return frames `[..., size, size]` of gray levels, uint8, rows from the top.

    Args:
        walls: the squares that are walls.
        goal: a free square that looks like a red block and hides what is behind it; None: no such square.
        position: `[..., 2]`
        heading: `[...]`, degrees
        size: rows and columns per frame.
    """
    return tf.cast(_frames(walls, goal, position, heading, size), tf.uint8)


def view(walls: Walls, goal: Square | None, position: Tensor, heading: Tensor, size: int = 64) -> Tensor:
    """Return the network's input: the frames of `draw`, as 32-bit floats from 0 to 1."""
    return _frames(walls, goal, position, heading, size) / 255.0


def _frames(walls: Walls, goal: Square | None, position: Tensor, heading: Tensor, size: int) -> Tensor:
    solid = walls.copy()
    if goal is not None:
        solid[goal] = True
    x, y = position[..., 0, None], position[..., 1, None]  # [..., 1]
    ahead_x, ahead_y = (part[..., None] for part in _direction(heading))
    beside = PLANE * tf.constant(2 * np.arange(size) / size - 1, tf.float64)  # [W]
    ray_x, ray_y = _not_zero(ahead_x - beside * ahead_y), _not_zero(ahead_y + beside * ahead_x)  # [..., W]
    across_x = _first_face(solid.T, goal and goal[::-1], (x, y), (ray_x, ray_y))
    across_y = _first_face(solid, goal, (y, x), (ray_y, ray_x))
    distance, tinted = (tf.stack(both, axis=-2) for both in zip(across_x, across_y, strict=True))  # [..., 2, W]
    light = tf.constant([[1.0], [SIDE]], tf.float64)
    gray = tf.where(tinted, _gray(RED, distance, light), _gray(WHITE, distance, light))
    first = across_x[0] < across_y[0]
    gray = tf.where(tf.stack([first, ~first], axis=-2), gray, 0.0)
    height = tf.floor(tf.minimum(size / distance, 2.0 * size))  # bounded where an agent touches the wall
    # Reduce to the nearer face last: the compiler recomputes what follows a reduction for every pixel.
    height, gray = (tf.reduce_max(tf.cast(part, tf.float32), axis=-2) for part in (height, gray))  # [..., W]
    row = np.arange(size)[:, None]
    # A line of h pixels covers rows int(H/2 - h/2) to int(H/2 + h/2). Solved for h, each pixel is one comparison.
    needed = tf.constant(np.maximum(size - 1 - 2 * row, 2 * row - size), tf.float32)
    behind = tf.constant(np.where(2 * row >= size, FLOOR, 0), tf.float32)
    return tf.where(height[..., None, :] >= needed, gray[..., None, :], behind)


def _direction(heading: Tensor) -> tuple[Tensor, Tensor]:
    radians = heading * (math.pi / 180.0)
    return tf.cos(radians), tf.sin(radians)


def _not_zero(value: Tensor) -> Tensor:
    # A ray along one axis never crosses the other's grid lines; nudged by this much it does, too far away to be seen.
    return tf.where(tf.abs(value) < 1e-12, tf.constant(1e-12, value.dtype), value)


def _first_face(
    solid: Walls, goal: tuple[int, ...] | None, origin: tuple[Tensor, Tensor], ray: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Find the first face across one axis, for rays `[..., W]` from `[..., 1]`.

    It is known where a ray crosses the grid lines of that axis, so the cells behind all of them are looked up at once.
    In the default maze this is as fast as following the ray from cell to cell, and needs no loop. The number of the
    line gives the cell's index on the axis without rounding. The border ends every ray.

    Args:
        solid: `[N, M]`, where N counts along the axis.
        goal: a cell of `solid`.
        origin: the coordinates along the axis and across it.
        ray: likewise, never zero.

    Returns:
        The distance along the heading, and whether the face belongs to the goal, `[..., W]`.
    """
    count, beside = solid.shape
    up = ray[0] > 0
    line = np.arange(1, count)[:, None]  # [N - 1, 1]
    distance = (tf.constant(line, tf.float64) - origin[0][..., None]) * (1.0 / ray[0])[..., None, :]  # [..., N - 1, W]
    place = tf.clip_by_value(origin[1][..., None] + distance * ray[1][..., None, :], 0.0, beside - 1.0)
    cell = tf.where(up[..., None, :], tf.constant(line * beside, tf.int32), tf.constant((line - 1) * beside, tf.int32))
    hit = tf.gather(tf.constant(solid.reshape(-1)), cell + tf.cast(place, tf.int32))
    # By the agent's cell, not by the sign of the distance, which is zero for an agent on a line.
    ahead = tf.equal(tf.constant(line, tf.float64) > tf.floor(origin[0])[..., None], up[..., None, :])
    nearest = tf.reduce_min(tf.where(hit & ahead, distance, np.inf), axis=-2)
    if goal is None:
        return nearest, tf.zeros_like(up)
    cell_index = tf.round(origin[0] + nearest * ray[0]) - tf.where(up, tf.constant(0.0, tf.float64), 1.0)
    return nearest, tf.equal(cell_index, goal[0]) & tf.equal(tf.floor(origin[1] + nearest * ray[1]), goal[1])


def _gray(color: tuple[float, float, float], distance: Tensor, light: Tensor) -> Tensor:
    """Return the gray level of a face.

    PLE darkens a color channel by channel: each loses the same amount with distance, down to 0, is multiplied by the
    same brightness and truncated to an integer; only then is the color converted to gray. So from 4.4 squares on, the
    goal is pure red.
    """
    red, green, blue = (tf.floor(tf.clip_by_value(base - FADING * distance, 0.0, 255.0) * light) for base in color)
    return tf.round(0.21 * red + 0.72 * green + 0.07 * blue)
