from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfsm.errors import TfsmError
from tfsm.rollouts import Memory, spread
from tfsm_domains.ple.domain import NOTHING, Ple, States
from tfsm_domains.ple.games import Play, load_arcade, stage


def states(first: Any, slots: int = 3, scale: float = 1.0) -> States:
    return States("Game", first, slots=slots, scale=scale)


def test_a_state_is_read_in_the_order_of_its_names_whatever_order_they_come_in() -> None:
    observer = states({"b": 2, "a": 1.5, "c": {"y": True, "x": np.float64(4)}}, scale=0.5)
    expected = np.array([0.75, 1.0, 2.0, 0.5], np.float32)
    np.testing.assert_array_equal(observer.row({"b": 2, "a": 1.5, "c": {"y": True, "x": 4}}), expected)
    np.testing.assert_array_equal(observer.row({"c": {"x": 4, "y": 1}, "a": 1.5, "b": 2}), expected)
    assert observer.blank.shape == expected.shape


def test_a_list_that_grows_or_shrinks_keeps_its_place() -> None:
    observer = states({"body": [1.0], "head": 9.0, "pairs": []})
    none = NOTHING
    for state, row in (
        ({"body": [1.0], "head": 9.0, "pairs": [[1, 2]]}, [1, none, none, 9, 1, 2, none]),
        ({"body": [1, 2, 3, 4, 5], "head": 8.0, "pairs": [[1, 2], [3, 4]]}, [1, 2, 3, 8, 1, 2, 3]),
        ({"body": [], "head": 7.0, "pairs": []}, [none, none, none, 7, none, none, none]),
    ):
        np.testing.assert_array_equal(observer.row(state), np.array(row, np.float32))


def test_what_starts_longer_or_has_a_fixed_length_keeps_all_of_it() -> None:
    assert states({"list": [1.0] * 5}).blank.shape == (5,)
    assert states({"array": np.zeros([2, 2]), "tuple": (1, 2)}).blank.shape == (6,)


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (None, None, "has no state"),
        ({"a": "word"}, None, "no number"),
        ({"a": [[1], [2, 3]]}, None, "no number"),
        ({"a": 1}, {"a": 1, "b": 2}, "names change"),
    ],
)
def test_a_state_that_is_no_row_of_numbers_is_refused_with_the_way_out(first: Any, then: Any, why: str) -> None:
    with pytest.raises(TfsmError, match=rf"'Game' .*{why}.*observation=pixels"):
        states(first).row(then)


@pytest.mark.usefixtures("ple")
def test_a_game_without_a_state_can_be_seen_only() -> None:
    with pytest.raises(TfsmError, match=r"'RaycastMaze' has no state.*observation=pixels"):
        Ple(game="RaycastMaze").network()
    assert Ple(game="RaycastMaze", observation="pixels").network().input_shape == (None, 64, 64, 1)


@pytest.mark.usefixtures("ple")
def test_a_snake_that_grows_has_a_state_of_fixed_length() -> None:
    few, many = (Ple(game="Snake", slots=slots).network().input_shape[-1] for slots in (8, 12))
    assert many - few == 2 * 4, "two lists, each with four numbers more"


@pytest.mark.usefixtures("double")
def test_the_screen_is_seen_upright_and_in_grey() -> None:
    arcade = load_arcade("Catcher")
    with stage(arcade):
        play = Play(arcade)
        play.start([5])
        play.act(None, 10)
        state, picture, grey = play.state(), play.picture(), play.grey(24)
    assert picture[state["fruit_y"], state["fruit_x"]].tolist() == [255, 120, 120]
    assert grey[state["fruit_y"], state["fruit_x"]] == round(0.21 * 255 + 0.72 * 120 + 0.07 * 120)
    assert grey[22, state["player_x"]] == 255
    assert grey.dtype == np.uint8
    assert (grey > 0).sum() == 2 * 7 + 1, "a paddle and a fruit"


@pytest.mark.parametrize("count", [1, 4, 7])
@pytest.mark.parametrize("seen", [1, 3, 4, 8, 100, 1000])
def test_what_is_remembered_is_spread_over_all_that_was_seen(count: int, seen: int) -> None:
    memory: Memory[int] = Memory(count)
    for i in range(seen):
        if memory.passes():
            memory.keep(i)
    assert len(memory.kept) < 2 * count
    kept = np.array(spread(memory.kept, count))
    assert kept.shape == (count,)
    assert (np.diff(kept) >= 0).all()
    assert kept[0] == 0
    if seen <= count:
        assert set(kept) == set(range(seen))
    elif count > 1:
        assert len(set(kept)) == count
        gaps = np.diff([*kept, seen])
        assert gaps.max() <= 4 * seen / count
