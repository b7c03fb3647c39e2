"""Episodes: how they aggregate, which seeds they have, how they end, and what is solved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import Made, luck, made, total
from tests.domains.gym.playing import always, drawn, fitness, gym, seeds
from tfsm.interfaces import Evaluation
from tfsm.models.network import Network


def returns(count: int, number: int = 1) -> np.ndarray:
    """Return the returns of an evaluation's first episodes: the n-th is what it adds to the sum of n."""
    sums = [n * fitness(gym(episodes=n), number) for n in range(1, count + 1)]
    return np.diff(sums, prepend=0.0)


def idle(domain: Any, *numbers: int) -> Evaluation:
    network = Network(domain.network())
    return domain.evaluate(network, np.zeros([len(numbers), network.size], np.float32), seeds(*numbers))


def test_fitness_is_the_mean_the_median_or_the_least_of_the_returns() -> None:
    with made(pays=luck):
        alone = returns(4)
        assert len(np.unique(alone.round(4))) == 4
        for name, of in (("mean", np.mean), ("median", np.median), ("min", np.min)):
            assert fitness(gym(episodes=4, aggregate=name)) == pytest.approx(of(alone), rel=1e-5)


def test_every_evaluation_has_episodes_of_its_own_unless_all_have_the_same() -> None:
    with made(pays=luck):
        fresh, same = gym(episodes=2), gym(episodes=2, seeds="same")
        found = idle(fresh, 1, 2, 3).fitness
        assert len(np.unique(found)) == 3
        np.testing.assert_array_equal(idle(fresh, 1, 2, 3).fitness, found)
        np.testing.assert_array_equal(idle(fresh, 3, 1).fitness, found[[2, 0]])
        assert len(np.unique(idle(same, 1, 2, 3).fitness)) == 1
        assert fitness(gym(seeds="same")) != fitness(same)  # of one evaluation they are not all one


@pytest.mark.parametrize(
    ("ends", "limit", "options", "length", "terminated"),
    [
        (5, None, {}, 5, 1.0),
        (5, 3, {}, 3, 0.0),
        (5, 9, {}, 5, 1.0),
        (3, 3, {}, 3, 1.0),
        (5, None, {"steps": 4}, 4, 0.0),
        (5, 2, {"steps": 4}, 4, 0.0),
        (5, None, {"hold": 2}, 5, 1.0),
        (5, None, {"hold": 2, "steps": 3}, 3, 0.0),
        (None, 4, {"hold": 9}, 4, 0.0),
    ],
)
def test_an_episode_ends_by_itself_or_by_the_clock(
    ends: int | None, limit: int | None, options: dict[str, int], length: int, terminated: float
) -> None:
    with made(ends=ends, limit=limit):
        found = idle(gym(**options), 1)
    assert found.fitness[0] == length  # a reward of one for each step, held or not
    np.testing.assert_array_equal(found.behavior, [[length, length, terminated]])


def test_the_share_that_terminated_is_of_all_episodes() -> None:
    with made(ends=None, limit=6, pays=ends_by_luck):
        found = idle(gym(episodes=12), 1)
    mean, length, terminated = found.behavior[0]
    assert 0 < terminated < 1
    assert (length, mean) == pytest.approx((6 - 4 * terminated, 6 - 4 * terminated))


def ends_by_luck(env: Made, action: Any) -> float:
    env.ends = 2 if env.luck < 0.5 else None
    return 1.0


def test_an_environment_without_a_limit_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfsm_domains.gym.env_pool.LIMIT", 11)
    with made(ends=None):
        assert fitness(gym()) == 11


def test_an_action_is_held() -> None:
    asked: spaces.Space[Any] = spaces.Box(0.0, 5.0, (1,))
    with made(seen=asked, shows=lambda env: np.float32([env.time]), ends=6):
        domain = gym(hold=4, remembered=2)
        np.testing.assert_array_equal(idle(domain, 1).experience[0, :, 0], [0.0, 4.0])


def test_the_threshold_is_the_environments_or_ones_own() -> None:
    with made(threshold=5.0):
        assert idle(gym(), 1).solved[0]
        assert not idle(gym(threshold=5.5), 1).solved[0]
        assert not idle(gym(steps=4), 1).solved[0]
    with made():
        assert not idle(gym(), 1).solved[0]
        assert idle(gym(threshold=5.0), 1).solved[0]


@pytest.mark.parametrize(("confirm", "looks"), [(3, [4]), (45, [21, 41, 46])])
def test_a_solution_is_confirmed_by_more_episodes_twenty_at_a_time(confirm: int, looks: list[int]) -> None:
    with made(pays=luck, ends=1):
        many = range(1, 30)
        once = idle(gym(), *many).fitness
        means = [idle(gym(episodes=count), *many).fitness for count in looks]
        threshold = 0.5
        expected = np.logical_and.reduce([mean >= threshold for mean in (once, *means)])
        assert 0 < expected.sum() < (once >= threshold).sum()
        found = idle(gym(threshold=threshold, confirm=confirm), *many)
        np.testing.assert_array_equal(found.solved, expected)
        np.testing.assert_array_equal(found.fitness, once)  # it is not changed by them


def test_the_action_decides() -> None:
    with made(pays=total, acts=spaces.Discrete(3)):
        domain = gym()
        network = Network(domain.network())
        genomes = np.concatenate([always(network, *row) for row in np.eye(3)])
        np.testing.assert_array_equal(domain.evaluate(network, genomes, seeds(1, 1, 1)).fitness, [0.0, 5.0, 10.0])


def test_a_genome_without_sound_answers_is_broken_and_the_others_are_not() -> None:
    with made():
        domain = gym(episodes=2)
        network = Network(domain.network())
        genomes = drawn(network, 3)
        genomes[1] = np.nan
        found = domain.evaluate(network, genomes, seeds(1, 2, 3))
    np.testing.assert_array_equal(found.fitness, [5.0, np.nan, 5.0])
    assert np.isfinite(found.behavior).all()
    assert not found.solved.any()


def test_a_reward_that_is_no_number_breaks_too() -> None:
    with made(pays=lambda env, action: np.inf):
        assert np.isnan(fitness(gym(threshold=1.0)))


@pytest.mark.parametrize("options", [{}, {"recurrent": "gru"}], ids=["no memory", "memory"])
def test_nobody_fares_otherwise_alone_than_among_others(options: dict[str, Any]) -> None:
    with made(acts=spaces.Box(-1.0, 1.0, (2,)), pays=total, ends=7):
        domain = gym(episodes=3, remembered=4, **options)
        network = Network(domain.network())
        genomes, numbers = drawn(network, 5), seeds(*range(5))
        together = domain.evaluate(network, genomes, numbers)
        for b in (0, 3):
            alone = domain.evaluate(network, genomes[b : b + 1], numbers[b : b + 1])
            for mine, theirs in zip(alone[:4], together[:4], strict=True):
                np.testing.assert_array_equal(mine[0], theirs[b])
