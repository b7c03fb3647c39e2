"""A first-person frame of a grid maze, ray by ray and cell by cell, written from the formulas of PLE's RaycastMaze."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def hit(
    walls: Sequence[Sequence[bool]], goal: tuple[int, int] | None, x: float, y: float, ray_x: float, ray_y: float
) -> tuple[float, bool, bool]:
    """Follow a ray to the first cell that is not see-through.

    Returns how far its face is in lengths of the ray, whether the face lies across y, and whether it is the goal's.
    """
    column, row = math.floor(x), math.floor(y)
    step_x, step_y = (1 if ray_x >= 0 else -1), (1 if ray_y >= 0 else -1)
    # How much of the ray it takes to get from one grid line to the next, and to the first one.
    delta_x, delta_y = (abs(1 / part) if part else math.inf for part in (ray_x, ray_y))
    next_x = (column + 1 - x if step_x > 0 else x - column) * delta_x
    next_y = (row + 1 - y if step_y > 0 else y - row) * delta_y
    while True:
        if next_x < next_y:
            t, y_face = next_x, False
            next_x += delta_x
            column += step_x
        else:
            t, y_face = next_y, True
            next_y += delta_y
            row += step_y
        if walls[row][column] or (row, column) == goal:
            return t, y_face, (row, column) == goal


def colour(t: float, y_face: bool, is_goal: bool) -> tuple[int, ...]:
    base = (255, 100, 100) if is_goal else (255, 255, 255)
    return tuple(int(min(max(channel - 22.5 * t, 0), 255) * (0.65 if y_face else 1)) for channel in base)


def gray(red: int, green: int, blue: int) -> int:
    return round(0.21 * red + 0.72 * green + 0.07 * blue)


def frame(
    walls: Sequence[Sequence[bool]], goal: tuple[int, int] | None, x: float, y: float, heading: float, size: int = 64
) -> np.ndarray:
    """Return the gray levels `[H, W]` seen from (x, y) in a direction in degrees, rows from the top."""
    angle = math.radians(heading)
    ahead = math.cos(angle), math.sin(angle)
    plane = -0.66 * ahead[1], 0.66 * ahead[0]  # (0, 0.66), turned as the heading is
    image = np.zeros((size, size), np.uint8)
    image[size // 2 + size % 2 :] = 92
    for i in range(size):
        c = 2 * i / size - 1
        t, y_face, is_goal = hit(walls, goal, x, y, ahead[0] + c * plane[0], ahead[1] + c * plane[1])
        line = int(size / t) if t > 1e-3 else 1000 * size  # more than fills the column
        top, bottom = int(max(0, size / 2 - line / 2)), int(min(size - 1, size / 2 + line / 2))
        image[top : bottom + 1, i] = gray(*colour(t, y_face, is_goal))
    return image
