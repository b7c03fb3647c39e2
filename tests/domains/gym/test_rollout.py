"""Episodes: aggregation, seeds, termination, confirmation and recorded experience."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import Made, diary, luck, made, total
from tests.domains.gym.playing import always, answers, drawn, fitness, gym, seeds
from tfsm.errors import TfsmError
from tfsm.interfaces import Evaluation, Film, SupportsFilm
from tfsm.models.network import Network
from tfsm_domains.gym.rollout import SequenceRecorder, SpreadRecorder


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
def test_results_do_not_depend_on_the_batch(options: dict[str, Any]) -> None:
    with made(acts=spaces.Box(-1.0, 1.0, (2,)), pays=total, ends=7):
        domain = gym(episodes=3, remembered=4, **options)
        network = Network(domain.network())
        genomes, numbers = drawn(network, 5), seeds(*range(5))
        together = domain.evaluate(network, genomes, numbers)
        for b in (0, 3):
            alone = domain.evaluate(network, genomes[b : b + 1], numbers[b : b + 1])
            for mine, theirs in zip(alone[:4], together[:4], strict=True):
                np.testing.assert_array_equal(mine[0], theirs[b])


PAIR = spaces.Box(-np.inf, np.inf, (2,))


def watched(lengths: list[int], count: int) -> list[int]:
    """Return what is kept of one genome's episodes; episode e shows 100 e + t at time t."""
    moments = SpreadRecorder(1, count)
    for t in range(max(lengths)):
        shown = np.array([[100 * e + t for e in range(len(lengths))]])
        moments.record([shown], np.array([[t < length for length in lengths]]))
    return moments.experience()[0][0].tolist()


def test_everything_is_kept_where_there_is_room_one_episode_after_the_other() -> None:
    assert watched([2, 3], 5) == [0, 1, 100, 101, 102]
    assert watched([1], 3) == [0, 0, 0]


@pytest.mark.parametrize("lengths", [[50], [7, 60], [64, 64, 1]])
def test_else_it_is_evenly_spread_over_all_steps_that_were_on(lengths: list[int]) -> None:
    kept = watched(lengths, 8)
    assert len(kept) == 8
    assert kept == sorted(kept)
    assert kept[0] == 0
    assert all(one % 100 < lengths[one // 100] for one in kept)
    longest = int(np.argmax(lengths))
    times = [one % 100 for one in kept if one // 100 == longest]
    assert np.diff(times).max() <= 4 * max(1, np.diff(times).min())


def test_what_is_kept_of_one_does_not_depend_on_how_long_others_go_on() -> None:
    moments = SpreadRecorder(2, 4)
    for t in range(40):
        moments.record([np.full((2, 1), t)], np.array([[t < 9], [True]]))
    assert moments.experience()[0][0].tolist() == watched([9], 4)


def test_a_sequence_is_the_beginning_of_the_first_episode_and_its_last_step_over_and_over() -> None:
    beginning = SequenceRecorder(4)
    for t in range(6):
        beginning.record(
            [np.array([[t, 50], [t, 50], [t, 50]])], np.array([[t < 2, True], [t < 3, True], [True, False]])
        )
    assert beginning.experience()[0].tolist() == [[[0, 1, 1, 1]], [[0, 1, 2, 2]], [[0, 1, 2, 3]]]


@pytest.mark.parametrize("memory", ["simple-rnn", "gru", "lstm"])
def test_step_by_step_a_network_with_memory_does_what_it_says_of_the_whole_sequence(memory: str) -> None:
    with made(seen=PAIR, shows=diary, acts=spaces.Discrete(3), ends=12):
        domain = gym(recurrent=memory, remembered=8, layers=2, episodes=2)
        network = Network(domain.network())
        genomes = drawn(network, 3)
        seen = domain.observe(domain.evaluate(network, genomes, seeds(1, 2, 3)).experience)
    assert seen.shape == (3, 1, 8, 2)
    said = answers(network, genomes, seen).reshape(3, 8, 3)
    done = np.asarray(seen)[:, 0, 1:, 1]  # each observation has what was done before it
    np.testing.assert_array_equal(said[:, :-1].argmax(axis=-1), done)
    assert len(np.unique(done)) > 1


def test_a_network_with_memory_can_see_pictures() -> None:
    with made(seen=spaces.Box(0, 255, (5, 6, 3), np.uint8), ends=3):
        domain = gym(recurrent="gru", remembered=4, layers=1)
        network = Network(domain.network())
        found = domain.evaluate(network, drawn(network, 2), seeds(1, 2))
        assert found.experience.shape == (2, 1, 4, 5, 6, 3)
        assert answers(network, drawn(network, 2), domain.observe(found.experience)).shape[-1] == 2


def test_a_network_of_ones_own_may_take_sequences_of_any_length() -> None:
    own = keras.Sequential([keras.Input((None, 2)), keras.layers.GRU(3, return_sequences=True), keras.layers.Dense(2)])
    with made(seen=PAIR, shows=diary):
        domain = gym(recurrent="gru", remembered=4)
        network = Network(own)
        assert domain.evaluate(network, drawn(network, 2), seeds(1, 2)).experience.shape == (2, 1, 4, 2)


def test_memory_of_several_inputs_is_refused() -> None:
    both = spaces.Dict({"eye": spaces.Box(0, 255, (5, 5, 1), np.uint8), "speed": PAIR})
    with made(seen=both), pytest.raises(TfsmError, match=r"^recurrent=gru: .* takes one input, .* has 2: eye, vector$"):
        gym(recurrent="gru").network()


def filmed(domain: Any) -> Film:
    network = Network(domain.network())
    return domain.film(network, drawn(network, 2), seeds(1, 2))


@pytest.mark.parametrize("hold", [1, 3])
def test_there_is_a_picture_of_the_beginning_and_of_every_step(hold: int) -> None:
    with made():
        domain = gym(hold=hold, vector="async")
        film = filmed(domain)
    assert isinstance(domain, SupportsFilm)
    assert film.rate == 7
    assert [int(film.frame(i).max()) for i in range(len(film))] == [0, 1, 2, 3, 4, 5]
    assert film.frame(0).shape[0] % 2 == film.frame(0).shape[1] % 2 == 0


def test_it_is_the_first_episode_of_the_first_genomes_evaluation() -> None:
    def draws(env: Made) -> np.ndarray:
        return np.full((4, 4, 3), int(250 * env.luck), np.uint8)

    with made(draws=draws, pays=lambda env, action: env.luck, ends=1):
        domain = gym()
        network = Network(domain.network())
        film = domain.film(network, drawn(network, 2), seeds(5, 6))
        expected = int(250 * domain.evaluate(network, drawn(network, 1), seeds(5)).fitness[0])
    assert abs(int(film.frame(0).max()) - expected) <= 1


def broken(env: Made) -> Any:
    raise RuntimeError("pygame is not installed")


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (lambda env: np.zeros((4, 4)), r"it renders arrays of shape \(4, 4\), expected \[height, width, 3\]$"),
        (lambda env: None, r"it renders arrays of shape \(\), expected"),
        (broken, r"RuntimeError: pygame is not installed: pip install 'tfsm\[replay\]'$"),
    ],
)
def test_what_cannot_be_filmed(draws: Any, message: str) -> None:
    with (
        made(draws=draws),
        pytest.raises(TfsmError, match=f"^the environment 'tests/Made-v0' cannot be filmed: {message}"),
    ):
        filmed(gym())


def test_an_environment_without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Made, "metadata", {"render_modes": ["ansi"]})
    with made(), pytest.raises(TfsmError, match=r"cannot be filmed: it has no render mode"):
        filmed(gym())


def test_a_real_one() -> None:
    pytest.importorskip("pygame")
    film = filmed(gym(env="CartPole-v1", steps=5))
    assert 2 <= len(film) <= 6
    picture = film.frame(0)
    assert (picture == 0).all(axis=-1).sum() > 500  # the cart is black
    assert (picture == 255).all(axis=-1).mean() > 0.8  # before a white background
    assert film.still().shape[0] > 4 * 400
