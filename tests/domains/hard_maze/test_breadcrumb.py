from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.domains.hard_maze.mazes import ROOM, room
from tfsm.errors import TfsmError
from tfsm_domains.hard_maze.breadcrumb import compute_path_lengths
from tfsm_domains.hard_maze.maze import Maze, read_maze
from tfsm_domains.hard_maze.robot import clearance


def at(maze: Maze, points: object) -> np.ndarray:
    found: np.ndarray = compute_path_lengths(maze).at(tf.constant(points, tf.float64)).numpy()
    return found


def free_points(maze: Maze, count: int, seed: int = 0) -> np.ndarray:
    points = np.random.default_rng(seed).uniform(0, 205, (count, 2))
    room_there = clearance(tf.constant(points), tf.constant(maze.walls, tf.float64)).numpy()
    field = compute_path_lengths(maze)
    place = np.round((points - field.origin) / field.spacing).astype(int)
    inside = (place >= 0).all(axis=1) & (place < field.free.shape).all(axis=1)
    keep = inside & (room_there >= maze.radius)
    keep[keep] = field.free[tuple(place[keep].T)]
    return points[keep]


def test_in_an_empty_room_the_path_is_a_straight_line() -> None:
    maze = room()
    points = np.random.default_rng(0).uniform(8, 92, (500, 2))
    straight = np.hypot(*(points - maze.goal).T)
    found = at(maze, points)
    assert (found >= straight - 1e-9).all()
    assert (found <= 1.008 * straight + 0.5).all()


def test_around_the_end_of_a_wall_the_path_is_two_tangents_and_an_arc() -> None:
    maze = room(walls=(*ROOM, (50.0, 0.0, 50.0, 60.0)), start=(20.0, 50.0), goal=(80.0, 50.0))
    # The robot's centre keeps 8 from the end of the wall at (50, 60); by symmetry both halves are alike.
    away = math.hypot(30, 10)
    tangent = math.sqrt(away**2 - 8**2)
    between = 2 * math.pi - 2 * math.acos(8 / away) - 2 * math.atan2(30, 10)
    assert 0 < between < math.pi
    assert at(maze, [maze.start])[0] == pytest.approx(2 * tangent + 8 * between, rel=0.01)


def test_every_position_in_the_papers_maze_has_a_path() -> None:
    maze = read_maze()
    points = free_points(maze, 20_000)
    assert len(points) > 5_000
    found = at(maze, points)
    assert np.isfinite(found).all()
    assert (found >= np.hypot(*(points - maze.goal).T) - 1e-3).all()
    assert 440 < at(maze, [maze.start])[0] < 523, "shorter than the grid distance of the paper's code"
    assert at(maze, [maze.goal])[0] < 0.5


def test_a_step_changes_the_path_by_no_more_than_its_length() -> None:
    maze = read_maze()
    points = free_points(maze, 4_000)
    turn = np.random.default_rng(1).uniform(0, 2 * np.pi, len(points))
    moved = points + 3.0 * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    ok = clearance(tf.constant(moved), tf.constant(maze.walls, tf.float64)).numpy() >= maze.radius
    change = np.abs(at(maze, moved[ok]) - at(maze, points[ok]))
    assert change.max() < 3.0 * 1.5


def test_path_lengths_are_cached_per_maze() -> None:
    assert compute_path_lengths(room()) is compute_path_lengths(room())
    assert compute_path_lengths(room(goal=(70.0, 50.0))) is not compute_path_lengths(room())


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": (5.0, 50.0)}, "the start is 5 from a wall: too close for a robot of radius 8"),
        ({"start": (300.0, 50.0)}, "the start is outside the maze"),
        ({"walls": ROOM[:3]}, "the maze is not closed: a robot of radius 8 gets from the start to the outside near"),
        ({"walls": (*ROOM, (50.0, 0.0, 50.0, 100.0))}, "there is no path from the start to the goal"),
        ({"walls": (*ROOM, (50.0, 0.0, 50.0, 85.0))}, "there is no path from the start to the goal"),
        ({"goal": (300.0, 50.0)}, "there is no path from the start to the goal"),
        ({"radius": 0.01}, "the maze is too large for a robot of radius 0.01"),
    ],
    ids=["in a wall", "outside", "open", "no way", "too narrow", "goal outside", "too large"],
)
def test_an_invalid_maze_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TfsmError, match=message):
        compute_path_lengths(room(**changes))


def test_a_smaller_robot_fits_through_a_gap() -> None:
    walls = (*ROOM, (50.0, 0.0, 50.0, 85.0))
    assert at(room(walls=walls, radius=7.0), [(20.0, 50.0)])[0] > 90


def test_a_goal_behind_a_thin_wall_is_not_reached_through_it() -> None:
    # The straight line to the goal is short, but a wall is in between, so the path leads around it.
    walls = (*ROOM, (50.0, 0.0, 50.0, 60.0))
    maze = room(walls=walls, start=(20.0, 20.0), goal=(51.0, 20.0), reach=10.0, radius=8.0)
    assert at(maze, [(42.0, 20.0)])[0] > 80
