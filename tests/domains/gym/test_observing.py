"""What networks see: numbers as Gymnasium flattens them, pictures as they are, and both side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import made
from tests.domains.gym.playing import answers, drawn, gym, seeds
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.gym.spaces import Reader

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


def looked(space: spaces.Space[Any], observations: list[Any]) -> dict[str, np.ndarray]:
    reader = Reader("an environment", space)
    arrays = {name: np.zeros([len(observations), *x.shape], x.dtype) for name, x in reader.blank.items()}
    reader.see(observations, list(arrays.values()), np.arange(len(observations)))
    return arrays


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_seen_as_gymnasium_flattens_them(case: str) -> None:
    space = NUMBERS[case]
    space.seed(1)
    samples = [space.sample() for _ in range(20)]
    seen = looked(space, samples)
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
    (seen,) = looked(space, samples).values()
    assert seen.dtype == np.uint8
    np.testing.assert_array_equal(seen, [expected(one) for one in samples])


def test_pictures_and_numbers_come_side_by_side() -> None:
    MIXED.seed(1)
    sample = MIXED.sample()
    seen = looked(MIXED, [sample])
    assert list(seen) == ["back", "front", "vector"]
    np.testing.assert_array_equal(seen["front"][0], sample["front"])
    np.testing.assert_array_equal(seen["back"][0], sample["back"].transpose(1, 2, 0))
    one_hot = np.eye(3)[sample["gear"]]
    np.testing.assert_array_equal(seen["vector"][0], np.float32([*one_hot, *sample["speed"]]))


def test_only_the_places_that_are_named_are_written() -> None:
    reader = Reader("an environment", NUMBERS["a row"])
    array = np.full((3, 3), 7.0, np.float32)
    reader.see([np.float32([1, 2, 3])], [array], np.array([1]))
    np.testing.assert_array_equal(array, [[7, 7, 7], [1, 2, 3], [7, 7, 7]])


@pytest.mark.parametrize(
    "space",
    [*NUMBERS.values(), COLOURS, STACKED, GREY, MIXED, spaces.Tuple([GREY, GREY])],
    ids=[*NUMBERS, "colours", "stacked", "grey", "mixed", "two pictures"],
)
def test_the_default_network_takes_what_is_seen_and_what_is_kept(space: spaces.Space[Any]) -> None:
    with made(seen=space, ends=2):
        domain = gym(remembered=3)
        network = Network(domain.network())
        genomes = drawn(network, 2)
        found = domain.evaluate(network, genomes, seeds(1, 2))
    np.testing.assert_array_equal(found.fitness, [2.0, 2.0])
    rows = answers(network, genomes, domain.observe(found.experience))
    assert rows.shape == (2, 3, 2)
    assert np.isfinite(rows).all()


def test_a_picture_is_kept_as_bytes_and_seen_from_zero_to_one() -> None:
    with made(seen=spaces.Box(0, 255, (6, 5), np.uint8), shows=lambda env: np.full((6, 5), 51 * env.time, np.uint8)):
        domain = gym(remembered=5)
        network = Network(domain.network())
        kept = domain.evaluate(network, drawn(network, 1), seeds(1)).experience
    assert kept.dtype == np.uint8
    np.testing.assert_allclose(np.asarray(domain.observe(kept))[0, :, 0, 0, 0], [0.0, 0.2, 0.4, 0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(4), "has observations of the space Text; supported are Box, "),
        (spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), "has observations of the space Sequence"),
        (spaces.Dict({}), "has nothing to see"),
        (spaces.Dict({"a b": GREY, "a_b": GREY}), "pictures whose names are too much alike: a_b, a_b"),
    ],
    ids=["text", "sequence", "nothing", "names"],
)
def test_other_observations_are_refused(space: spaces.Space[Any], message: str) -> None:
    with made(seen=space), pytest.raises(TfsmError, match=f"^the environment 'tests/Made-v0' .*{message}"):
        gym().network()
