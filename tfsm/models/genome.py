"""The genome of a model: its layout, flatten and unflatten, and the sections that belong to layers."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Tensor


@dataclass(frozen=True)
class Slot:
    """The place of one trainable variable in the genome."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def size(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)

    @property
    def place(self) -> slice:
        """The indices of its weights in the genome."""
        return slice(self.offset, self.offset + self.size)


@dataclass(frozen=True)
class Layout:
    """How a genome `[P]` is split into a model's `trainable_variables`, in order, each flattened in row-major order."""

    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, model: keras.Model) -> Layout:
        """Return the layout of a built model with trainable variables."""
        check_model(model)
        slots, offset = [], 0
        for variable in model.trainable_variables:
            slot = Slot(variable.path, tuple(variable.shape), keras.backend.standardize_dtype(variable.dtype), offset)
            slots.append(slot)
            offset += slot.size
        return cls(tuple(slots))

    @property
    def size(self) -> int:
        """P, the number of weights."""
        return sum(slot.size for slot in self.slots)

    @property
    def dtype(self) -> tf.DType:
        """The genome's type: float32, or float64 if any variable is."""
        return tf.float64 if any(slot.dtype == "float64" for slot in self.slots) else tf.float32

    def split(self, genomes: Tensor) -> list[Tensor]:
        """Split genomes `[..., P]` into the variables' values `[..., *shape]`."""
        parts = tf.split(genomes, [slot.size for slot in self.slots], axis=-1)
        lead = [-1 if d is None else d for d in genomes.shape[:-1]]
        return [tf.cast(tf.reshape(p, [*lead, *s.shape]), s.dtype) for p, s in zip(parts, self.slots, strict=True)]


def check_model(model: Any) -> None:
    """Raise an error unless this is a built Keras model with trainable variables."""
    if keras.backend.backend() != "tensorflow":
        raise TfsmError(f"Keras runs on {keras.backend.backend()}: tfsm needs its TensorFlow backend")
    if not isinstance(model, keras.Model):
        raise TfsmError(f"expected a Keras model, got {type(model).__name__}")
    # A Sequential without an input shape, or a subclass that was never called, has no variables yet.
    if not model.built:
        raise TfsmError(
            f"the model {model.name!r} is not built: give it an input shape, call model.build(...), or call it once"
        )
    _check_not_quantized(model)
    if not model.trainable_variables:
        raise TfsmError(
            f"the model {model.name!r} has no trainable variables, so there is nothing to mutate: "
            "set layer.trainable = True where it should change"
        )


def _check_not_quantized(model: keras.Model) -> None:
    """Raise an error for quantized layers, of which only the biases could change; LoRA adapters are fine."""
    for layer in model._flatten_layers():
        mode = getattr(layer, "quantization_mode", None)
        if mode in (None, "float8") or not layer.trainable or getattr(layer, "lora_enabled", False):
            continue
        raise TfsmError(
            f"the layer {layer.name!r} is quantized to {mode}: integers have no small steps and no "
            "gradients. Mutate the model first and quantize the child, or set layer.trainable = False and mutate the "
            "other layers"
        )


def flatten(model: keras.Model) -> np.ndarray:
    """Return the model's trainable weights as one vector `[P]`, the genome.

    Args:
        model: a built Keras model.

    >>> import keras, tfsm
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> tfsm.flatten(model).shape
    (8,)
    """
    layout = Layout.of(model)
    values = [np.asarray(variable.numpy(), dtype=np.float64).ravel() for variable in model.trainable_variables]
    return np.concatenate(values).astype(layout.dtype.as_numpy_dtype)


def unflatten(model: keras.Model, genome: np.ndarray) -> keras.Model:
    """Return a copy of the model with the genome `[P]` as its trainable weights.

    Args:
        model: a built Keras model, which is not changed.
        genome: `[P]`, in the order of `flatten`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> twin = tfsm.unflatten(model, np.array([2.0, 1.0]))  # y = 2 x + 1
    >>> float(twin(np.array([[3.0]]))[0, 0])
    7.0
    """
    layout = Layout.of(model)
    vector = np.asarray(genome)
    if vector.shape != (layout.size,):
        raise TfsmError(
            f"a genome of {model.name!r} is a vector of {layout.size:,} numbers, got an array of shape {vector.shape}"
        )
    child = copy_model(model)
    for variable, slot in zip(child.trainable_variables, layout.slots, strict=True):
        variable.assign(vector[slot.place].reshape(slot.shape))
    return child


def copy_model(model: keras.Model) -> keras.Model:
    """Return a copy of a model that shares nothing with it."""
    # Keras draws default seeds from Python's global generator; restore the state of the user's program.
    state = random.getstate()
    try:
        clone = keras.models.clone_model(model) if _is_plain(model) else _deep_copy(model)
    finally:
        random.setstate(state)
    # Cloning builds from configurations, which contain neither a variable's value nor its `trainable` switch.
    for variable, original in zip(clone.variables, model.variables, strict=True):
        variable.assign(original)
        variable.trainable = original.trainable
    return clone


def _is_plain(model: keras.Model) -> bool:
    # Cloning builds layers from configurations in safe mode, which does not allow code such as a Lambda layer.
    if any(isinstance(layer, keras.layers.Lambda) for layer in model._flatten_layers()):
        return False
    return type(model) is keras.Sequential or type(model).__name__ == "Functional"


def _deep_copy(model: keras.Model) -> keras.Model:
    classes = {type(layer).__name__: type(layer) for layer in model._flatten_layers()}
    try:
        with keras.saving.custom_object_scope(classes):
            return copy.deepcopy(model)
    except Exception as error:
        reason = shorten(str(error), 200, placeholder=" ...")
        raise TfsmError(
            f"the model {model.name!r} cannot be copied: give its class {type(model).__name__} a get_config() from "
            f"which Keras can rebuild it ({reason})"
        ) from error


@dataclass(frozen=True)
class Section:
    """The trainable weights of one layer in the genome."""

    name: str
    """The layer's name in Keras, with the names of the models around it if two layers share a name."""
    ranges: tuple[tuple[int, int], ...]
    """Half-open index ranges in the genome."""
    path: str = ""
    """The layer's name after those of the models around it, separated by slashes."""

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(stop - start for start, stop in self.ranges)

    def of(self, genomes: np.ndarray) -> np.ndarray:
        """Return the layer's weights `[..., size]` from genomes `[..., P]`, or from other numbers per weight.

        >>> Section("dense", ((0, 2), (3, 4))).of(np.array([5, 6, 7, 8]))
        array([5, 6, 8])
        """
        return np.concatenate([genomes[..., start:stop] for start, stop in self.ranges], axis=-1)


def find_sections(model: keras.Model) -> tuple[Section, ...]:
    """Return the layers with trainable weights, in the order of the genome.

    A layer of a nested model, wrapped or not, is a section of its own. A layer inside another layer (a cell, a wrapped
    layer) is part of that one. Weights of the model itself go by the model's name.
    """
    paths: list[tuple[str, ...]] = [(model.name,)]
    owners: dict[int, int] = {}
    for path, layer in _iterate_layers(model, ()):
        paths.append(path)
        for variable in layer.trainable_variables:
            owners.setdefault(id(variable), len(paths) - 1)
    ranges: dict[int, list[tuple[int, int]]] = {}
    for variable, slot in zip(model.trainable_variables, Layout.of(model).slots, strict=True):
        own = ranges.setdefault(owners.get(id(variable), 0), [])
        start, stop = slot.offset, slot.offset + slot.size
        if own and own[-1][1] == start:
            start = own.pop()[0]
        own.append((start, stop))
    owned = [paths[index] for index in ranges]
    return tuple(
        Section(name, tuple(own), "/".join(path))
        for name, path, own in zip(_unique_names(owned), owned, ranges.values(), strict=True)
    )


def _iterate_layers(
    model: keras.Model, around: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], keras.layers.Layer]]:
    for layer in model.layers:
        path = (*around, layer.name)
        inner = layer.layer if isinstance(layer, keras.layers.Wrapper) else layer
        if isinstance(inner, keras.Model):
            yield from _iterate_layers(inner, path)
        yield path, layer


def _unique_names(paths: list[tuple[str, ...]]) -> Iterator[str]:
    names, seen = Counter(path[-1] for path in paths), Counter[tuple[str, ...]]()
    for path in paths:
        name = path[-1] if names[path[-1]] == 1 else "/".join(path)
        seen[path] += 1
        # Keras allows two layers of one name in a subclassed model.
        yield name if seen[path] == 1 else f"{name}:{seen[path]}"
