"""Actions are what the closed form of each space says, and always in the space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import made, total
from tests.domains.gym.playing import drawn, gym, seeds
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.gym.spaces import actor_for

FLOATS = spaces.Box(np.float32([-2.0, 0.0, -np.inf, 1.0]), np.float32([6.0, 1.0, np.inf, np.inf]))
CASES: dict[str, tuple[Any, list[float], Any]] = {
    "a choice": (spaces.Discrete(3), [0.1, 0.5, -9.0], 1),
    "a choice that is not counted from zero": (spaces.Discrete(3, start=-1), [0.1, 0.5, 0.9], 1),
    "several choices": (spaces.MultiDiscrete([2, 3]), [0.0, 1.0, 5.0, 4.0, 3.0], [1, 0]),
    "several from elsewhere": (spaces.MultiDiscrete([2, 2], start=[3, -5]), [0.0, 1.0, 2.0, 1.0], [4, -5]),
    "a table of choices": (spaces.MultiDiscrete([[2, 2], [2, 2]]), [0, 1, 1, 0, 0, 1, 1, 0], [[1, 0], [1, 0]]),
    "switches": (spaces.MultiBinary(3), [0.1, 0.0, -3.0], [1, 0, 0]),
    "a table of switches": (spaces.MultiBinary([2, 2]), [1, -1, -1, 1], [[1, 0], [0, 1]]),
    "numbers with two bounds, one or none": (FLOATS, [0.5, -3.0, 70.0, -8.0], [4.0, 0.0, 70.0, 1.0]),
    "a table of numbers": (spaces.Box(-2.0, 2.0, (2, 2)), [-1.0, 0.0, 0.5, 1.0], [[-2.0, 0.0], [1.0, 2.0]]),
    "whole numbers": (spaces.Box(0, 10, (3,), np.int64), [-1.0, 0.1, 0.95], [0, 6, 10]),
    "bytes": (spaces.Box(0, 255, (2,), np.uint8), [-5.0, 1.0], [0, 255]),
    "bounds that are one number": (spaces.Box(np.float32([3.0]), np.float32([3.0])), [0.2], [3.0]),
}


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_read_as_actions(case: str) -> None:
    space, outputs, expected = CASES[case]
    actor = actor_for("an environment", space)
    assert actor.outputs == len(outputs)
    (action,) = actor.act(np.array([outputs], np.float32))
    np.testing.assert_allclose(action, expected)
    assert space.contains(action)


@pytest.mark.parametrize("case", CASES)
def test_any_outputs_are_some_action_of_the_space(case: str) -> None:
    space = CASES[case][0]
    actor = actor_for("an environment", space)
    outputs = 100.0 * np.random.default_rng(1).normal(size=(50, actor.outputs))
    assert all(space.contains(action) for action in actor.act(outputs.astype(np.float32)))


def test_the_default_network_stays_within_bounds_where_there_are_two() -> None:
    assert actor_for("an environment", spaces.Box(-2.0, 2.0, (2,))).activation == "tanh"
    assert actor_for("an environment", FLOATS).activation is None
    assert actor_for("an environment", spaces.Discrete(2)).activation is None


@pytest.mark.parametrize("case", ["a choice that is not counted from zero", "a table of choices", "whole numbers"])
def test_an_environment_takes_them(case: str) -> None:
    with made(acts=CASES[case][0], pays=total):  # which refuses what is not in the space
        domain = gym()
        network = Network(domain.network())
        found = domain.evaluate(network, drawn(network, 2), seeds(1, 2)).fitness
    assert np.isfinite(found).all()


@pytest.mark.parametrize("space", [spaces.Tuple([spaces.Discrete(2)]), spaces.Text(3)], ids=["Tuple", "Text"])
def test_other_actions_are_refused_by_name(space: spaces.Space[Any]) -> None:
    with (
        made(acts=space),
        pytest.raises(
            TfsmError, match=rf"^the environment 'tests/Made-v0' has actions of the space {type(space).__name__};"
        ),
    ):
        gym().network()
