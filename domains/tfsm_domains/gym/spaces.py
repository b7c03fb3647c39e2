"""Convert between Gymnasium spaces and arrays: observations to network inputs, network outputs to actions."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from tfsm.errors import TfsmError
from tfsm_domains.gym.environment import gymnasium, is_text

VECTOR: Final = "vector"
"""Name of the input for plain numbers, if there are images as well."""
SUPPORTED: Final = "Box, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of these"
WORD_BINS: Final = 64
"""Numbers that a text becomes: how many of its words fall into each bin."""

SpacePath = tuple[Any, ...]
"""The keys that lead to one part of an observation."""
RowWriter = Callable[[np.ndarray, np.ndarray], None]
"""Writes values `[N, ...]` into zeroed rows `[N, size]`."""


@dataclass(frozen=True)
class ImagePart:
    """An image in an observation."""

    name: str
    path: SpacePath
    shape: tuple[int, ...]
    """Height, width, channels."""
    space: Any
    channels_first: bool
    """Whether the environment puts the channels, or the frames of a stack, first."""

    def to_channels_last(self, values: np.ndarray) -> np.ndarray:
        """Return images `[N, ...]` as the network takes them, `[N, height, width, channels]`."""
        if self.channels_first:
            values = np.moveaxis(
                values, 1, -2 if values.ndim == 5 else -1
            )  # a stack of color images is [N, S, H, W, C]
        return values.reshape([len(values), *self.shape])


@dataclass(frozen=True)
class VectorPart:
    """Plain numbers in an observation."""

    path: SpacePath
    space: Any
    columns: slice
    """Their position in the vector."""
    write: RowWriter


class ObservationEncoder:
    """Turns observations into network inputs.

    Args:
        name: the environment's name, for messages.
        space: its observation space.
        words: whether texts are encoded by their words instead of being dropped.
        flatten: whether images are plain numbers, too.
    """

    def __init__(self, name: str, space: Any, *, words: bool = False, flatten: bool = False) -> None:
        self._name = name
        self.images: list[ImagePart] = []
        self.vectors: list[VectorPart] = []
        length = 0
        for path, leaf in _leaves(space):
            if is_text(leaf) and not words:
                continue
            if _is_image(leaf) and not flatten:
                self.images.append(_image_part(path, leaf))
            else:
                size, write = _vector_writer(name, leaf)
                self.vectors.append(VectorPart(path, leaf, slice(length, length + size), write))
                length += size
        names = [image.name for image in self.images]
        if len(set(names)) < len(names):
            raise TfsmError(f"the environment {name!r} has images whose names are too similar: {', '.join(names)}")
        if list_texts(space) and not self.images and not length:
            raise TfsmError(f"the environment {name!r} has only text as observations: use --set text=words")
        if not self.images and not length:
            raise TfsmError(f"the environment {name!r} has empty observations: its observation space is {space}")
        self.length = length
        """The length of the vector."""
        self.shift, self.scale = np.zeros([2, length], np.float32)
        self.scale += 1.0
        self.measured = np.zeros(length, bool)
        """Which numbers of the vector are normalized by statistics."""
        self.is_normalized = False
        """Whether the vector is to be normalized, by the network or by `normalize_vectors`."""

    @property
    def template(self) -> dict[str, np.ndarray]:
        """An empty observation, by input name."""
        images = {image.name: np.zeros(image.shape, np.uint8) for image in self.images}
        return images | ({VECTOR: np.zeros(self.length, np.float32)} if self.length else {})

    def normalize(self, shift: np.ndarray, scale: np.ndarray) -> None:
        """Set the normalization of the vector: `(vector - shift) * scale`."""
        self.shift, self.scale = shift.astype(np.float32), scale.astype(np.float32)
        self.is_normalized = True

    def normalize_vectors(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Normalize the vector among encoded observations."""
        if not self.is_normalized or not self.length:
            return arrays
        return [*arrays[:-1], (arrays[-1] - self.shift) * self.scale]

    def encode_vectors(self, observations: Sequence[Any]) -> np.ndarray:
        """Return the plain numbers of observations, `[N, length]`."""
        rows = np.zeros([len(observations), self.length], np.float32)
        for part in self.vectors:
            part.write(rows[:, part.columns], self._collect(observations, part.path, part.space))
        return rows

    def encode(self, observations: Sequence[Any]) -> list[np.ndarray]:
        """Return N observations as arrays `[N, ...]`, one per entry of `template`."""
        arrays = [image.to_channels_last(self._collect(observations, image.path, image.space)) for image in self.images]
        return [*arrays, self.encode_vectors(observations)] if self.length else arrays

    def _collect(self, observations: Sequence[Any], path: SpacePath, space: Any) -> np.ndarray:
        """Return one part of all observations; raise a `TfsmError` if its shape is not that of its space."""
        values = [_get(one, path) for one in observations] if path else observations
        if is_text(space):
            return np.array(values, dtype=object)
        try:
            collected = np.array(values)
        except ValueError:  # their shapes differ
            collected = None
        size = int(np.prod(space.shape))
        if collected is None or collected.dtype == object or collected.size != size * len(values):
            shape = next((np.shape(one) for one in values if np.size(one) != size), "none")
            part = f"{'/'.join(map(str, path))!r} " if path else ""
            raise TfsmError(
                f"the environment {self._name!r} returned an observation {part}of shape {shape}, expected {space.shape}"
            )
        return collected.reshape([len(values), *space.shape])


def _leaves(space: Any, path: SpacePath = ()) -> Iterator[tuple[SpacePath, Any]]:
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from _leaves(part, (*path, key))
    else:
        yield path, space


def list_texts(space: Any) -> list[str]:
    """Return the names of the texts in a space."""
    return ["/".join(map(str, path)) or "text" for path, leaf in _leaves(space) if is_text(leaf)]


def _get(observation: Any, path: SpacePath) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def _is_image(space: Any) -> bool:
    """Return whether a space has images, with or without channels, or stacks of color images."""
    is_box = isinstance(space, gymnasium().spaces.Box) and space.dtype == np.uint8
    return is_box and (len(space.shape) in (2, 3) or (len(space.shape) == 4 and space.shape[-1] in (1, 3)))


def _image_part(path: SpacePath, space: Any) -> ImagePart:
    name = re.sub(r"\W", "_", "_".join(map(str, path))) or "picture"
    name = f"{name}_" if name == VECTOR else name
    shape: tuple[int, ...] = space.shape
    if len(shape) == 2:
        return ImagePart(name, path, (*shape, 1), space, channels_first=False)
    if len(shape) == 4:
        return ImagePart(name, path, (*shape[1:3], shape[0] * shape[3]), space, channels_first=True)
    if shape[0] < min(shape[1:]):
        return ImagePart(name, path, (*shape[1:], shape[0]), space, channels_first=True)
    return ImagePart(name, path, shape, space, channels_first=False)


def _vector_writer(name: str, space: Any) -> tuple[int, RowWriter]:
    """Return how many numbers a value of this space takes, and a writer equivalent to `gymnasium.spaces.flatten`."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape)), _write_plain
    if is_text(space):
        return WORD_BINS, _write_words
    if isinstance(space, spaces.Discrete):
        return int(space.n), _one_hot_writer(np.zeros(1, int), np.array([space.start]))
    if isinstance(space, spaces.MultiDiscrete):
        counts = space.nvec.ravel()
        firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        return int(counts.sum()), _one_hot_writer(firsts, space.start.ravel())
    raise TfsmError(
        f"the environment {name!r} has observations of the space {type(space).__name__}; supported are {SUPPORTED}"
    )


def _write_plain(rows: np.ndarray, values: np.ndarray) -> None:
    rows[:] = values.reshape(rows.shape)


def _write_words(rows: np.ndarray, values: np.ndarray) -> None:
    for row, text in zip(rows, values, strict=True):
        for word in re.findall(r"\w+", str(text).lower()):
            row[zlib.crc32(word.encode()) % WORD_BINS] += 1.0  # the same in every process, unlike `hash`


def _one_hot_writer(firsts: np.ndarray, start: np.ndarray) -> RowWriter:
    shift = firsts - start

    def write(rows: np.ndarray, values: np.ndarray) -> None:
        rows[np.arange(len(rows))[:, None], values.reshape(len(rows), -1) + shift] = 1.0

    return write


MAX_FINITE_BOUND: Final = 1e15
"""Larger bounds count as infinite; some environments declare the largest float instead of infinity."""


def normalize_by_bounds(encoder: ObservationEncoder) -> None:
    """Scale numbers with two finite bounds to [-1, 1]."""
    low, high = (np.full(encoder.length, end) for end in (-np.inf, np.inf))
    for part in encoder.vectors:
        if isinstance(part.space, gymnasium().spaces.Box):
            low[part.columns], high[part.columns] = np.ravel(part.space.low), np.ravel(part.space.high)
    center, half = center_and_scale(low, high)
    encoder.normalize(center, 1.0 / half)


def center_and_scale(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the midpoint of bounds and half their distance; 0 and 1 where they are not finite.

    >>> center_and_scale(np.array([-2.0, 0.0]), np.array([6.0, np.inf]))
    (array([2., 0.]), array([4., 1.]))
    """
    bounded = is_bounded(low, high)
    low, high = (np.where(bounded, end, 0.0) for end in (low, high))
    return (low + high) / 2, np.where(bounded, (high - low) / 2, 1.0)


def is_bounded(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return which numbers have two finite, distinct bounds."""
    return (np.abs(low) < MAX_FINITE_BOUND) & (np.abs(high) < MAX_FINITE_BOUND) & (low < high)


def normalize_by_samples(encoder: ObservationEncoder, env: Any, count: int) -> None:
    """Standardize by the mean and deviation of observations under random actions, which are the same every time.

    Args:
        encoder: the encoder to normalize.
        env: an environment; it is left in the middle of an episode.
        count: number of observations.
    """
    samples: list[Any] = []
    env.action_space.seed(0)
    for episode in range(count):
        observation, _ = env.reset(seed=episode)
        samples.append(observation)
        over = False
        while not over and len(samples) < count:
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            samples.append(observation)
            over = terminated or truncated
        if len(samples) == count:
            break
    vectors = encoder.encode_vectors(samples).astype(np.float64)
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0)
    unchanged = np.ones(encoder.length, bool)
    for part in encoder.vectors:
        unchanged[part.columns] = not isinstance(part.space, gymnasium().spaces.Box)
    # The scale of a number that never changes is unknown.
    unchanged |= deviation < 1e-6
    encoder.measured = ~unchanged
    encoder.normalize(np.where(unchanged, 0.0, mean), np.where(unchanged, 1.0, 1.0 / np.maximum(deviation, 1e-6)))


RUNNING_RATE: Final = 0.1
"""The weight of what a parent saw in the statistics of its child."""
MIN_VARIANCE: Final = 1e-12


def update_statistics(statistics: np.ndarray, seen: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Return the scale and offset `[B, 2 * D]` of children.

    Args:
        statistics: those of their parents.
        seen: what the parents saw, `[B, ..., D]`.
        measured: which of the D numbers are normalized.
    """
    updated = np.empty_like(statistics)
    for row, (own, observed) in enumerate(zip(statistics, seen, strict=True)):
        updated[row] = _update_one(own.astype(np.float64), observed.astype(np.float64), measured)
    return updated


def _update_one(statistics: np.ndarray, seen: np.ndarray, measured: np.ndarray) -> np.ndarray:
    scale, offset = np.split(statistics, 2)
    seen = seen.reshape(-1, len(scale))
    with np.errstate(all="ignore"):  # broken individuals, and lanes that are not in use
        mean, variance = -offset / scale, scale**-2.0
        step = seen.mean(axis=0) - mean
        # Of a mixture of both.
        variance = (1 - RUNNING_RATE) * (variance + RUNNING_RATE * step**2) + RUNNING_RATE * seen.var(axis=0)
        mean = mean + RUNNING_RATE * step
        followed = measured & np.isfinite(mean) & np.isfinite(variance)
        new_scale = np.where(followed, 1.0 / np.sqrt(np.maximum(variance, MIN_VARIANCE)), scale)
        return np.concatenate([new_scale, np.where(followed, -mean * new_scale, offset)])


SUPPORTED_ACTIONS: Final = "Discrete, MultiDiscrete, MultiBinary and Box"


class ActionDecoder(NamedTuple):
    """Reads network outputs as actions."""

    outputs: int
    """K, the number of outputs."""
    activation: str | None
    """The activation of the default network's output layer."""
    decode: Callable[[np.ndarray], np.ndarray]
    """From finite outputs `[..., K]` to actions `[..., *shape]`."""


def build_action_decoder(name: str, space: Any) -> ActionDecoder:
    """Return the decoder of an action space; `name` is the environment's name, for messages."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        return ActionDecoder(int(space.n), None, lambda outputs: outputs.argmax(axis=-1) + int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete_decoder(space)
    if isinstance(space, spaces.MultiBinary):
        return ActionDecoder(int(np.prod(space.shape)), None, lambda outputs: _to_actions(outputs > 0, space))
    if isinstance(space, spaces.Box):
        return _box_decoder(space)
    raise TfsmError(
        f"the environment {name!r} has actions of the space {type(space).__name__}; supported are {SUPPORTED_ACTIONS}"
    )


def _multi_discrete_decoder(space: Any) -> ActionDecoder:
    ends = np.cumsum(space.nvec.ravel())

    def decode(outputs: np.ndarray) -> np.ndarray:
        parts = np.split(outputs, ends[:-1], axis=-1)
        chosen = np.stack([part.argmax(axis=-1) for part in parts], axis=-1) + space.start.ravel()
        return _to_actions(chosen, space)

    return ActionDecoder(int(ends[-1]), None, decode)


def _box_decoder(space: Any) -> ActionDecoder:
    low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
    bounded = is_bounded(low, high)
    center, half = center_and_scale(low, high)

    def decode(outputs: np.ndarray) -> np.ndarray:
        # Outputs from -1 to 1 cover bounded actions; unbounded actions are the outputs themselves.
        numbers = center + half * np.where(bounded, np.clip(outputs, -1.0, 1.0), outputs)
        numbers = np.clip(numbers, low, high)
        if np.issubdtype(space.dtype, np.integer):
            numbers = np.rint(numbers)
        return _to_actions(numbers, space)

    return ActionDecoder(len(low), "tanh" if bounded.all() else None, decode)


def _to_actions(actions: np.ndarray, space: Any) -> np.ndarray:
    return actions.astype(space.dtype).reshape([*actions.shape[:-1], *space.shape])
