"""Conversion of observations and actions, against the closed form of each space."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import LINE, ConfigurableEnv, registered_env, reward_sum
from tests.domains.gym.playing import compute_fitness, compute_rows, draw_genomes, make_domain, seeds
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.gym.rollout import NORMALIZATION
from tfsm_domains.gym.spaces import WORD_BINS, ObservationEncoder, build_action_decoder, update_statistics

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
    decoder = build_action_decoder("an environment", space)
    assert decoder.outputs == len(outputs)
    (action,) = decoder.decode(np.array([outputs], np.float32))
    np.testing.assert_allclose(action, expected)
    assert space.contains(action)


@pytest.mark.parametrize("case", CASES)
def test_any_outputs_are_some_action_of_the_space(case: str) -> None:
    space = CASES[case][0]
    decoder = build_action_decoder("an environment", space)
    outputs = 100.0 * np.random.default_rng(1).normal(size=(50, decoder.outputs))
    assert all(space.contains(action) for action in decoder.decode(outputs.astype(np.float32)))


def test_the_default_network_stays_within_bounds_where_there_are_two() -> None:
    assert build_action_decoder("an environment", spaces.Box(-2.0, 2.0, (2,))).activation == "tanh"
    assert build_action_decoder("an environment", FLOATS).activation is None
    assert build_action_decoder("an environment", spaces.Discrete(2)).activation is None


@pytest.mark.parametrize("case", ["a choice that is not counted from zero", "a table of choices", "whole numbers"])
def test_environments_accept_the_actions(case: str) -> None:
    with registered_env(acts=CASES[case][0], pays=reward_sum):  # which rejects actions outside the space
        domain = make_domain()
        network = Network(domain.network())
        found = domain.evaluate(network, draw_genomes(network, 2), seeds(1, 2)).fitness
    assert np.isfinite(found).all()


@pytest.mark.parametrize("space", [spaces.Tuple([spaces.Discrete(2)]), spaces.Text(3)], ids=["Tuple", "Text"])
def test_other_actions_are_refused_with_a_list_of_those_that_are_supported(space: spaces.Space[Any]) -> None:
    with registered_env(acts=space), pytest.raises(TfsmError) as refused:
        make_domain().network()
    assert str(refused.value) == (
        f"the environment 'tests/Made-v0' has actions of the space {type(space).__name__}; "
        "supported are Discrete, MultiDiscrete, MultiBinary and Box"
    )


NUMBERS: dict[str, spaces.Space[Any]] = {
    "a row": spaces.Box(-1.0, 1.0, (3,)),
    "a table": spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    "one number": spaces.Box(-1.0, 1.0, ()),
    "whole numbers": spaces.Box(-9, 9, (2,), np.int64),
    "memory of a console": spaces.Box(0, 255, (4,), np.uint8),
    "a choice": spaces.Discrete(4, start=2),
    "choices": spaces.MultiDiscrete([2, 3]),
    "switches": spaces.MultiBinary([2, 2]),
    "names": spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0.0, 1.0, (2,))}),
    "places": spaces.Tuple([spaces.Box(0.0, 1.0, (2,)), spaces.Dict({"x": spaces.MultiBinary(2)})]),
}
COLOURS = spaces.Box(0, 255, (6, 5, 3), np.uint8)
STACKED = spaces.Box(0, 255, (2, 6, 5), np.uint8)
GREY = spaces.Box(0, 255, (6, 5), np.uint8)
MIXED = spaces.Dict(
    {"speed": spaces.Box(-1.0, 1.0, (2,)), "front": COLOURS, "back": STACKED, "gear": spaces.Discrete(3)}
)


def observe(space: spaces.Space[Any], observations: list[Any]) -> dict[str, np.ndarray]:
    encoder = ObservationEncoder("an environment", space)
    return dict(zip(encoder.template, encoder.encode(observations), strict=True))


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_flattened_as_by_gymnasium(case: str) -> None:
    space = NUMBERS[case]
    space.seed(1)
    samples = [space.sample() for _ in range(20)]
    seen = observe(space, samples)
    assert list(seen) == ["vector"]
    np.testing.assert_array_equal(seen["vector"], [np.float32(spaces.flatten(space, one)) for one in samples])


@pytest.mark.parametrize(
    ("space", "expected"),
    [(COLOURS, lambda x: x), (STACKED, lambda x: x.transpose(1, 2, 0)), (GREY, lambda x: x[..., None])],
    ids=["channels last", "channels first", "grey"],
)
def test_a_picture_has_its_channels_last(space: spaces.Box, expected: Any) -> None:
    space.seed(1)
    samples = [space.sample() for _ in range(3)]
    (seen,) = observe(space, samples).values()
    assert seen.dtype == np.uint8
    np.testing.assert_array_equal(seen, [expected(one) for one in samples])


def test_pictures_and_numbers_are_separate_inputs() -> None:
    MIXED.seed(1)
    sample = MIXED.sample()
    seen = observe(MIXED, [sample])
    assert list(seen) == ["back", "front", "vector"]
    np.testing.assert_array_equal(seen["front"][0], sample["front"])
    np.testing.assert_array_equal(seen["back"][0], sample["back"].transpose(1, 2, 0))
    one_hot = np.eye(3)[sample["gear"]]
    np.testing.assert_array_equal(seen["vector"][0], np.float32([*one_hot, *sample["speed"]]))


def test_a_stack_of_color_images_has_all_colors_as_channels() -> None:
    space = spaces.Box(0, 255, (4, 6, 5, 3), np.uint8)
    space.seed(1)
    sample = space.sample()
    (image,) = observe(space, [sample]).values()
    assert image.shape == (1, 6, 5, 12)
    np.testing.assert_array_equal(image[0, ..., 3:6], sample[1])


def test_flattened_images_are_numbers_of_one_vector() -> None:
    encoder = ObservationEncoder("an environment", MIXED, flatten=True)
    MIXED.seed(1)
    sample = MIXED.sample()
    assert list(encoder.template) == ["vector"]
    np.testing.assert_array_equal(encoder.encode([sample])[0], [spaces.flatten(MIXED, sample)])


MISSION = spaces.Dict({"mission": spaces.Text(40), "speed": spaces.Box(-1.0, 1.0, (2,))})


def test_texts_are_dropped_or_counted_by_word() -> None:
    seen = {"mission": "Get the ball, the red ball", "speed": np.float32([0.5, -0.5])}
    (dropped,) = ObservationEncoder("an environment", MISSION).encode([seen])
    np.testing.assert_array_equal(dropped, [[0.5, -0.5]])
    (counted,) = ObservationEncoder("an environment", MISSION, words=True).encode([seen])
    assert counted.shape == (1, WORD_BINS + 2)
    words = counted[0, :WORD_BINS]
    assert sorted(words[words > 0]) == [1.0, 1.0, 2.0, 2.0]  # get, red, the, ball
    (other,) = ObservationEncoder("an environment", MISSION, words=True).encode(
        [seen | {"mission": "red ball ball the the get"}]
    )
    np.testing.assert_array_equal(other, counted)


def test_a_dropped_text_is_a_note() -> None:
    with registered_env(seen=MISSION):
        (note,) = make_domain().notes
        assert note == "tests/Made-v0: text is not observed: mission; --set text=words encodes its words"
        assert not make_domain(text="words").notes


@pytest.mark.parametrize(
    ("space", "shown", "message"),
    [
        (NUMBERS["a row"], np.zeros(4), r"returned an observation of shape \(4,\), expected \(3,\)"),
        (NUMBERS["a row"], None, r"returned an observation of shape \(\), expected \(3,\)"),
        (GREY, np.zeros((6, 6), np.uint8), r"of shape \(6, 6\), expected \(6, 5\)"),
        (spaces.Dict({"a": spaces.Discrete(3)}), {"a": np.zeros(2)}, r"observation 'a' of shape \(2,\), expected \(\)"),
        (spaces.Dict({"a": spaces.Discrete(3)}), {"b": 1}, r"failed in reset\(\): KeyError: 'a'"),
        (spaces.Discrete(3), 3, r"failed in reset\(\): IndexError"),
    ],
)
def test_an_observation_that_does_not_fit_its_space_is_one_line(
    space: spaces.Space[Any], shown: Any, message: str
) -> None:
    with (
        registered_env(seen=space, shows=lambda env: shown),
        pytest.raises(TfsmError, match=f"^the environment 'tests/Made-v0' .*{message}"),
    ):
        compute_fitness(make_domain())


@pytest.mark.sample(11)
@pytest.mark.parametrize(
    "space",
    [*NUMBERS.values(), COLOURS, STACKED, GREY, MIXED, spaces.Tuple([GREY, GREY])],
    ids=[*NUMBERS, "colours", "stacked", "grey", "mixed", "two pictures"],
)
def test_the_default_network_accepts_observations_and_experience(space: spaces.Space[Any]) -> None:
    with registered_env(seen=space, ends=2):
        domain = make_domain(remembered=3)
        network = Network(domain.network())
        genomes = draw_genomes(network, 2)
        found = domain.evaluate(network, genomes, seeds(1, 2))
    np.testing.assert_array_equal(found.fitness, [2.0, 2.0])
    rows = compute_rows(network, genomes, domain.observe(found.experience))
    assert rows.shape == (2, 3, 2)
    assert np.isfinite(rows).all()


def test_a_picture_is_stored_as_bytes_and_scaled_to_one() -> None:
    with registered_env(
        seen=spaces.Box(0, 255, (6, 5), np.uint8), shows=lambda env: np.full((6, 5), 51 * env.time, np.uint8)
    ):
        domain = make_domain(remembered=5)
        network = Network(domain.network())
        experience = domain.evaluate(network, draw_genomes(network, 1), seeds(1)).experience
    assert experience.dtype == np.uint8
    np.testing.assert_allclose(
        np.asarray(domain.observe(experience))[0, :, 0, 0, 0], [0.0, 0.2, 0.4, 0.6, 0.8], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(4), "has only text as observations: use --set text=words"),
        (spaces.Graph(LINE, None), "has observations of the space Graph; supported are Box, "),
        (spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), "has observations of the space Sequence"),
        (spaces.Dict({}), "has empty observations"),
        (spaces.Dict({"a b": GREY, "a_b": GREY}), "images whose names are too similar: a_b, a_b"),
    ],
    ids=["text", "graph", "sequence", "nothing", "names"],
)
def test_other_observations_are_refused(space: spaces.Space[Any], message: str) -> None:
    with registered_env(seen=space), pytest.raises(TfsmError, match=f"^the environment 'tests/Made-v0' .*{message}"):
        make_domain().network()


HUGE = float(np.finfo(np.float32).max)
MIXED_NORMALIZING = spaces.Dict(
    {
        "bounded": spaces.Box(np.float32([-2.0, 10.0]), np.float32([2.0, 30.0])),
        "gear": spaces.Discrete(2),
        "open": spaces.Box(np.float32([-np.inf, -HUGE]), np.float32([np.inf, HUGE])),
        "still": spaces.Box(-np.inf, np.inf, (1,)),
    }
)


def shows(env: ConfigurableEnv) -> dict[str, Any]:
    far = env.np_random.normal(size=2) * [3.0, 0.5] + [100.0, -7.0]
    return {
        "bounded": np.float32([-2.0, 25.0]),
        "gear": int(env.np_random.integers(2)),
        "open": far.astype(np.float32),
        "still": np.float32([8.0]),
    }


def collect_inputs(normalize: str, count: int = 6) -> np.ndarray:
    """Return what a network without a normalization of its own sees: bounded 2, gear 2, open 2, still 1."""
    with registered_env(seen=MIXED_NORMALIZING, shows=shows, ends=count):
        domain = make_domain(normalize=normalize, remembered=count)
        network = Network(keras.Sequential([keras.Input((7,)), keras.layers.Dense(2)]))
        return np.asarray(domain.evaluate(network, draw_genomes(network, 1), seeds(5)).experience)[0]


@pytest.mark.parametrize("normalize", ["bounds", "sampled"])
def test_the_default_network_normalizes_by_itself(normalize: str) -> None:
    with registered_env(seen=MIXED_NORMALIZING, shows=shows, ends=6):
        domain = make_domain(normalize=normalize, remembered=6)
        network = Network(domain.network())
        seen = domain.evaluate(network, draw_genomes(network, 1), seeds(5)).experience[0]
    np.testing.assert_array_equal(seen, collect_inputs("none"))
    normalized = network.model.get_layer(NORMALIZATION)(seen)
    np.testing.assert_allclose(normalized, collect_inputs(normalize), rtol=1e-3, atol=1e-4)


def test_bounded_values_are_scaled_to_one_and_unbounded_ones_stay() -> None:
    plain, bounded = collect_inputs("none"), collect_inputs("bounds")
    np.testing.assert_allclose(bounded[:, :2], np.tile([-1.0, 0.5], (6, 1)), rtol=1e-6)
    np.testing.assert_array_equal(bounded[:, 2:], plain[:, 2:])


def test_sampled_values_are_standardized_and_constant_ones_stay() -> None:
    sampled = collect_inputs("sampled", 1500)
    np.testing.assert_allclose(sampled[:, 4:6].mean(axis=0), 0.0, atol=0.15)  # of 2,000 and 1,500 others
    np.testing.assert_allclose(sampled[:, 4:6].std(axis=0), 1.0, atol=0.1)
    np.testing.assert_array_equal(np.unique(sampled[:, 2:4]), [0.0, 1.0])
    np.testing.assert_array_equal(sampled[:, 6], 8.0)
    np.testing.assert_array_equal(sampled[:, 0], -2.0)


def test_the_number_of_samples_is_chosen() -> None:
    with registered_env(seen=MIXED_NORMALIZING, shows=shows, ends=6):
        shifts = [
            make_domain(normalize="sampled", normalize_samples=count).runner.encoder.shift for count in (1, 2, 500)
        ]
    np.testing.assert_array_equal(shifts[0], 0.0)  # one observation has no deviation
    assert shifts[1][4] != shifts[2][4]
    assert shifts[1][6] == shifts[2][6] == 0.0


def to_statistics(mean: Any, deviation: Any) -> np.ndarray:
    """Return a scale and an offset, `[1, 2 * D]`."""
    scale = 1.0 / np.asarray(deviation, np.float64)
    return np.concatenate([scale, -np.asarray(mean) * scale])[None].astype(np.float32)


def test_running_statistics_are_those_of_a_mixture() -> None:
    rng = np.random.default_rng(0)
    before, seen = rng.normal(1.0, 2.0, size=[9_000, 2]), rng.normal(-4.0, 0.5, size=[1_000, 2])
    updated = update_statistics(to_statistics(before.mean(axis=0), before.std(axis=0)), seen[None], np.ones(2, bool))
    both = np.concatenate([before, seen])  # nine parts of one, and one part of the other
    np.testing.assert_allclose(updated, to_statistics(both.mean(axis=0), both.std(axis=0)), rtol=1e-4)


def test_running_statistics_converge_to_what_is_seen() -> None:
    statistics, seen = to_statistics([0.0], [1.0]), np.array([[[8.0], [12.0]]])
    for _ in range(200):
        statistics = update_statistics(statistics, seen, np.ones(1, bool))
    np.testing.assert_allclose(statistics, to_statistics([10.0], [2.0]), rtol=1e-4)


def test_running_statistics_of_other_numbers_and_of_broken_individuals_stay() -> None:
    statistics = np.repeat(to_statistics([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]), 3, axis=0)
    statistics[2] = 0.0  # a lane that is not in use
    seen = np.full([3, 5, 3], 7.0)
    seen[1, 2, 1] = np.nan
    updated = update_statistics(statistics, seen, np.array([True, True, False]))
    np.testing.assert_array_equal(updated[:, [2, 5]], statistics[:, [2, 5]])
    np.testing.assert_array_equal(updated[1, [1, 4]], statistics[1, [1, 4]])
    np.testing.assert_array_equal(updated[2], 0.0)
    assert (updated[0, [0, 1]] != statistics[0, [0, 1]]).all()
    for row in range(3):  # who shares the batch does not matter
        alone = update_statistics(statistics[row : row + 1], seen[row : row + 1], np.array([True, True, False]))
        np.testing.assert_array_equal(alone[0], updated[row])


@pytest.mark.parametrize("normalize", ["bounds", "sampled"])
def test_normalization_is_reproducible(normalize: str) -> None:
    np.testing.assert_array_equal(collect_inputs(normalize), collect_inputs(normalize))
