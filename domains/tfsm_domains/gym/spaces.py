"""Convert between Gymnasium spaces and arrays: observations to network inputs, network outputs to actions."""

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
"""Name of the input for plain numbers, if there are images as well."""
SUPPORTED: Final = "Box, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of these"

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
    channels_first: bool
    """Whether the environment puts the channels first."""

    def to_channels_last(self, value: np.ndarray) -> np.ndarray:
        """Return an image as the network takes it."""
        return np.moveaxis(value, 0, -1) if self.channels_first else value.reshape(self.shape)


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
    """

    def __init__(self, name: str, space: Any) -> None:
        self.images: list[ImagePart] = []
        self.vectors: list[VectorPart] = []
        length = 0
        for path, leaf in _leaves(space):
            if _is_image(leaf):
                self.images.append(_image_part(path, leaf))
            else:
                size, write = _vector_writer(name, leaf)
                self.vectors.append(VectorPart(path, leaf, slice(length, length + size), write))
                length += size
        names = [image.name for image in self.images]
        if len(set(names)) < len(names):
            raise TfsmError(f"the environment {name!r} has images whose names are too similar: {', '.join(names)}")
        if not self.images and not length:
            raise TfsmError(f"the environment {name!r} has empty observations: its observation space is {space}")
        self.length = length
        """The length of the vector."""
        self.shift, self.scale = np.zeros([2, length], np.float32)
        self.scale += 1.0
        self._normalized = False

    @property
    def template(self) -> dict[str, np.ndarray]:
        """An empty observation, by input name."""
        images = {image.name: np.zeros(image.shape, np.uint8) for image in self.images}
        return images | ({VECTOR: np.zeros(self.length, np.float32)} if self.length else {})

    def normalize(self, shift: np.ndarray, scale: np.ndarray) -> None:
        """Set the normalization of the vector to `(vector - shift) * scale`."""
        self.shift, self.scale = shift.astype(np.float32), scale.astype(np.float32)
        self._normalized = True

    def encode_vectors(self, observations: Sequence[Any]) -> np.ndarray:
        """Return the plain numbers of observations, `[N, length]`."""
        rows = np.zeros([len(observations), self.length], np.float32)
        for part in self.vectors:
            part.write(rows[:, part.columns], np.array([_get(one, part.path) for one in observations]))
        return (rows - self.shift) * self.scale if self._normalized else rows

    def encode_into(self, observations: Sequence[Any], arrays: Sequence[np.ndarray], indices: np.ndarray) -> None:
        """Write N observations into arrays `[L, ...]`, one per entry of `template`, at N indices."""
        for image, array in zip(self.images, arrays, strict=False):
            for index, one in zip(indices, observations, strict=True):
                array[index] = image.to_channels_last(np.asarray(_get(one, image.path)))
        if self.length:
            arrays[-1][indices] = self.encode_vectors(observations)


def _leaves(space: Any, path: SpacePath = ()) -> Iterator[tuple[SpacePath, Any]]:
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from _leaves(part, (*path, key))
    else:
        yield path, space


def _get(observation: Any, path: SpacePath) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def _is_image(space: Any) -> bool:
    return isinstance(space, gymnasium().spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


def _image_part(path: SpacePath, space: Any) -> ImagePart:
    name = re.sub(r"\W", "_", "_".join(map(str, path))) or "picture"
    name = f"{name}_" if name == VECTOR else name
    shape: tuple[int, ...] = space.shape
    if len(shape) == 2:
        return ImagePart(name, path, (*shape, 1), channels_first=False)
    if shape[0] < min(shape[1:]):
        return ImagePart(name, path, (*shape[1:], shape[0]), channels_first=True)
    return ImagePart(name, path, shape, channels_first=False)


def _vector_writer(name: str, space: Any) -> tuple[int, RowWriter]:
    """Return how many numbers a value of this space takes, and a writer equivalent to `gymnasium.spaces.flatten`."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape)), _write_plain
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


def _one_hot_writer(firsts: np.ndarray, start: np.ndarray) -> RowWriter:
    shift = firsts - start

    def write(rows: np.ndarray, values: np.ndarray) -> None:
        rows[np.arange(len(rows))[:, None], values.reshape(len(rows), -1) + shift] = 1.0

    return write


MAX_FINITE_BOUND: Final = 1e15
"""Larger bounds count as infinite; some environments declare the largest float instead of infinity."""
SAMPLES: Final = 2_000
"""Observations used for the mean and the deviation."""


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


def normalize_by_samples(encoder: ObservationEncoder, env: Any) -> None:
    """Standardize by the mean and deviation of observations under random actions, which are the same every time.

    Args:
        encoder: the encoder to normalize.
        env: an environment; it is left in the middle of an episode.
    """
    samples: list[Any] = []
    env.action_space.seed(0)
    for episode in range(SAMPLES):
        observation, _ = env.reset(seed=episode)
        samples.append(observation)
        over = False
        while not over and len(samples) < SAMPLES:
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            samples.append(observation)
            over = terminated or truncated
        if len(samples) == SAMPLES:
            break
    vectors = encoder.encode_vectors(samples).astype(np.float64)
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0)
    unchanged = np.ones(encoder.length, bool)
    for part in encoder.vectors:
        unchanged[part.columns] = not isinstance(part.space, gymnasium().spaces.Box)
    # The scale of a number that never changes is unknown.
    unchanged |= deviation < 1e-6
    encoder.normalize(np.where(unchanged, 0.0, mean), np.where(unchanged, 1.0, 1.0 / np.maximum(deviation, 1e-6)))


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


def to_inputs(experience: Nest) -> Nest:
    """Return network inputs: images are stored as uint8 and scaled to [0, 1]."""
    return tf.nest.map_structure(_to_float, experience)


def _to_float(x: Tensor) -> Tensor:
    return tf.cast(x, tf.float32) / 255.0 if x.dtype == tf.uint8 else x


def match_inputs(model: keras.Model, names: Sequence[str], env: str) -> list[int]:
    """Return the index into `names` for each of the model's inputs; several inputs are matched by name."""
    if len(names) == 1:
        return [0]
    if not getattr(model, "inputs", None):
        raise TfsmError(f"{env!r} has the inputs {', '.join(names)}, but a subclassed model does not name its inputs")
    inputs = sorted(model.input) if isinstance(model.input, dict) else [tensor.name for tensor in model.inputs]
    if sorted(inputs) != sorted(names):
        raise TfsmError(f"the model's inputs are {', '.join(inputs)}, but those of {env!r} are {', '.join(names)}")
    return [list(names).index(name) for name in inputs]
