"""Which weights of the genome belong to which layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np

from tfsm.models.genome import Layout


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


def sections(model: keras.Model) -> tuple[Section, ...]:
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
