"""What is kept of episodes, and networks that remember."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import diary, made
from tests.domains.gym.playing import answers, drawn, gym, seeds
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.gym.rollout import Beginning, Moments

PAIR = spaces.Box(-np.inf, np.inf, (2,))


def watched(lengths: list[int], count: int) -> list[int]:
    """Return what is kept of one genome's episodes; episode e shows 100 e + t at time t."""
    moments = Moments(1, count)
    for t in range(max(lengths)):
        shown = np.array([[100 * e + t for e in range(len(lengths))]])
        moments.see([shown], np.array([[t < length for length in lengths]]))
    return moments.all()[0][0].tolist()


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
    moments = Moments(2, 4)
    for t in range(40):
        moments.see([np.full((2, 1), t)], np.array([[t < 9], [True]]))
    assert moments.all()[0][0].tolist() == watched([9], 4)


def test_a_sequence_is_the_beginning_of_the_first_episode_and_its_last_step_over_and_over() -> None:
    beginning = Beginning(4)
    for t in range(6):
        beginning.see([np.array([[t, 50], [t, 50], [t, 50]])], np.array([[t < 2, True], [t < 3, True], [True, False]]))
    assert beginning.all()[0].tolist() == [[[0, 1, 1, 1]], [[0, 1, 2, 2]], [[0, 1, 2, 3]]]


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
