"""Flatten/unflatten, layout, which weights belong to which layer."""

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
    """Where one trainable variable lies in the genome."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def size(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """How a genome `[P]` is cut into a model's `trainable_variables`, in order, each flattened row by row."""

    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, model: keras.Model) -> Layout:
        """Return the layout of a built model that has something to mutate."""
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
        """The genome's type: float32, or float64 where a variable is."""
        return tf.float64 if any(slot.dtype == "float64" for slot in self.slots) else tf.float32

    def split(self, genomes: Tensor) -> list[Tensor]:
        """Cut genomes `[..., P]` into the variables' values `[..., *shape]`."""
        parts = tf.split(genomes, [slot.size for slot in self.slots], axis=-1)
        lead = [-1 if d is None else d for d in genomes.shape[:-1]]
        return [tf.cast(tf.reshape(p, [*lead, *s.shape]), s.dtype) for p, s in zip(parts, self.slots, strict=True)]


def check_model(model: Any) -> None:
    """Refuse what is not a built Keras model with trainable variables."""
    if keras.backend.backend() != "tensorflow":
        raise TfsmError(f"Keras runs on {keras.backend.backend()}: tfsm needs its TensorFlow backend")
    if not isinstance(model, keras.Model):
        raise TfsmError(f"expected a Keras model, got {type(model).__name__}")
    # A Sequential without an input shape, or a subclass never called, has no variables to speak of yet.
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
    """Refuse layers of whole numbers of which only the biases could change; adapters beside them are fine."""
    for layer in model._flatten_layers():
        mode = getattr(layer, "quantization_mode", None)
        if mode in (None, "float8") or not layer.trainable or getattr(layer, "lora_enabled", False):
            continue
        raise TfsmError(
            f"the layer {layer.name!r} is quantized to {mode}: between whole numbers there are no small steps and no "
            "gradients. Mutate the model first and quantize the child, or set layer.trainable = False and mutate the "
            "other layers"
        )


def flatten(model: keras.Model) -> np.ndarray:
    """Return the model's trainable weights as one vector `[P]`."""
    layout = Layout.of(model)
    values = [np.asarray(variable.numpy(), dtype=np.float64).ravel() for variable in model.trainable_variables]
    return np.concatenate(values).astype(layout.dtype.as_numpy_dtype)


def unflatten(model: keras.Model, genome: np.ndarray) -> keras.Model:
    """Return a new model like this one, with the genome `[P]` as its trainable weights."""
    layout = Layout.of(model)
    vector = np.asarray(genome)
    if vector.shape != (layout.size,):
        raise TfsmError(
            f"a genome of {model.name!r} is a vector of {layout.size:,} numbers, got an array of shape {vector.shape}"
        )
    child = copy_model(model)
    for variable, slot in zip(child.trainable_variables, layout.slots, strict=True):
        variable.assign(vector[slot.offset : slot.offset + slot.size].reshape(slot.shape))
    return child


def copy_model(model: keras.Model) -> keras.Model:
    """Return a model like this one that shares nothing with it."""
    # Keras draws default seeds from Python's own generator, which is not ours to turn.
    state = random.getstate()
    try:
        twin = keras.models.clone_model(model) if _is_plain(model) else _deep_copy(model)
    finally:
        random.setstate(state)
    # Cloning builds from configurations, and neither a variable's value nor its `trainable` switch is part of one.
    for mine, theirs in zip(twin.variables, model.variables, strict=True):
        mine.assign(theirs)
        mine.trainable = theirs.trainable
    return twin


def _is_plain(model: keras.Model) -> bool:
    # Cloning makes layers from configurations in the safe mode, which has no code: a Lambda layer cannot be cloned.
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
            f"which Keras can make it again ({reason})"
        ) from error


@dataclass(frozen=True)
class Section:
    """The trainable weights of one layer."""

    name: str
    """The layer's, as Keras has it; with the models around it where two layers have the same."""
    places: tuple[tuple[int, int], ...]
    """Where they lie in the genome: from the first number up to the second, which is not among them."""
    path: str = ""
    """The layer's name with those of the models around it, and slashes between."""

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(stop - start for start, stop in self.places)

    def of(self, genomes: np.ndarray) -> np.ndarray:
        """Cut the layer's weights `[..., size]` out of genomes `[..., P]`, or of anything else with a number a weight.

        >>> Section("dense", ((0, 2), (3, 4))).of(np.array([5, 6, 7, 8]))
        array([5, 6, 8])
        """
        return np.concatenate([genomes[..., start:stop] for start, stop in self.places], axis=-1)


def find_sections(model: keras.Model) -> tuple[Section, ...]:
    """Return the layers that have trainable weights, in the order of the genome.

    A layer of a model within the model, wrapped or not, counts by itself; one within another layer (a cell, a wrapped
    layer) is part of that. Weights that the model holds itself go by the model's name.
    """
    paths: list[tuple[str, ...]] = [(model.name,)]
    owners: dict[int, int] = {}
    for path, layer in _layers(model, ()):
        paths.append(path)
        for variable in layer.trainable_variables:
            owners.setdefault(id(variable), len(paths) - 1)
    places: dict[int, list[tuple[int, int]]] = {}
    for variable, slot in zip(model.trainable_variables, Layout.of(model).slots, strict=True):
        found = places.setdefault(owners.get(id(variable), 0), [])
        start, stop = slot.offset, slot.offset + slot.size
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, stop))
    owned = [paths[index] for index in places]
    return tuple(
        Section(name, tuple(found), "/".join(path))
        for name, path, found in zip(_names(owned), owned, places.values(), strict=True)
    )


def _layers(model: keras.Model, around: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], keras.layers.Layer]]:
    for layer in model.layers:
        path = (*around, layer.name)
        inner = layer.layer if isinstance(layer, keras.layers.Wrapper) else layer
        if isinstance(inner, keras.Model):
            yield from _layers(inner, path)
        yield path, layer


def _names(paths: list[tuple[str, ...]]) -> Iterator[str]:
    short, whole = Counter(path[-1] for path in paths), Counter[tuple[str, ...]]()
    for path in paths:
        name = path[-1] if short[path[-1]] == 1 else "/".join(path)
        whole[path] += 1
        # Keras lets a subclassed model have two layers of one name.
        yield name if whole[path] == 1 else f"{name}:{whole[path]}"
