"""Whatever a maze file says: a maze that can be walked, or a message that names the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domains.hard_maze.mazes import ROOM_FILE
from tests.fuzz.damage import VALUES, changed, damaged
from tests.fuzz.limits import within
from tests.fuzz.profile import fuzzed
from tests.fuzz.running import SECONDS, command, empty_folder, refusal
from tests.fuzz.toml import ENDLESS, to_toml
from tfsm_domains.hard_maze.domain import HardMaze
from tfsm_domains.hard_maze.maze import PAPER
from tfsm_domains.pixel_maze.layout import SHIPPED, read_layout

NUMBERS: Final = st.sampled_from([0, 1, -1, 8, 50, 100, 1e-3, 1e-300, 999_999, 1e6, 1e300, float("nan")]) | st.floats()
WALL: Final = st.lists(NUMBERS, min_size=4, max_size=4)
POINT: Final = st.lists(NUMBERS, min_size=2, max_size=2)
OTHERS: Final = st.one_of(VALUES, NUMBERS, ENDLESS, POINT, WALL, st.lists(WALL, max_size=4))
MAZES: Final = st.one_of(
    damaged(ROOM_FILE.encode()),
    damaged(PAPER.read_bytes()),
    changed(tomllib.loads(ROOM_FILE), OTHERS).map(lambda table: to_toml(_table(table)).encode()),
)
DRAWING: Final = SHIPPED["short"].read_text()
LAYOUTS: Final = st.one_of(
    damaged(DRAWING.encode()),
    st.lists(st.sampled_from([*DRAWING.splitlines(), "#" * 11, "#.........#", "#+SE+++++.#"]), max_size=12).map(
        lambda rows: "\n".join(rows).encode()
    ),
    st.text(st.sampled_from("#.+SE\n \r\x0b\u2028"), max_size=60).map(str.encode),
)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"walls": value}


@fuzzed(40)
@given(content=MAZES)
def test_mazes_for_robots(content: bytes) -> None:
    with empty_folder(), within(SECONDS):
        Path("my.toml").write_bytes(content)
        assert "my.toml" in refusal(lambda: HardMaze(maze="my.toml"), default="my.toml")


@fuzzed(60)
@given(content=LAYOUTS)
def test_mazes_of_squares(content: bytes) -> None:
    with empty_folder(), within(SECONDS):
        Path("my.txt").write_bytes(content)
        assert "my.txt" in refusal(lambda: read_layout("my.txt", 40), default="my.txt")


@pytest.mark.parametrize(
    ("domain", "mazes"), [("hard-maze", MAZES), ("topdown-maze", LAYOUTS)], ids=["hard", "topdown"]
)
@fuzzed(3, share=0.1)
@given(data=st.data())
def test_a_run_looks_at_its_maze_first(domain: str, mazes: st.SearchStrategy[bytes], data: st.DataObject) -> None:
    with empty_folder():
        Path("maze").write_bytes(data.draw(mazes))
        done = command("doctor", domain, "--mutation", "control", "--set", "maze=maze")
        assert done.code == 0 or done.stderr.startswith("error: "), done.stderr
