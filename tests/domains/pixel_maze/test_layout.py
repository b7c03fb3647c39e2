"""Maze files: valid ones, and the messages for invalid ones."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tfsm.errors import TfsmError
from tfsm_domains.pixel_maze.layout import Square, read_layout

SMALL = """
#####
#S++#
#.#+#
#E++#
#####
"""


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "maze.txt"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("name", "side", "path", "turns"), [("stairs", 17, 27, 3), ("short", 11, 19, 4), ("long", 11, 33, 9)]
)
def test_the_built_in_mazes(name: str, side: int, path: int, turns: int) -> None:
    layout = read_layout(name, 40)
    walk = layout.route()
    assert (layout.height, layout.width) == (side, side)
    assert len(layout.path) == path
    assert (walk[0], walk[-1], len(walk)) == (layout.start, layout.end, path)
    moves = [(b.row - a.row, b.column - a.column) for a, b in itertools.pairwise(walk)]
    assert all(abs(down) + abs(right) == 1 for down, right in moves)
    assert sum(a != b for a, b in itertools.pairwise(moves)) == turns


def test_the_path_of_the_stairs_has_no_shortcuts() -> None:
    layout = read_layout("stairs")
    place = {square: number for number, square in enumerate(layout.route())}
    for square, number in place.items():
        for neighbour in layout.neighbours(square):
            assert neighbour not in place or abs(place[neighbour] - number) == 1


def test_a_record_from_before_mazes_had_names_means_the_long_maze() -> None:
    assert read_layout(None).rows == read_layout("long").rows


def test_a_custom_file_is_read(tmp_path: Path) -> None:
    layout = read_layout(write(tmp_path, SMALL))
    assert layout.start == Square(1, 1)
    assert layout.end == Square(3, 1)
    assert len(layout.path) == 7
    assert len(layout.route()) == 7
    assert layout.neighbours(Square(1, 1)) == [Square(1, 2), Square(2, 1)]


def test_a_path_with_a_branch_is_walked_to_all_its_ends(tmp_path: Path) -> None:
    layout = read_layout(write(tmp_path, "#####\n#S+E#\n##+##\n##+##\n#####\n"))
    walk = layout.route()
    assert set(walk) == layout.path
    assert len(walk) - 1 == 5  # to the end, back to the branch and down


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "3 to 101 rows"),
        ("###\n#S#\n", "3 to 101 rows and columns; this one has 2 rows"),
        ("#####\n#S+E#\n####\n", "line 3: a maze must be rectangular: the first line has 5 columns, this one has 4"),
        ("#####\n#S?E#\n#####\n", "line 2, column 3: unknown character '?'; '#' is a wall"),
        ("#####\n#.+E#\n#####\n", "one start, 'S'; this one has 0"),
        ("#####\n#S+S#\n#####\n", "one start, 'S'; this one has 2"),
        ("#####\n#S++#\n#####\n", "one end, 'E'; this one has 0"),
        ("#####\n#S+E.\n#####\n", "line 2, column 5: a maze must be closed"),
        ("##.##\n#S+E#\n#####\n", "line 1, column 3: a maze must be closed"),
        ("######\n#S.+E#\n######\n", "line 2, column 4: the path must be connected"),
        ("#" * 102 + "\n" + "#S+E" + "#" * 98 + "\n" + "#" * 102, "3 to 101 rows and columns"),
    ],
)
def test_an_invalid_maze_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(TfsmError) as caught:
        read_layout(file)
    assert message in str(caught.value)
    assert file in str(caught.value)


def test_a_maze_too_long_for_an_episode_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, SMALL)
    assert read_layout(file, 6).path
    with pytest.raises(TfsmError, match="walking the whole path takes 6 moves, but an episode has 5"):
        read_layout(file, 5)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TfsmError, match=r"cannot read the maze '.*nowhere': No such file"):
        read_layout(str(tmp_path / "nowhere"))
    for name in ("zero\0byte", "~no-such-user", "y" * 300):
        with pytest.raises(TfsmError, match="cannot read the maze"):
            read_layout(name)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TfsmError, match="not a UTF-8 text file"):
        read_layout(str(tmp_path / "bytes"))
