"""Observations/actions <-> arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Nest, Tensor
from tfsm_domains.gym.env_pool import gymnasium

VECTOR: Final = "vector"
"""The input's name that takes the numbers, where there are pictures beside them."""
SUPPORTED: Final = "Box, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of these"

Path = tuple[Any, ...]
"""The keys that lead to a part of an observation."""
RowWriter = Callable[[np.ndarray, np.ndarray], None]
"""Writes values `[N, ...]` into rows of numbers `[N, size]`, which are all zero."""


@dataclass(frozen=True)
class ImagePart:
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
class VectorPart:
    """A part of an observation that is numbers."""

    path: Path
    space: Any
    place: slice
    """Where in the row they are."""
    write: RowWriter


class ObservationEncoder:
    """Turns observations into a network's inputs.

    Args:
        name: the environment's, for messages.
        space: its observation space.
    """

    def __init__(self, name: str, space: Any) -> None:
        self.images: list[ImagePart] = []
        self.vectors: list[VectorPart] = []
        length = 0
        for path, leaf in _leaves(space):
            if _is_picture(leaf):
                self.images.append(_picture(path, leaf))
            else:
                size, write = _vector_writer(name, leaf)
                self.vectors.append(VectorPart(path, leaf, slice(length, length + size), write))
                length += size
        names = [picture.name for picture in self.images]
        if len(set(names)) < len(names):
            raise TfsmError(f"the environment {name!r} has pictures whose names are too much alike: {', '.join(names)}")
        if not self.images and not length:
            raise TfsmError(f"the environment {name!r} has nothing to see: its observation space is {space}")
        self.length = length
        """How many numbers the row has."""
        self.shift, self.scale = np.zeros([2, length], np.float32)
        self.scale += 1.0
        self._changed = False

    @property
    def template(self) -> dict[str, np.ndarray]:
        """What is seen of nothing, by the inputs' names."""
        found = {picture.name: np.zeros(picture.shape, np.uint8) for picture in self.images}
        return found | ({VECTOR: np.zeros(self.length, np.float32)} if self.length else {})

    def normalize(self, shift: np.ndarray, scale: np.ndarray) -> None:
        """Let numbers be `(number - shift) * scale` from now on."""
        self.shift, self.scale = shift.astype(np.float32), scale.astype(np.float32)
        self._changed = True

    def rows(self, observations: Sequence[Any]) -> np.ndarray:
        """Return the numbers of observations, `[N, length]`."""
        rows = np.zeros([len(observations), self.length], np.float32)
        for part in self.vectors:
            part.write(rows[:, part.place], np.array([_at(one, part.path) for one in observations]))
        return (rows - self.shift) * self.scale if self._changed else rows

    def encode_into(self, observations: Sequence[Any], into: Sequence[np.ndarray], places: np.ndarray) -> None:
        """Write what is seen into arrays `[L, ...]`, one for each entry of `template`, at N places."""
        for picture, array in zip(self.images, into, strict=False):
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


def _picture(path: Path, space: Any) -> ImagePart:
    name = re.sub(r"\W", "_", "_".join(map(str, path))) or "picture"
    name = f"{name}_" if name == VECTOR else name
    shape: tuple[int, ...] = space.shape
    if len(shape) == 2:
        return ImagePart(name, path, (*shape, 1), turned=False)
    if shape[0] < min(shape[1:]):
        return ImagePart(name, path, (*shape[1:], shape[0]), turned=True)
    return ImagePart(name, path, shape, turned=False)


def _vector_writer(name: str, space: Any) -> tuple[int, RowWriter]:
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


def _one_hot(firsts: np.ndarray, start: np.ndarray) -> RowWriter:
    shift = firsts - start

    def write(rows: np.ndarray, values: np.ndarray) -> None:
        rows[np.arange(len(rows))[:, None], values.reshape(len(rows), -1) + shift] = 1.0

    return write


MAX_FINITE_BOUND: Final = 1e15
"""A bound as large as this is none: some environments write the largest number there is for infinity."""
SAMPLES: Final = 2_000
"""Observations that the mean and the deviation are taken of."""


def normalize_by_bounds(encoder: ObservationEncoder) -> None:
    """Scale numbers between two finite bounds to [-1, 1]."""
    low, high = (np.full(encoder.length, end) for end in (-np.inf, np.inf))
    for part in encoder.vectors:
        if isinstance(part.space, gymnasium().spaces.Box):
            low[part.place], high[part.place] = np.ravel(part.space.low), np.ravel(part.space.high)
    middle, half = center_and_scale(low, high)
    encoder.normalize(middle, 1.0 / half)


def center_and_scale(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle between bounds and half their distance; 0 and 1 where they are not finite.

    >>> center_and_scale(np.array([-2.0, 0.0]), np.array([6.0, np.inf]))
    (array([2., 0.]), array([4., 1.]))
    """
    bounded = is_bounded(low, high)
    low, high = (np.where(bounded, end, 0.0) for end in (low, high))
    return (low + high) / 2, np.where(bounded, (high - low) / 2, 1.0)


def is_bounded(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Say which numbers have two finite bounds, one above the other."""
    return (np.abs(low) < MAX_FINITE_BOUND) & (np.abs(high) < MAX_FINITE_BOUND) & (low < high)


def normalize_by_samples(encoder: ObservationEncoder, env: Any) -> None:
    """Subtract the mean and divide by the deviation of what random actions meet: always the same actions and episodes.

    Args:
        encoder: whose numbers.
        env: an environment, which is left somewhere in an episode.
    """
    met: list[Any] = []
    env.action_space.seed(0)
    for episode in range(SAMPLES):
        observation, _ = env.reset(seed=episode)
        met.append(observation)
        over = False
        while not over and len(met) < SAMPLES:
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            met.append(observation)
            over = terminated or truncated
        if len(met) == SAMPLES:
            break
    seen = encoder.rows(met).astype(np.float64)
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    kept = np.ones(encoder.length, bool)
    for part in encoder.vectors:
        kept[part.place] = not isinstance(part.space, gymnasium().spaces.Box)
    # A number that never changes says nothing of its size.
    kept |= deviation < 1e-6
    encoder.normalize(np.where(kept, 0.0, mean), np.where(kept, 1.0, 1.0 / np.maximum(deviation, 1e-6)))


SUPPORTED_ACTIONS: Final = "Discrete, MultiDiscrete, MultiBinary and Box"


class ActionDecoder(NamedTuple):
    """How outputs are read."""

    outputs: int
    """K, how many there are."""
    activation: str | None
    """What the default network's outputs go through."""
    decode: Callable[[np.ndarray], np.ndarray]
    """From finite outputs `[..., K]` to actions `[..., *shape]`."""


def build_action_decoder(name: str, space: Any) -> ActionDecoder:
    """Return how actions of a space are taken; the name is the environment's, for messages."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        return ActionDecoder(int(space.n), None, lambda outputs: outputs.argmax(axis=-1) + int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete_decoder(space)
    if isinstance(space, spaces.MultiBinary):
        return ActionDecoder(int(np.prod(space.shape)), None, lambda outputs: _shaped(outputs > 0, space))
    if isinstance(space, spaces.Box):
        return _numbers(space)
    raise TfsmError(
        f"the environment {name!r} has actions of the space {type(space).__name__}; supported: {SUPPORTED_ACTIONS}"
    )


def _multi_discrete_decoder(space: Any) -> ActionDecoder:
    ends = np.cumsum(space.nvec.ravel())

    def act(outputs: np.ndarray) -> np.ndarray:
        parts = np.split(outputs, ends[:-1], axis=-1)
        chosen = np.stack([part.argmax(axis=-1) for part in parts], axis=-1) + space.start.ravel()
        return _shaped(chosen, space)

    return ActionDecoder(int(ends[-1]), None, act)


def _numbers(space: Any) -> ActionDecoder:
    low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
    bounded = is_bounded(low, high)
    middle, half = center_and_scale(low, high)

    def act(outputs: np.ndarray) -> np.ndarray:
        # From -1 to 1 where there are two bounds; elsewhere outputs are the numbers themselves.
        numbers = middle + half * np.where(bounded, np.clip(outputs, -1.0, 1.0), outputs)
        numbers = np.clip(numbers, low, high)
        if np.issubdtype(space.dtype, np.integer):
            numbers = np.rint(numbers)
        return _shaped(numbers, space)

    return ActionDecoder(len(low), "tanh" if bounded.all() else None, act)


def _shaped(actions: np.ndarray, space: Any) -> np.ndarray:
    return actions.astype(space.dtype).reshape([*actions.shape[:-1], *space.shape])


def to_inputs(kept: Nest) -> Nest:
    """Return inputs: pictures are kept as bytes, and seen as numbers from 0 to 1."""
    return tf.nest.map_structure(_number, kept)


def _number(x: Tensor) -> Tensor:
    return tf.cast(x, tf.float32) / 255.0 if x.dtype == tf.uint8 else x


def match_inputs(model: keras.Model, names: Sequence[str], env: str) -> list[int]:
    """Return which of the things that are seen each of the model's inputs takes: by name, where there are several."""
    if len(names) == 1:
        return [0]
    if not getattr(model, "inputs", None):
        raise TfsmError(f"{env!r} has the inputs {', '.join(names)}: a subclassed model does not say which is which")
    own = sorted(model.input) if isinstance(model.input, dict) else [tensor.name for tensor in model.inputs]
    if sorted(own) != sorted(names):
        raise TfsmError(f"the model's inputs are {', '.join(own)}, and those of {env!r} are {', '.join(names)}")
    return [list(names).index(name) for name in own]
