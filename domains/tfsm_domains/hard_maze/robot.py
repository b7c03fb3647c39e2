"""The robot simulator of the hard maze, for a batch of robots.

Positions and headings are 64-bit: the last digits decide whether a step ends in a wall, and a single blocked step
changes everything after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import tensorflow as tf

from tfsm.interfaces import Tensor
from tfsm_domains.hard_maze.maze import Maze


def clearance(points: Tensor, walls: Tensor) -> Tensor:
    """Return the distance `[...]` of points `[..., 2]` from the nearest wall of `[W, 4]`."""
    start, along = walls[:, :2], walls[:, 2:] - walls[:, :2]
    away = points[..., None, :] - start  # [..., W, 2]
    fraction = tf.reduce_sum(away * along, axis=-1) / tf.reduce_sum(along * along, axis=-1)
    nearest = away - tf.clip_by_value(fraction, 0.0, 1.0)[..., None] * along
    return tf.sqrt(tf.reduce_min(tf.reduce_sum(nearest * nearest, axis=-1), axis=-1))


def ray_lengths(origins: Tensor, angles: Tensor, walls: Tensor, limit: float) -> Tensor:
    """Return the lengths `[..., R]` of rays from `[..., 2]` at angles `[..., R]` (radians) up to walls `[W, 4]`."""
    start, along = walls[:, :2] - origins[..., None, :], walls[:, 2:] - walls[:, :2]  # [..., W, 2]
    # Each ray is a line through the origin; the sign of x * uy - y * ux is the side of it on which a point lies.
    ux, uy = tf.cos(angles)[..., None], tf.sin(angles)[..., None]  # [..., R, 1]
    slope = ux * along[:, 1] - uy * along[:, 0]  # [..., R, W]
    side = start[..., None, :, 0] * uy - start[..., None, :, 1] * ux
    reach = (start[..., 0] * along[:, 1] - start[..., 1] * along[:, 0])[..., None, :]
    # Divide only where the ray meets the wall, between its ends and ahead.
    sign = tf.sign(slope)
    meets = (side * sign >= 0) & (side * sign <= slope * sign) & (reach * sign >= 0) & (sign != 0)
    lengths = tf.where(meets, reach / tf.where(meets, slope, 1.0), limit)
    return tf.minimum(tf.reduce_min(lengths, axis=-1), limit)


RANGEFINDERS: Final = (-90.0, -45.0, 0.0, 45.0, 90.0, -180.0)
"""Degrees from the heading."""
RANGE: Final = 100.0
LIMIT: Final = 3.0
"""Maximum speed in units per step, and maximum angular velocity in degrees per step."""
CHANGE: Final = 0.2
"""Maximum change of speed or angular velocity per step."""
SENSORS: Final = 1 + len(RANGEFINDERS) + 4

RobotPolicy = Callable[[Tensor], Tensor]
"""Maps sensor readings `[B, 11]` to two outputs `[B, 2]` in [0, 1]."""


class Robot(NamedTuple):
    """The state of B robots."""

    position: Tensor
    """`[B, 2]`"""
    heading: Tensor
    """`[B]`, degrees"""
    turning: Tensor
    """`[B]`, degrees per step"""
    speed: Tensor
    """`[B]`, units per step"""


class Trajectory(NamedTuple):
    """A roll-out of B robots."""

    end: Robot
    reached: Tensor
    """`[B]`, whether the robot ever reached the goal."""
    finite: Tensor
    """`[B]`, whether all outputs were finite."""
    seen: Tensor
    """`[B, decisions, 11]`: the sensor readings at each decision."""
    trail: Tensor
    """`[B, steps + 1, 3]`: x, y and heading; `[B, 0, 3]` unless requested."""


def start_robots(maze: Maze, count: int | Tensor) -> Robot:
    """Return `count` robots at the start, at rest."""
    zeros = tf.zeros([count], tf.float64)
    return Robot(tf.tile(tf.constant([maze.start], tf.float64), [count, 1]), zeros + maze.heading, zeros, zeros)


def step(maze: Maze, robot: Robot, outputs: Tensor) -> Robot:
    """Move one step: change the velocities towards their targets, move unless blocked by a wall, and turn."""
    target = (tf.cast(outputs, tf.float64) - 0.5) * (2.0 * LIMIT)
    turning = _approach(robot.turning, target[:, 0])
    speed = _approach(robot.speed, target[:, 1])
    radians = robot.heading * (math.pi / 180.0)
    moved = robot.position + speed[:, None] * tf.stack([tf.cos(radians), tf.sin(radians)], axis=-1)
    blocked = clearance(moved, _walls(maze, tf.float64)) < maze.radius
    heading = robot.heading + turning
    heading = tf.where(heading > 360.0, heading - 360.0, tf.where(heading < 0.0, heading + 360.0, heading))
    return Robot(tf.where(blocked[:, None], robot.position, moved), heading, turning, speed)


def sense(maze: Maze, position: Tensor, heading: Tensor) -> Tensor:
    """Return sensor readings `[..., 11]`: a bias, six rangefinders and the quadrant of the goal, one-hot."""
    angles = (heading[..., None] + tf.constant(RANGEFINDERS, heading.dtype)) * (math.pi / 180.0)
    # In 32 bits, as the network takes them: rays are most of the work.
    lengths = ray_lengths(tf.cast(position, tf.float32), tf.cast(angles, tf.float32), _walls(maze, tf.float32), RANGE)
    ahead = tf.constant(maze.goal, position.dtype) - position
    bearing = tf.atan2(ahead[..., 1], ahead[..., 0]) * (180.0 / math.pi) - heading
    quarter = tf.math.floormod(tf.floor((bearing + 45.0) / 90.0), 4.0)  # 0: [315, 405), 1: [45, 135), ...
    slices = tf.cast(tf.equal(quarter[..., None], tf.range(4, dtype=quarter.dtype)), tf.float32)
    return tf.concat([tf.ones_like(lengths[..., :1]), lengths / RANGE, slices], axis=-1)


def at_goal(maze: Maze, robot: Robot) -> Tensor:
    """Return which robots are within reach of the goal, `[B]`."""
    away = robot.position - tf.constant(maze.goal, tf.float64)
    return tf.reduce_sum(away * away, axis=-1) < maze.reach**2


def count_decisions(maze: Maze, hold: int) -> int:
    """Return the number of decisions per episode."""
    return -(-maze.steps // hold)


def hold_action(
    maze: Maze, robot: Robot, outputs: Tensor, reached: Tensor, since: Tensor, hold: int, *, stop: bool = False
) -> tuple[list[Robot], Tensor]:
    """Apply the same outputs for several steps, or until the episode ends.

    Args:
        maze: the maze.
        robot: the robots.
        outputs: `[B, 2]`
        reached: `[B]`, whether a robot has reached the goal.
        since: steps already made: a scalar for all robots, or `[B]`.
        hold: number of steps.
        stop: whether a robot stops where it first reaches the goal.

    Returns:
        The robots after each of these steps, and whether they have reached the goal.
    """
    track = []
    for i in range(hold):
        active = since + i < maze.steps
        active = active & ~reached if stop else active
        moved = step(maze, robot, outputs)
        robot = Robot(*(tf.where(_broadcastable(active, new), new, old) for new, old in zip(moved, robot, strict=True)))
        reached |= at_goal(maze, robot)
        track.append(robot)
    return track, reached


def simulate(maze: Maze, policy: RobotPolicy, count: int, hold: int, *, trail: bool = False) -> Trajectory:
    """Simulate an episode of `count` robots.

    Args:
        maze: the maze.
        policy: maps sensor readings to outputs.
        count: B.
        hold: steps per decision.
        trail: whether to return every pose.
    """
    decisions = count_decisions(maze, hold)

    def decide(
        number: Tensor, robot: Robot, reached: Tensor, finite: Tensor, seen: tf.TensorArray, poses: tf.TensorArray
    ) -> tuple[Tensor, Robot, Tensor, Tensor, tf.TensorArray, tf.TensorArray]:
        sensors = sense(maze, robot.position, robot.heading)
        outputs = policy(sensors)
        is_finite = tf.math.is_finite(outputs)
        finite &= tf.reduce_all(is_finite, axis=-1)
        outputs = tf.where(is_finite, outputs, 0.5)  # a broken network's robot stands still
        track, reached = hold_action(maze, robot, outputs, reached, number * hold, hold)
        poses = poses.write(number, tf.stack([_pose(one) for one in track], axis=1)) if trail else poses
        return number + 1, track[-1], reached, finite, seen.write(number, sensors), poses

    start = start_robots(maze, count)
    first = (
        tf.constant(0),
        start,
        at_goal(maze, start),
        tf.ones([count], tf.bool),
        tf.TensorArray(tf.float32, decisions, element_shape=[count, SENSORS]),
        tf.TensorArray(tf.float64, decisions if trail else 0, element_shape=[count, hold, 3]),
    )
    _, end, reached, finite, seen, poses = tf.while_loop(
        lambda number, *_: number < decisions, decide, first, maximum_iterations=decisions
    )
    track = tf.zeros([count, 0, 3], tf.float64)
    if trail:
        moves = tf.reshape(tf.transpose(poses.stack(), [1, 0, 2, 3]), [count, decisions * hold, 3])
        track = tf.concat([_pose(start)[:, None], moves[:, : maze.steps]], axis=1)
    return Trajectory(end, reached, finite, tf.transpose(seen.stack(), [1, 0, 2]), track)


def _approach(value: Tensor, target: Tensor) -> Tensor:
    moved = value + tf.clip_by_value(target - value, -CHANGE, CHANGE)
    return tf.clip_by_value(moved, -LIMIT, LIMIT)


def _broadcastable(condition: Tensor, values: Tensor) -> Tensor:
    """Give a condition `[B]` as many axes as `values` has; scalars broadcast already."""
    return tf.reshape(condition, [-1, *[1] * (values.shape.rank - 1)]) if condition.shape.rank else condition


def _pose(robot: Robot) -> Tensor:
    return tf.concat([robot.position, robot.heading[:, None]], axis=-1)


def _walls(maze: Maze, dtype: tf.DType) -> Tensor:
    return tf.constant(maze.walls, dtype)
