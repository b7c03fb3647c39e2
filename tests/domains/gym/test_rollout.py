"""Episodes: aggregation, seeds, termination, confirmation and recorded experience."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import ConfigurableEnv, observe_last_action, registered_env, reward_luck, reward_sum
from tests.domains.gym.playing import (
    compute_fitness,
    compute_rows,
    draw_genomes,
    make_constant_genome,
    make_domain,
    seeds,
)
from tfsm.abilities import Film, SupportsFilm
from tfsm.errors import TfsmError
from tfsm.interfaces import Evaluation
from tfsm.models.network import Network
from tfsm.rollouts import ExperienceReservoir, pick_evenly
from tfsm_domains.gym.rollout import SequenceRecorder, SpreadRecorder


def compute_returns(count: int, number: int = 1) -> np.ndarray:
    """Return the returns of the first episodes of an evaluation, as differences of sums."""
    sums = [n * compute_fitness(make_domain(episodes=n), number) for n in range(1, count + 1)]
    return np.diff(sums, prepend=0.0)


def evaluate_zeros(domain: Any, *numbers: int) -> Evaluation:
    network = Network(domain.network())
    return domain.evaluate(network, np.zeros([len(numbers), network.size], np.float32), seeds(*numbers))


def test_fitness_is_the_mean_median_or_minimum_of_the_returns() -> None:
    with registered_env(pays=reward_luck):
        alone = compute_returns(4)
        assert len(np.unique(alone.round(4))) == 4
        for name, of in (("mean", np.mean), ("median", np.median), ("min", np.min)):
            assert compute_fitness(make_domain(episodes=4, aggregate=name)) == pytest.approx(of(alone), rel=1e-5)


def test_evaluations_have_different_episodes_unless_seeds_are_the_same() -> None:
    with registered_env(pays=reward_luck):
        fresh, same = make_domain(episodes=2), make_domain(episodes=2, seeds="same")
        found = evaluate_zeros(fresh, 1, 2, 3).fitness
        assert len(np.unique(found)) == 3
        np.testing.assert_array_equal(evaluate_zeros(fresh, 1, 2, 3).fitness, found)
        np.testing.assert_array_equal(evaluate_zeros(fresh, 3, 1).fitness, found[[2, 0]])
        assert len(np.unique(evaluate_zeros(same, 1, 2, 3).fitness)) == 1
        # The episodes of one evaluation differ.
        assert compute_fitness(make_domain(seeds="same")) != compute_fitness(same)


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
def test_an_episode_terminates_or_is_truncated(
    ends: int | None, limit: int | None, options: dict[str, int], length: int, terminated: float
) -> None:
    with registered_env(ends=ends, limit=limit):
        found = evaluate_zeros(make_domain(**options), 1)
    assert found.fitness[0] == length  # a reward of one for each step, held or not
    np.testing.assert_array_equal(found.behavior, [[length, length, terminated]])


def test_the_terminated_share_is_over_all_episodes() -> None:
    with registered_env(ends=None, limit=6, pays=end_by_luck):
        found = evaluate_zeros(make_domain(episodes=12), 1)
    mean, length, terminated = found.behavior[0]
    assert 0 < terminated < 1
    assert (length, mean) == pytest.approx((6 - 4 * terminated, 6 - 4 * terminated))


def end_by_luck(env: ConfigurableEnv, action: Any) -> float:
    env.ends = 2 if env.luck < 0.5 else None
    return 1.0


def test_an_environment_without_a_step_limit_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfsm_domains.gym.environment.LIMIT", 11)
    with registered_env(ends=None):
        assert compute_fitness(make_domain()) == 11


def test_an_action_is_held() -> None:
    space: spaces.Space[Any] = spaces.Box(0.0, 5.0, (1,))
    with registered_env(seen=space, shows=lambda env: np.float32([env.time]), ends=6):
        domain = make_domain(hold=4, remembered=2)
        np.testing.assert_array_equal(evaluate_zeros(domain, 1).experience[0, :, 0], [0.0, 4.0])


def test_the_threshold_can_be_overridden() -> None:
    with registered_env(threshold=5.0):
        assert evaluate_zeros(make_domain(), 1).solved[0]
        assert not evaluate_zeros(make_domain(threshold=5.5), 1).solved[0]
        assert not evaluate_zeros(make_domain(steps=4), 1).solved[0]
    with registered_env():
        assert not evaluate_zeros(make_domain(), 1).solved[0]
        assert evaluate_zeros(make_domain(threshold=5.0), 1).solved[0]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("confirm", "looks"), [(3, [4]), (45, [21, 41, 46])])
def test_a_solution_is_confirmed_by_more_episodes_twenty_at_a_time(confirm: int, looks: list[int]) -> None:
    with registered_env(pays=reward_luck, ends=1):
        many = range(1, 30)
        once = evaluate_zeros(make_domain(), *many).fitness
        means = [evaluate_zeros(make_domain(episodes=count), *many).fitness for count in looks]
        threshold = 0.5
        expected = np.logical_and.reduce([mean >= threshold for mean in (once, *means)])
        assert 0 < expected.sum() < (once >= threshold).sum()
        found = evaluate_zeros(make_domain(threshold=threshold, confirm=confirm), *many)
        np.testing.assert_array_equal(found.solved, expected)
        np.testing.assert_array_equal(found.fitness, once)  # confirmation does not change it


def test_actions_follow_the_highest_output() -> None:
    with registered_env(pays=reward_sum, acts=spaces.Discrete(3)):
        domain = make_domain()
        network = Network(domain.network())
        genomes = np.concatenate([make_constant_genome(network, *row) for row in np.eye(3)])
        np.testing.assert_array_equal(domain.evaluate(network, genomes, seeds(1, 1, 1)).fitness, [0.0, 5.0, 10.0])


def test_only_genomes_with_outputs_that_are_not_finite_are_broken() -> None:
    with registered_env():
        domain = make_domain(episodes=2)
        network = Network(domain.network())
        genomes = draw_genomes(network, 3)
        genomes[1] = np.nan
        found = domain.evaluate(network, genomes, seeds(1, 2, 3))
    np.testing.assert_array_equal(found.fitness, [5.0, np.nan, 5.0])
    assert np.isfinite(found.behavior).all()
    assert not found.solved.any()


def test_an_infinite_reward_is_broken() -> None:
    with registered_env(pays=lambda env, action: np.inf):
        assert np.isnan(compute_fitness(make_domain(threshold=1.0)))


@pytest.mark.parametrize("options", [{}, {"recurrent": "gru"}], ids=["no memory", "memory"])
def test_results_do_not_depend_on_the_batch(options: dict[str, Any]) -> None:
    with registered_env(acts=spaces.Box(-1.0, 1.0, (2,)), pays=reward_sum, ends=7):
        domain = make_domain(episodes=3, remembered=4, **options)
        network = Network(domain.network())
        genomes, numbers = draw_genomes(network, 5), seeds(*range(5))
        together = domain.evaluate(network, genomes, numbers)
        for b in (0, 3):
            alone = domain.evaluate(network, genomes[b : b + 1], numbers[b : b + 1])
            for mine, theirs in zip(alone[:4], together[:4], strict=True):
                np.testing.assert_array_equal(mine[0], theirs[b])


PAIR = spaces.Box(-np.inf, np.inf, (2,))


def record_episodes(lengths: list[int], count: int) -> list[int]:
    """Return the recorded experience of one genome; episode e shows 100 e + t at time t."""
    moments = SpreadRecorder(1, count)
    for t in range(max(lengths)):
        shown = np.array([[100 * e + t for e in range(len(lengths))]])
        moments.record([shown], np.array([[t < length for length in lengths]]))
    return moments.experience()[0][0].tolist()


def test_all_steps_are_recorded_if_they_fit() -> None:
    assert record_episodes([2, 3], 5) == [0, 1, 100, 101, 102]
    assert record_episodes([1], 3) == [0, 0, 0]


@pytest.mark.parametrize("lengths", [[50], [7, 60], [64, 64, 1]])
def test_recorded_steps_are_evenly_spread(lengths: list[int]) -> None:
    kept = record_episodes(lengths, 8)
    assert len(kept) == 8
    assert kept == sorted(kept)
    assert kept[0] == 0
    assert all(one % 100 < lengths[one // 100] for one in kept)
    longest = int(np.argmax(lengths))
    times = [one % 100 for one in kept if one // 100 == longest]
    assert np.diff(times).max() <= 4 * max(1, np.diff(times).min())


def test_recorded_steps_do_not_depend_on_other_genomes() -> None:
    moments = SpreadRecorder(2, 4)
    for t in range(40):
        moments.record([np.full((2, 1), t)], np.array([[t < 9], [True]]))
    assert moments.experience()[0][0].tolist() == record_episodes([9], 4)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_recorded_steps_are_those_of_a_reservoir_per_genome(count: int) -> None:
    lengths = np.random.default_rng(count).integers(1, 90, (5, 2))
    recorder = SpreadRecorder(5, count)
    reservoirs: list[ExperienceReservoir[int]] = [ExperienceReservoir(count) for _ in lengths]
    for t in range(lengths.max() + 1):
        recorder.record([100 * np.arange(10).reshape(5, 2) + t], t < lengths)
        for reservoir, longest in zip(reservoirs, lengths.max(axis=1).tolist(), strict=True):
            if t < longest and reservoir.offer():
                reservoir.add(t)
    for b, reservoir in enumerate(reservoirs):
        kept = [100 * (2 * b + e) + t for e in range(2) for t in reservoir.items if t < lengths[b, e]]
        assert recorder.experience()[0][b].tolist() == pick_evenly(kept, count)


def test_a_sequence_is_the_first_episode_padded_with_its_last_step() -> None:
    beginning = SequenceRecorder(4)
    for t in range(6):
        beginning.record(
            [np.array([[t, 50], [t, 50], [t, 50]])], np.array([[t < 2, True], [t < 3, True], [True, False]])
        )
    assert beginning.experience()[0].tolist() == [[[0, 1, 1, 1]], [[0, 1, 2, 2]], [[0, 1, 2, 3]]]


@pytest.mark.sample(5)
@pytest.mark.parametrize("memory", ["simple-rnn", "gru", "lstm"])
def test_a_recurrent_network_acts_as_on_the_whole_sequence(memory: str) -> None:
    with registered_env(seen=PAIR, shows=observe_last_action, acts=spaces.Discrete(3), ends=12):
        domain = make_domain(recurrent=memory, remembered=8, layers=2, episodes=2)
        network = Network(domain.network())
        genomes = draw_genomes(network, 3)
        seen = domain.observe(domain.evaluate(network, genomes, seeds(1, 2, 3)).experience)
    assert seen.shape == (3, 1, 8, 2)
    whole_sequence = compute_rows(network, genomes, seen).reshape(3, 8, 3)
    done = np.asarray(seen)[:, 0, 1:, 1]  # each observation has the action before it
    np.testing.assert_array_equal(whole_sequence[:, :-1].argmax(axis=-1), done)
    assert len(np.unique(done)) > 1


def test_a_recurrent_network_can_take_pictures() -> None:
    with registered_env(seen=spaces.Box(0, 255, (5, 6, 3), np.uint8), ends=3):
        domain = make_domain(recurrent="gru", remembered=4, layers=1)
        network = Network(domain.network())
        found = domain.evaluate(network, draw_genomes(network, 2), seeds(1, 2))
        assert found.experience.shape == (2, 1, 4, 5, 6, 3)
        assert compute_rows(network, draw_genomes(network, 2), domain.observe(found.experience)).shape[-1] == 2


def test_a_custom_network_may_take_sequences_of_any_length() -> None:
    own = keras.Sequential([keras.Input((None, 2)), keras.layers.GRU(3, return_sequences=True), keras.layers.Dense(2)])
    with registered_env(seen=PAIR, shows=observe_last_action):
        domain = make_domain(recurrent="gru", remembered=4)
        network = Network(own)
        assert domain.evaluate(network, draw_genomes(network, 2), seeds(1, 2)).experience.shape == (2, 1, 4, 2)


def test_memory_of_several_inputs_is_refused() -> None:
    both = spaces.Dict({"eye": spaces.Box(0, 255, (5, 5, 1), np.uint8), "speed": PAIR})
    message = r"^recurrent=gru: .* takes one input, .* has 2: eye, vector; with --set flatten=yes they are one vector$"
    with registered_env(seen=both), pytest.raises(TfsmError, match=message):
        make_domain(recurrent="gru").network()
    with registered_env(seen=both):
        assert make_domain(recurrent="gru", flatten=True).network().input_shape == (None, 32, 27)


def make_film(domain: Any) -> Film:
    network = Network(domain.network())
    return domain.film(network, draw_genomes(network, 1), seeds(1))


@pytest.mark.parametrize("hold", [1, 3])
def test_a_film_has_a_frame_for_the_reset_and_every_step(hold: int) -> None:
    with registered_env():
        domain = make_domain(hold=hold, vector="async")
        film = make_film(domain)
    assert isinstance(domain, SupportsFilm)
    assert film.rate == 7
    assert [int(film.frame(i).max()) for i in range(len(film))] == [0, 1, 2, 3, 4, 5]
    assert film.frame(0).shape[0] % 2 == film.frame(0).shape[1] % 2 == 0


def test_the_film_of_several_genomes_has_them_in_the_same_episode_below_the_first() -> None:
    def draws(env: ConfigurableEnv) -> np.ndarray:
        return np.full((400, 400, 3), int(200 * env.luck), np.uint8)

    with registered_env(draws=draws, pays=lambda env, action: env.luck, ends=1):
        domain = make_domain()
        network = Network(domain.network())
        genomes = draw_genomes(network, 20)
        alone, together = (domain.film(network, genomes[:n], seeds(*range(n))) for n in (1, 20))
        first = alone.frame(0)
    assert first.shape == (400, 400, 3)
    picture = together.frame(0)
    assert picture.shape == (400 + 3 * 100, 400, 3)  # twelve of nineteen
    np.testing.assert_array_equal(picture[:400], first)
    for row, column in np.ndindex(3, 4):
        assert (picture[450 + 100 * row, 50 + 100 * column] == first[0, 0]).all()


def test_a_film_is_the_first_episode_of_the_first_genome() -> None:
    def draws(env: ConfigurableEnv) -> np.ndarray:
        return np.full((4, 4, 3), int(250 * env.luck), np.uint8)

    with registered_env(draws=draws, pays=lambda env, action: env.luck, ends=1):
        domain = make_domain()
        network = Network(domain.network())
        film = domain.film(network, draw_genomes(network, 1), seeds(5))
        expected = int(250 * domain.evaluate(network, draw_genomes(network, 1), seeds(5)).fitness[0])
    assert abs(int(film.frame(0).max()) - expected) <= 1


def broken(env: ConfigurableEnv) -> Any:
    raise RuntimeError("pygame is not installed")


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (lambda env: np.zeros((4, 4)), r"it renders arrays of shape \(4, 4\), expected \[height, width, 3\]$"),
        (lambda env: None, r"it renders arrays of shape \(\), expected"),
        (broken, r"RuntimeError: pygame is not installed: pip install 'tfsm\[replay\]'$"),
    ],
)
def test_an_environment_that_cannot_be_filmed_is_reported(draws: Any, message: str) -> None:
    with (
        registered_env(draws=draws),
        pytest.raises(TfsmError, match=f"^the environment 'tests/Made-v0' cannot be filmed: {message}"),
    ):
        make_film(make_domain())


def test_an_environment_without_a_render_mode_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfigurableEnv, "metadata", {"render_modes": ["ansi"]})
    with registered_env(), pytest.raises(TfsmError, match=r"cannot be filmed: it has no render mode"):
        make_film(make_domain())


def test_cart_pole_can_be_filmed() -> None:
    pytest.importorskip("pygame")
    film = make_film(make_domain(env="CartPole-v1", steps=5))
    assert 2 <= len(film) <= 6
    picture = film.frame(0)
    assert (picture == 0).all(axis=-1).sum() > 500  # the cart is black
    assert (picture == 255).all(axis=-1).mean() > 0.8  # before a white background
    assert film.still().shape[0] > 4 * 400
