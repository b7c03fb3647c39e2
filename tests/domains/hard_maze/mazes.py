"""Small mazes for tests."""

from __future__ import annotations

from tfsm_domains.hard_maze.maze import Maze

ROOM = ((0.0, 0.0, 100.0, 0.0), (100.0, 0.0, 100.0, 100.0), (100.0, 100.0, 0.0, 100.0), (0.0, 100.0, 0.0, 0.0))

ROOM_FILE = """\
name = "room"
steps = 20
radius = 8
start = [20, 50]
heading = 0
goal = [80, 50]
walls = [
    [0, 0, 100, 0],
    [100, 0, 100, 100], # the right one
    [100, 100, 0, 100],
    [0, 100, 0, 0],
]
"""


def room(**changes: object) -> Maze:
    return Maze(**{"walls": ROOM, "start": (20.0, 50.0), "goal": (80.0, 50.0), **changes})  # type: ignore[arg-type]
