"""Views from above, and a proof that views alone do not solve the maze."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tfsm_domains.pixel_maze.layout import Square, read_layout
from tfsm_domains.pixel_maze.topdown import BLOCK, MOVES, Grid, build_grid

LAYOUT = read_layout("stairs")
GROUND = build_grid(LAYOUT)
STEPS = 40


@pytest.mark.parametrize(("maze", "squares", "goals"), [("stairs", 176, 27), ("short", 65, 19), ("long", 65, 33)])
def test_there_are_fifteen_views(maze: str, squares: int, goals: int) -> None:
    layout = read_layout(maze)
    grid = build_grid(layout)
    assert len(grid.squares) == squares
    assert grid.views.shape == (15, 64, 64)
    assert grid.goals == goals
    assert grid.squares[grid.start] == layout.start


@pytest.mark.parametrize("square", [Square(1, 1), Square(5, 3), Square(2, 7), Square(3, 3)])
def test_a_view_shows_the_nine_squares_around(square: Square) -> None:
    picture = GROUND.views[GROUND.view[GROUND.squares.index(square)]]
    for down in range(-1, 2):
        for right in range(-1, 2):
            block = picture[(down + 1) * BLOCK : (down + 2) * BLOCK, (right + 1) * BLOCK : (right + 2) * BLOCK]
            assert block.shape == (21, 21)
            assert (block == LAYOUT.free(Square(square.row + down, square.column + right))).all()
    assert not picture[63].any()
    assert not picture[:, 63].any()


def test_moves_only_lead_to_free_squares() -> None:
    for i, square in enumerate(GROUND.squares):
        for action, (down, right) in enumerate(MOVES):
            target = Square(square.row + down, square.column + right)
            assert GROUND.squares[GROUND.after[i, action]] == (target if LAYOUT.free(target) else square)


def find_most_touched(grid: Grid, *, with_last_action: bool, least: int = 0) -> int:
    """Return the most path squares that any policy touches which knows only the view, and perhaps its last action.

    Every policy is tried: policies are built lazily, with all actions at each view that is met for the first time.
    Those that cannot touch more than `least` are not followed to the end.
    """
    best = least

    def walk(position: int, last: int, steps: int, touched: frozenset[int], policy: dict[tuple[int, int], int]) -> None:
        nonlocal best
        met = {(position, last)}
        while steps < STEPS:
            key = (int(grid.view[position]), last if with_last_action else -1)
            if key not in policy:
                # Prune policies that cannot touch more squares than the best.
                if min(STEPS - steps + len(touched), grid.goals) > best:
                    for action in range(4):  # a policy that does nothing stays there forever
                        walk(position, last, steps, touched, {**policy, key: action})
                return
            last = policy[key]
            position, steps = int(grid.after[position, last]), steps + 1
            if grid.on_path[position]:
                touched = touched | {position}
            best = max(best, len(touched))
            if (position, last) in met:
                return  # a cycle
            met.add((position, last))

    walk(grid.start, 4, 0, frozenset({grid.start}), {})
    return best


@pytest.mark.parametrize(("maze", "most"), [("stairs", 19), ("short", 12), ("long", 18)])
def test_no_policy_without_memory_solves_a_maze(maze: str, most: int) -> None:
    grid = build_grid(read_layout(maze, STEPS))
    assert find_most_touched(grid, with_last_action=False) == most < grid.goals


@pytest.mark.slow
def test_memory_of_the_last_action_is_not_enough_in_the_long_maze() -> None:
    grid = build_grid(read_layout("long", STEPS))
    all_but_one = grid.goals - 1
    assert find_most_touched(grid, with_last_action=True, least=all_but_one) == all_but_one


def test_an_agent_that_knows_the_path_walks_it_in_time() -> None:
    walk = LAYOUT.route()
    position, touched = GROUND.start, {GROUND.start}
    for a, b in itertools.pairwise(walk):
        position = int(GROUND.after[position, MOVES.index((b.row - a.row, b.column - a.column))])
        touched.add(position)
    assert len(walk) - 1 <= STEPS
    assert sum(GROUND.on_path[list(touched)]) == GROUND.goals
    assert np.all(GROUND.on_path[list(touched)])
