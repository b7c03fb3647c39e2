"""The maze in first person: how one moves in it and what one sees, as PLE's RaycastMaze has it, for a batch at once.

Positions are in squares, x along a row and y down a column: the centre of row r, column c is (c + 0.5, r + 0.5).
Headings are degrees clockwise on the map: 0 looks along +x, 90 along +y, and a turn to the right adds.

All but the pixels is in 64-bit numbers: whether a step ends in a wall, on which side a ray passes a corner and where a
shade is cut off to an integer hang on the last digits, and those differ from one compiled program to the next.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfsm.interfaces import Tensor
from tfsm_domains.pixel_maze.layout import Layout, Square

FORWARD, LEFT, RIGHT, BACKWARD, NONE = range(5)
"""PLE's actions, in PLE's order."""
STEP: Final = 1 / 3
"""Squares a frame: 20 a second, at 60 frames a second."""
TURN: Final = 12.41
"""Degrees a frame: 13 radians a second, at 60 frames a second, to two decimals."""
PLANE: Final = 0.66
"""Half the width of the screen, at distance 1."""
FADING: Final = 22.5
"""Gray levels that a wall loses a square."""
SIDE: Final = 0.65
"""The light on faces across y, compared with those across x."""
WHITE, RED = (255.0, 255.0, 255.0), (255.0, 100.0, 100.0)
FLOOR: Final = 92

Walls = npt.NDArray[np.bool_]
"""`[rows, columns]`, with a closed border."""


class Pose(NamedTuple):
    """Where B walkers are and where they look."""

    position: Tensor
    """`[B, 2]`: x and y"""
    heading: Tensor
    """`[B]`: degrees, not brought back to one turn: an episode is too short for that to cost digits"""


def walls_of(layout: Layout) -> Walls:
    """Return which squares are walls."""
    return np.array([[not layout.free(Square(r, c)) for c in range(layout.width)] for r in range(layout.height)])


def begin(layout: Layout, count: int | Tensor) -> Pose:
    """Return `count` walkers at the centre of the start, looking along +x."""
    centre = [[layout.start.column + 0.5, layout.start.row + 0.5]]
    return Pose(tf.tile(tf.constant(centre, tf.float64), [count, 1]), tf.zeros([count], tf.float64))


def move(walls: Walls, pose: Pose, action: Tensor) -> Pose:
    """Let one frame pass: go, unless the step ends in a wall, or turn.

    Args:
        walls: which squares are walls.
        pose: where the walkers are.
        action: `[B]`, integers: forward, left, right, backward, none.
    """
    ahead = tf.gather(tf.constant([STEP, 0.0, 0.0, -STEP, 0.0], tf.float64), action)
    turned = tf.gather(tf.constant([0.0, -TURN, TURN, 0.0, 0.0], tf.float64), action)
    moved = pose.position + ahead[:, None] * tf.stack(_direction(pose.heading), axis=-1)
    column, row = tf.unstack(tf.cast(tf.floor(moved), tf.int32), axis=-1)
    blocked = tf.gather(tf.constant(walls.reshape(-1)), row * walls.shape[1] + column)
    return Pose(tf.where(blocked[:, None], pose.position, moved), pose.heading + turned)


def draw(walls: Walls, goal: Square | None, position: Tensor, heading: Tensor, size: int = 64) -> Tensor:
    """Return frames `[..., size, size]` of gray levels from 0 to 255, 8 bits, rows from the top.

    Args:
        walls: which squares are walls.
        goal: a free square that looks like a red block: from outside it hides what is behind it. None: no such square.
        position: `[..., 2]`
        heading: `[...]`, degrees
        size: rows and columns of a frame.
    """
    return tf.cast(_frames(walls, goal, position, heading, size), tf.uint8)


def view(walls: Walls, goal: Square | None, position: Tensor, heading: Tensor, size: int = 64) -> Tensor:
    """Return what the network sees: the frames that `draw` returns, as 32-bit numbers from 0 to 1."""
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
    height = tf.floor(tf.minimum(size / distance, 2.0 * size))  # not endless where one touches the wall
    # The nearer face is taken last of all: the compiler works out what follows a reduction anew for every pixel.
    height, gray = (tf.reduce_max(tf.cast(part, tf.float32), axis=-2) for part in (height, gray))  # [..., W]
    row = np.arange(size)[:, None]
    # A line of h pixels reaches from row int(H/2 - h/2) to int(H/2 + h/2): solved for h, a pixel is one comparison.
    needed = tf.constant(np.maximum(size - 1 - 2 * row, 2 * row - size), tf.float32)
    behind = tf.constant(np.where(2 * row >= size, FLOOR, 0), tf.float32)
    return tf.where(height[..., None, :] >= needed, gray[..., None, :], behind)


def _direction(heading: Tensor) -> tuple[Tensor, Tensor]:
    radians = heading * (math.pi / 180.0)
    return tf.cos(radians), tf.sin(radians)


def _not_zero(value: Tensor) -> Tensor:
    # A ray straight along one axis never crosses the other's lines; this little aside it does, too far away to be seen.
    return tf.where(tf.abs(value) < 1e-12, tf.constant(1e-12, value.dtype), value)


def _first_face(
    solid: Walls, goal: tuple[int, ...] | None, origin: tuple[Tensor, Tensor], ray: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Find the first face that lies across one axis, for rays `[..., W]` from `[..., 1]`.

    Where a ray crosses the grid lines of that axis is known, so the cells behind all of them are looked up at once: in
    the default maze as fast as to follow the ray from cell to cell, and without a loop. Which cell it is on the axis,
    the line's number tells without rounding. The border ends every ray.

    Args:
        solid: `[N, M]`, where N counts along the axis.
        goal: a cell of it.
        origin: along the axis and beside it.
        ray: likewise, nowhere zero.

    Returns:
        How far it is, measured along the heading, and whether it is the goal's, `[..., W]`.
    """
    count, beside = solid.shape
    up = ray[0] > 0
    line = np.arange(1, count)[:, None]  # [N - 1, 1]
    distance = (tf.constant(line, tf.float64) - origin[0][..., None]) * (1.0 / ray[0])[..., None, :]  # [..., N - 1, W]
    place = tf.clip_by_value(origin[1][..., None] + distance * ray[1][..., None, :], 0.0, beside - 1.0)
    cell = tf.where(up[..., None, :], tf.constant(line * beside, tf.int32), tf.constant((line - 1) * beside, tf.int32))
    hit = tf.gather(tf.constant(solid.reshape(-1)), cell + tf.cast(place, tf.int32))
    # By the cell one is in, not by the distance's sign: who stands on a line has none.
    ahead = tf.equal(tf.constant(line, tf.float64) > tf.floor(origin[0])[..., None], up[..., None, :])
    nearest = tf.reduce_min(tf.where(hit & ahead, distance, np.inf), axis=-2)
    if goal is None:
        return nearest, tf.zeros_like(up)
    met = tf.round(origin[0] + nearest * ray[0]) - tf.where(up, tf.constant(0.0, tf.float64), 1.0)
    return nearest, tf.equal(met, goal[0]) & tf.equal(tf.floor(origin[1] + nearest * ray[1]), goal[1])


def _gray(colour: tuple[float, float, float], distance: Tensor, light: Tensor) -> Tensor:
    """Return the gray level of a face.

    PLE darkens a colour channel by channel: all three lose the same by distance, down to 0, are multiplied by the same
    light and cut off to integers; only then is the colour made gray. So from 4.4 squares on, the goal is all red.
    """
    red, green, blue = (tf.floor(tf.clip_by_value(base - FADING * distance, 0.0, 255.0) * light) for base in colour)
    return tf.round(0.21 * red + 0.72 * green + 0.07 * blue)
