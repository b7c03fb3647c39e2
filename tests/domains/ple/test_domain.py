""""""

from __future__ import annotations

import pickle
from typing import Any

import keras
import numpy as np
import pygame
import pytest

import tfsm
from tests.domains.ple.double.games.catcher import FALL
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm.plugins.registry import Entry
from tfsm.rollouts import ExperienceReservoir, pick_evenly
from tfsm.testing.suite import PartUnderTest, checks_for
from tfsm_domains.ple.domain import PADDING, Ple, StateEncoder
from tfsm_domains.ple.games import GameInstance, game_display, load_game

QUICK: dict[str, Any] = {"frames": 120, "remembered": 6}


def seeds(count: int, first: int = 0) -> np.ndarray:
    return np.array([[first + i, -i] for i in range(count)], np.int32)


def genomes(network: Network, count: int) -> np.ndarray:
    return (0.7 * np.random.default_rng(2).standard_normal((count, network.size))).astype(np.float32)


def make_good_player() -> keras.Model:
    """Return a genome that moves under the fruit; the inputs are fruit_x, fruit_y, player_vel, player_x."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    towards_left = [-1.0, 0.0, 1.5, 1.0]
    kernel = np.stack([towards_left, np.negative(towards_left), np.zeros(4)], axis=1)
    model.set_weights([kernel, np.array([0.0, 0.0, 0.03])])
    return model


@pytest.mark.sample(5)
@pytest.mark.usefixtures("ple")
@pytest.mark.parametrize("observation", ["state", "pixels"])
def test_the_domain_passes_all_checks(observation: Any) -> None:
    subject = PartUnderTest(Entry.from_instance("domain", Ple(observation=observation, side=20, **QUICK)))
    for check in checks_for("domain"):
        if check.name != "runs are identical alone and in lock step":
            check(subject)


@pytest.mark.sample(5)
@pytest.mark.usefixtures("ple")
@pytest.mark.parametrize("observation", ["state", "pixels"])
def test_an_episode_depends_on_genome_and_seed_alone(observation: Any) -> None:
    domain = Ple(observation=observation, side=20, episodes=2, **QUICK)
    network = Network(domain.network())
    own, seed = genomes(network, 5), seeds(5)
    together = domain.evaluate(network, own, seed)
    again = domain.evaluate(network, own[::-1], seed[::-1])
    for mine, theirs in zip(together[:4], again[:4], strict=True):
        np.testing.assert_array_equal(mine, np.asarray(theirs)[::-1])
    for b in range(5):
        alone = domain.evaluate(network, own[b : b + 1], seed[b : b + 1])
        for mine, theirs in zip(alone[:4], together[:4], strict=True):
            np.testing.assert_array_equal(mine[0], theirs[b])
    other = domain.evaluate(network, own, seeds(5, first=70))
    assert (other.experience != together.experience).any()


@pytest.mark.usefixtures("ple")
def test_a_moving_player_is_better_than_a_still_one() -> None:
    domain = Ple(hold=2, episodes=3, frames=400, threshold=2.0)
    network = Network(make_good_player())
    still = np.zeros_like(network.genome)
    still[-1] = 1.0
    found = domain.evaluate(network, np.stack([network.genome, still]), seeds(2))
    assert found.fitness[0] > 2.0 > found.fitness[1]
    assert found.solved.tolist() == [True, False]
    assert found.behavior[0, 1] > found.behavior[1, 1]
    np.testing.assert_array_equal(found.behavior[:, 0], found.fitness)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("threshold", "solved"), [(None, False), (9.5, True), (10.0, True), (10.5, False)])
def test_a_good_player_catches_every_fruit(threshold: float | None, solved: bool) -> None:
    domain = Ple(hold=2, frames=10 * FALL + 5, threshold=threshold, remembered=2 * FALL)
    network = Network(make_good_player())
    found = domain.evaluate(network, network.genome[None], seeds(1))
    assert found.fitness.tolist() == [10.0]
    assert found.solved.tolist() == [solved]
    assert found.behavior.tolist() == [[10.0, 10 * FALL + 5]], "frames are counted one by one, whatever is held"
    heights = found.experience[0, :, 1] * 24
    assert set(np.round(heights)) == set(range(0, FALL, 2)), "inputs of all times are recorded"


@pytest.mark.usefixtures("double")
def test_a_short_episode_is_recorded_repeatedly() -> None:
    domain = Ple(frames=3, hold=1, remembered=6)
    network = Network(make_good_player())
    found = domain.evaluate(network, network.genome[None], seeds(1))
    np.testing.assert_array_equal(np.round(found.experience[0, :, 1] * 24), [0, 0, 1, 1, 2, 2])


@pytest.mark.usefixtures("double")
def test_pixels_are_stored_as_bytes_and_scaled_to_one() -> None:
    domain = Ple(observation="pixels", side=24, hold=1, **QUICK)
    network = Network(domain.network())
    kept = domain.evaluate(network, genomes(network, 2), seeds(2)).experience
    assert (kept.dtype, kept.shape, kept.max()) == (np.uint8, (2, 6, 24, 24), 255)
    shown = np.asarray(domain.observe(kept))
    assert (shown.shape, shown.max()) == ((2, 6, 24, 24, 1), 1.0)


@pytest.mark.usefixtures("ple")
def test_the_film_is_the_episode_that_was_evaluated() -> None:
    domain = Ple(hold=2, episodes=2, **QUICK)
    network = Network(make_good_player())
    found = Ple(hold=2, **QUICK).evaluate(network, network.genome[None], seeds(1))
    film = domain.film(network, np.stack([network.genome, 0 * network.genome]), seeds(2))
    assert len(film) == found.behavior[0, 1]
    assert film.rate == 30
    first, last = film.frame(0), film.frame(len(film) - 1)
    assert first.dtype == last.dtype == np.uint8
    assert first.shape == last.shape
    assert (first != last).any()
    assert max(first.shape) >= 256, "a small screen is made larger"
    for picture in (first, film.still()):
        assert picture.ndim == 3
        assert picture.shape[0] % 2 == picture.shape[1] % 2 == 0, "video formats need even sizes"
    assert not pygame.display.get_init()
    again = domain.film(network, network.genome[None], seeds(1))
    np.testing.assert_array_equal(again.frame(len(film) - 1), last)


@pytest.mark.usefixtures("double")
def test_a_broken_player_has_a_film_of_the_start() -> None:
    domain = Ple(**QUICK)
    network = Network(make_good_player())
    nonsense = np.full_like(network.genome, np.nan)
    found = domain.evaluate(network, np.stack([nonsense, network.genome]), seeds(2))
    assert np.isnan(found.fitness).tolist() == [True, False]
    assert len(domain.film(network, nonsense[None], seeds(1))) == 1


@pytest.mark.usefixtures("double")
def test_a_domain_that_has_played_pickles_compares_and_hashes() -> None:
    domain = Ple(game="Snake", frames=5)
    network = Network(domain.network())
    domain.evaluate(network, genomes(network, 1), seeds(1))
    again = pickle.loads(pickle.dumps(domain))
    assert again == domain
    assert hash(again) == hash(domain)


@pytest.mark.slow
@pytest.mark.usefixtures("double")
def test_evolution_finds_a_better_player() -> None:
    # Several short episodes, so that luck in one of them does not decide.
    domain = Ple(frames=3 * FALL, hold=4, episodes=4, remembered=8, threshold=3.0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    chance = domain.evaluate(Network(model), genomes(Network(model), 16), seeds(16, first=500)).fitness.mean()
    options: dict[str, Any] = {"evaluations": 300, "population": 20, "seed": 2, "max_change": 1.0}
    result = tfsm.evolve(domain, model, mutation="sm-g-abs", intensity=0.3, **options)
    network = Network(result.champion())
    own = np.repeat(network.genome[None], 16, axis=0)
    after = domain.evaluate(network, own, seeds(16, first=500)).fitness.mean()
    assert result.solved == 1
    assert after > chance + 2.0


def states(first: Any, slots: int = 3, scale: float = 1.0) -> StateEncoder:
    return StateEncoder("Game", first, slots=slots, scale=scale)


def test_a_state_is_read_in_the_order_of_its_names() -> None:
    encoder = states({"b": 2, "a": 1.5, "c": {"y": True, "x": np.float64(4)}}, scale=0.5)
    expected = np.array([0.75, 1.0, 2.0, 0.5], np.float32)
    np.testing.assert_array_equal(encoder.row({"b": 2, "a": 1.5, "c": {"y": True, "x": 4}}), expected)
    np.testing.assert_array_equal(encoder.row({"c": {"x": 4, "y": 1}, "a": 1.5, "b": 2}), expected)
    assert encoder.template.shape == expected.shape


def test_a_list_of_varying_length_keeps_its_slots() -> None:
    encoder = states({"body": [1.0], "head": 9.0, "pairs": []})
    none = PADDING
    for state, row in (
        ({"body": [1.0], "head": 9.0, "pairs": [[1, 2]]}, [1, none, none, 9, 1, 2, none]),
        ({"body": [1, 2, 3, 4, 5], "head": 8.0, "pairs": [[1, 2], [3, 4]]}, [1, 2, 3, 8, 1, 2, 3]),
        ({"body": [], "head": 7.0, "pairs": []}, [none, none, none, 7, none, none, none]),
    ):
        np.testing.assert_array_equal(encoder.row(state), np.array(row, np.float32))


def test_long_or_fixed_lists_are_kept_completely() -> None:
    assert states({"list": [1.0] * 5}).template.shape == (5,)
    assert states({"array": np.zeros([2, 2]), "tuple": (1, 2)}).template.shape == (6,)


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (None, None, "has no state"),
        ({"a": "word"}, None, "not a number"),
        ({"a": [[1], [2, 3]]}, None, "not a number"),
        ({"a": 1}, {"a": 1, "b": 2}, "names change"),
    ],
)
def test_an_unsupported_state_is_refused_with_a_suggestion(first: Any, then: Any, why: str) -> None:
    with pytest.raises(TfsmError, match=rf"'Game' .*{why}.*observation=pixels"):
        states(first).row(then)


@pytest.mark.usefixtures("ple")
def test_a_game_without_a_state_only_has_pixels() -> None:
    with pytest.raises(TfsmError, match=r"'RaycastMaze' has no state.*observation=pixels"):
        Ple(game="RaycastMaze").network()
    assert Ple(game="RaycastMaze", observation="pixels").network().input_shape == (None, 64, 64, 1)


@pytest.mark.usefixtures("ple")
def test_a_snake_that_grows_has_a_state_of_fixed_length() -> None:
    few, many = (Ple(game="Snake", slots=slots).network().input_shape[-1] for slots in (8, 12))
    assert many - few == 2 * 4, "two lists, each with four numbers more"


@pytest.mark.usefixtures("double")
def test_the_screen_is_upright_and_gray() -> None:
    game = load_game("Catcher")
    with game_display(game):
        play = GameInstance(game)
        play.start([5])
        play.act(None, 10)
        state, picture, grey = play.state(), play.screenshot(), play.grayscale(24)
    assert picture[state["fruit_y"], state["fruit_x"]].tolist() == [255, 120, 120]
    assert grey[state["fruit_y"], state["fruit_x"]] == round(0.21 * 255 + 0.72 * 120 + 0.07 * 120)
    assert grey[22, state["player_x"]] == 255
    assert grey.dtype == np.uint8
    assert (grey > 0).sum() == 2 * 7 + 1, "a paddle and a fruit"


@pytest.mark.parametrize("count", [1, 4, 7])
@pytest.mark.parametrize("seen", [1, 3, 4, 8, 100, 1000])
def test_recorded_inputs_are_spread_over_the_episode(count: int, seen: int) -> None:
    memory: ExperienceReservoir[int] = ExperienceReservoir(count)
    for i in range(seen):
        if memory.offer():
            memory.add(i)
    assert len(memory.items) < 2 * count
    kept = np.array(pick_evenly(memory.items, count))
    assert kept.shape == (count,)
    assert (np.diff(kept) >= 0).all()
    assert kept[0] == 0
    if seen <= count:
        assert set(kept) == set(range(seen))
    elif count > 1:
        assert len(set(kept)) == count
        gaps = np.diff([*kept, seen])
        assert gaps.max() <= 4 * seen / count
