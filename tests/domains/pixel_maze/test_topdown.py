"""Views from above, and a proof that views alone do not solve the maze."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tfsm_domains.pixel_maze.layout import Square, read_layout
from tfsm_domains.pixel_maze.topdown import BLOCK, MOVES, Grid, build_grid

LAYOUT = read_layout(None)
GROUND = build_grid(LAYOUT)
STEPS = 40


def test_there_are_fifteen_views() -> None:
    assert len(GROUND.squares) == 65
    assert GROUND.views.shape == (15, 64, 64)
    assert GROUND.goals == 33
    assert GROUND.squares[GROUND.start] == LAYOUT.start


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


def test_no_policy_without_memory_solves_the_maze() -> None:
    assert find_most_touched(GROUND, with_last_action=False) == 18


def test_no_policy_without_memory_solves_the_short_maze() -> None:
    short = build_grid(read_layout("short", STEPS))
    assert short.goals == 19
    assert find_most_touched(short, with_last_action=False) == 12


@pytest.mark.slow
def test_memory_of_the_last_action_is_not_enough() -> None:
    all_but_one = GROUND.goals - 1
    assert find_most_touched(GROUND, with_last_action=True, least=all_but_one) == all_but_one


def test_an_agent_that_knows_the_path_walks_it_in_time() -> None:
    walk = LAYOUT.route()
    position, touched = GROUND.start, {GROUND.start}
    for a, b in itertools.pairwise(walk):
        position = int(GROUND.after[position, MOVES.index((b.row - a.row, b.column - a.column))])
        touched.add(position)
    assert len(walk) - 1 <= STEPS
    assert sum(GROUND.on_path[list(touched)]) == GROUND.goals
    assert np.all(GROUND.on_path[list(touched)])
