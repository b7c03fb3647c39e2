"""The hard maze's robot, one at a time and step by step, written from its description."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Wall = Sequence[float]
BEARINGS = [(315, 405), (45, 135), (135, 225), (225, 315)]


def from_wall(x: float, y: float, wall: Wall) -> float:
    x1, y1, x2, y2 = wall
    along = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / ((x2 - x1) ** 2 + (y2 - y1) ** 2)
    if along <= 0:
        return math.dist((x, y), (x1, y1))
    if along >= 1:
        return math.dist((x, y), (x2, y2))
    return math.dist((x, y), (x1 + along * (x2 - x1), y1 + along * (y2 - y1)))


def meeting(x: float, y: float, angle: float, wall: Wall) -> float | None:
    """Solve (x, y) + t (cos, sin) = wall start + s (wall end - wall start) for t by Cramer's rule."""
    x1, y1, x2, y2 = wall
    a, b, c, d = math.cos(angle), x1 - x2, math.sin(angle), y1 - y2
    determinant = a * d - b * c
    if determinant == 0:
        return None
    t = ((x1 - x) * d - b * (y1 - y)) / determinant
    s = (a * (y1 - y) - (x1 - x) * c) / determinant
    return t if t >= 0 and 0 <= s <= 1 else None


def sensors(x: float, y: float, heading: float, walls: Sequence[Wall], goal: Sequence[float]) -> list[float]:
    readings = [1.0]
    for angle in (-90, -45, 0, 45, 90, -180):
        meetings = [meeting(x, y, math.radians(heading + angle), wall) for wall in walls]
        readings.append(min([100.0, *(t for t in meetings if t is not None)]) / 100)
    bearing = (math.degrees(math.atan2(goal[1] - y, goal[0] - x)) - heading) % 360
    for low, high in BEARINGS:
        readings.append(float(low <= bearing < high or low <= bearing + 360 < high))
    return readings


def rolled(
    walls: Sequence[Wall],
    start: Sequence[float],
    heading: float,
    goal: Sequence[float],
    policy: Callable[[list[float]], Sequence[float]],
    steps: int = 400,
    hold: int = 3,
) -> list[tuple[float, float, float]]:
    """Return every pose of a roll-out."""
    x, y = start
    turning = speed = 0.0
    poses = [(x, y, heading)]
    for i in range(steps):
        if i % hold == 0:
            outputs = policy(sensors(x, y, heading, walls, goal))
        desired = [6 * (output - 0.5) for output in outputs]
        turning = min(3.0, max(-3.0, turning + min(0.2, max(-0.2, desired[0] - turning))))
        speed = min(3.0, max(-3.0, speed + min(0.2, max(-0.2, desired[1] - speed))))
        new_x = x + speed * math.cos(math.radians(heading))
        new_y = y + speed * math.sin(math.radians(heading))
        if all(from_wall(new_x, new_y, wall) >= 8 for wall in walls):
            x, y = new_x, new_y
        heading += turning
        heading = heading - 360 if heading > 360 else heading + 360 if heading < 0 else heading
        poses.append((x, y, heading))
    return poses
