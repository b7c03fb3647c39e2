"""What a network sees of an observation: pictures as they are, and all the rest as one row of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tfsm.errors import TfsmError
from tfsm_gym.loading import gymnasium

VECTOR: Final = "vector"
"""The input's name that takes the numbers, where there are pictures beside them."""
SUPPORTED: Final = "Box, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of these"

Path = tuple[Any, ...]
"""The keys that lead to a part of an observation."""
Write = Callable[[np.ndarray, np.ndarray], None]
"""Writes values `[N, ...]` into rows of numbers `[N, size]`, which are all zero."""


@dataclass(frozen=True)
class Picture:
    """A part of an observation that is a picture."""

    name: str
    path: Path
    shape: tuple[int, ...]
    """Height, width, channels."""
    turned: bool
    """Whether the environment has the channels first."""

    def of(self, value: np.ndarray) -> np.ndarray:
        """Return a picture as the network takes it."""
        return np.moveaxis(value, 0, -1) if self.turned else value.reshape(self.shape)


@dataclass(frozen=True)
class Numbers:
    """A part of an observation that is numbers."""

    path: Path
    space: Any
    place: slice
    """Where in the row they are."""
    write: Write


class Reader:
    """Turns observations into a network's inputs.

    Args:
        name: the environment's, for messages.
        space: its observation space.
    """

    def __init__(self, name: str, space: Any) -> None:
        self.pictures: list[Picture] = []
        self.numbers: list[Numbers] = []
        length = 0
        for path, leaf in _leaves(space):
            if _is_picture(leaf):
                self.pictures.append(_picture(path, leaf))
            else:
                size, write = _written(name, leaf)
                self.numbers.append(Numbers(path, leaf, slice(length, length + size), write))
                length += size
        names = [picture.name for picture in self.pictures]
        if len(set(names)) < len(names):
            raise TfsmError(f"the environment {name!r} has pictures whose names are too much alike: {', '.join(names)}")
        if not self.pictures and not length:
            raise TfsmError(f"the environment {name!r} has nothing to see: its observation space is {space}")
        self.length = length
        """How many numbers the row has."""
        self.shift, self.scale = np.zeros([2, length], np.float32)
        self.scale += 1.0
        self._changed = False

    @property
    def blank(self) -> dict[str, np.ndarray]:
        """What is seen of nothing, by the inputs' names."""
        found = {picture.name: np.zeros(picture.shape, np.uint8) for picture in self.pictures}
        return found | ({VECTOR: np.zeros(self.length, np.float32)} if self.length else {})

    def normalize(self, shift: np.ndarray, scale: np.ndarray) -> None:
        """Let numbers be `(number - shift) * scale` from now on."""
        self.shift, self.scale = shift.astype(np.float32), scale.astype(np.float32)
        self._changed = True

    def rows(self, observations: Sequence[Any]) -> np.ndarray:
        """Return the numbers of observations, `[N, length]`."""
        rows = np.zeros([len(observations), self.length], np.float32)
        for part in self.numbers:
            part.write(rows[:, part.place], np.array([_at(one, part.path) for one in observations]))
        return (rows - self.shift) * self.scale if self._changed else rows

    def see(self, observations: Sequence[Any], into: Sequence[np.ndarray], places: np.ndarray) -> None:
        """Write what is seen into arrays `[L, ...]`, one for each entry of `blank`, at N places."""
        for picture, array in zip(self.pictures, into, strict=False):
            for place, one in zip(places, observations, strict=True):
                array[place] = picture.of(np.asarray(_at(one, picture.path)))
        if self.length:
            into[-1][places] = self.rows(observations)


def _leaves(space: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from _leaves(part, (*path, key))
    else:
        yield path, space


def _at(observation: Any, path: Path) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def _is_picture(space: Any) -> bool:
    return isinstance(space, gymnasium().spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


def _picture(path: Path, space: Any) -> Picture:
    name = re.sub(r"\W", "_", "_".join(map(str, path))) or "picture"
    name = f"{name}_" if name == VECTOR else name
    shape: tuple[int, ...] = space.shape
    if len(shape) == 2:
        return Picture(name, path, (*shape, 1), turned=False)
    if shape[0] < min(shape[1:]):
        return Picture(name, path, (*shape[1:], shape[0]), turned=True)
    return Picture(name, path, shape, turned=False)


def _written(name: str, space: Any) -> tuple[int, Write]:
    """Return how many numbers a value of this space takes, and what writes them, as `gymnasium.spaces.flatten` does."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape)), _plain
    if isinstance(space, spaces.Discrete):
        return int(space.n), _one_hot(np.zeros(1, int), np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        counts = space.nvec.ravel()
        firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        return int(counts.sum()), _one_hot(firsts, space.start.ravel())
    raise TfsmError(
        f"the environment {name!r} has observations of the space {type(space).__name__}; supported are {SUPPORTED}"
    )


def _plain(rows: np.ndarray, values: np.ndarray) -> None:
    rows[:] = values.reshape(rows.shape)


def _one_hot(firsts: np.ndarray, start: np.ndarray) -> Write:
    shift = firsts - start

    def write(rows: np.ndarray, values: np.ndarray) -> None:
        rows[np.arange(len(rows))[:, None], values.reshape(len(rows), -1) + shift] = 1.0

    return write
