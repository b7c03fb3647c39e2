from __future__ import annotations

from pathlib import Path

import pytest

from tests.domains.hard_maze.mazes import ROOM_FILE, room
from tfsm.errors import TfsmError
from tfsm_domains.hard_maze.domain import HardMaze
from tfsm_domains.hard_maze.maze import locate_lines, read_maze


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "my.toml"
    file.write_text(text)
    return str(file)


def test_a_file_becomes_a_maze(tmp_path: Path) -> None:
    assert read_maze(write(tmp_path, ROOM_FILE)) == room(name="room", steps=20)


def test_the_papers_maze_is_the_default() -> None:
    maze = read_maze()
    assert (len(maze.walls), maze.start, maze.goal, maze.steps, maze.radius) == (13, (36, 184), (31, 20), 400, 8)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = write(tmp_path, ROOM_FILE)
    assert HardMaze(maze=file).geometry.goal == (80, 50)
    write(tmp_path, ROOM_FILE.replace("[80, 50]", "[80, 60]"))
    assert HardMaze(maze=file).geometry.goal == (80, 60)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("goal = [80, 50]", "goal = [80, 50", "my.toml: .*line 7"),
        ("goal =", "gaol =", "my.toml, line 6: unknown key 'gaol', did you mean 'goal'"),
        ("goal = [80, 50]\n", "", "my.toml: 'goal' is missing; a maze needs walls, start, goal"),
        ("[80, 50]", "[80]", r"line 6: goal must be two numbers, \[x, y\], got \[80\]"),
        ("[80, 50]", '["a", 50]', "line 6: goal must be two numbers"),
        ("[80, 50]", "[80, nan]", "line 6: goal must be two numbers"),
        ("[80, 50]", "[80, 2e6]", "line 6: goal must be two numbers"),
        ("[80, 50]", "[80, true]", "line 6: goal must be two numbers"),
        ("[80, 50]", f"[80, {'9' * 400}]", "line 6: goal must be two numbers"),
        ("[80, 50]", f"[80, {'9' * 5000}]", "my.toml: Exceeds the limit"),
        (
            "[80, 50]",
            f"[80, 0x{'f' * 5000}]",
            "line 6: goal must be two numbers.* got a number with thousands of digits",
        ),
        ("[80, 50]", "[" * 5000, "my.toml: maximum recursion depth"),
        ("steps = 20", "steps = 0", "line 2: steps must be an integer from 1 to 100,000, got 0"),
        ("steps = 20", "steps = 2.5", "line 2: steps must be an integer"),
        ("steps = 20", "steps = true", "line 2: steps must be an integer"),
        ("radius = 8", "radius = -8", "line 3: radius must be a number above 0, got -8"),
        ("radius = 8", "radius = inf", "line 3: radius must be a number above 0"),
        ("heading = 0", "heading = 'up'", "line 5: heading must be a number, got 'up'"),
        ('name = "room"', "name = 3", "line 1: name must be a string"),
        ("[100, 100, 0, 100]", "[100, 100, 0]", "line 10: wall 3 must be four numbers"),
        ("[100, 100, 0, 100]", "'wall'", "wall 3 must be four numbers"),
        ("[100, 100, 0, 100]", "[100, 100, 100, 100]", "line 10: wall 3 must be longer than zero"),
        ("start = [20, 50]", "start = [2, 50]", "line 4: the start is 2 from a wall"),
        ("start = [20, 50]", "start = [-200, 50]", "line 4: the start is outside the maze"),
        (
            "    [0, 100, 0, 0],\n",
            "",
            "line 4: the maze is not closed: a robot of radius 8 gets from the start to the outside",
        ),
        ("    [0, 100, 0, 0],\n", "    [0, 100, 0, 0],\n    [50, 0, 50, 100],\n", "line 6: there is no path"),
        ("goal = [80, 50]", "goal = [180, 50]", "line 6: there is no path"),
        ("radius = 8", "radius = 0.01", "line 3: the maze is too large for a robot of radius 0.01"),
    ],
)
def test_each_mistake_is_reported_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ROOM_FILE
    file = write(tmp_path, ROOM_FILE.replace(old, new, 1))
    with pytest.raises(TfsmError, match=message):
        HardMaze(maze=file)


def test_a_maze_without_walls_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "start = [1, 2]\ngoal = [3, 4]\nwalls = []\n")
    with pytest.raises(TfsmError, match="line 3: walls must be a list of 1 to 1,000 walls"):
        HardMaze(maze=file)


@pytest.mark.parametrize("name", ["missing.toml", ".", "zero\0byte", "y" * 300])
def test_an_unreadable_file_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(TfsmError, match="cannot read the maze"):
        read_maze(str(tmp_path / name))


def test_a_missing_home_directory_is_reported() -> None:
    with pytest.raises(TfsmError, match="cannot read the maze '~no-such-user/my"):
        read_maze("~no-such-user/my.toml")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TfsmError, match="not a UTF-8 text file"):
        read_maze(str(tmp_path / "picture.toml"))


def test_lines_are_counted_through_strings_and_comments() -> None:
    text = '# a = [\na = "x = [" # [[\nb = """\n[[\n"""\n\nwalls = [ # [\n  [1], [2],\n\n  [3],\n]\nc = 1\n'
    assert locate_lines(text) == {
        ("a",): 2,
        ("b",): 3,
        ("walls",): 7,
        ("walls", 0): 8,
        ("walls", 1): 8,
        ("walls", 2): 10,
        ("c",): 12,
    }
