"""A model of which only some layers are mutated, or some more than others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np

from tfsm.models.genome import copied
from tfsm.models.network import Network
from tfsm.models.patterns import HEAD, parse_patterns, shares_by_layer
from tfsm.models.sections import Section, sections


def network_of(model: keras.Model, layers: str | Iterable[str] = ()) -> Network:
    """Return a network whose genome is made of some layers' weights.

    Args:
        model: a built Keras model, which is not changed.
        layers: patterns for layers' names, each with its share of the intensity; all layers alike if there are none.
    """
    patterns = parse_patterns(layers)
    if not patterns:
        return Network(model)
    found = sections(model)
    heads = _heads(model, found) if any(pattern.name == HEAD for pattern in patterns) else ()
    shares = shares_by_layer(patterns, {section.name: section.path for section in found}, heads)
    of_weights = np.zeros(sum(section.size for section in found), np.float32)
    for section, share in zip(found, shares, strict=True):
        for start, stop in section.places:
            of_weights[start:stop] = share
    twin, offset, kept = copied(model), 0, []
    for variable in twin.trainable_variables:
        own = of_weights[offset : offset + int(np.prod(variable.shape))]
        offset += own.size
        if own.any():
            kept.append(own)
        else:
            variable.trainable = False
    chosen = np.concatenate(kept)
    return Network(twin, origin=model, shares=None if (chosen == 1.0).all() else chosen)


def _heads(model: keras.Model, found: tuple[Section, ...]) -> set[str]:
    """Return the names of the layers after which no other weights come."""
    variables = {id(variable): variable for layer in _last_layers(model) for variable in layer.trainable_variables}
    if not variables:  # a subclassed model does not say what follows what
        return {found[-1].name}
    names, offset = set(), 0
    for variable in model.trainable_variables:
        if id(variable) in variables:
            names |= {s.name for s in found if any(start <= offset < stop for start, stop in s.places)}
        offset += int(np.prod(variable.shape))
    return names


def _last_layers(model: Any) -> Iterator[Any]:
    if isinstance(model, keras.Sequential):
        with_weights = [layer for layer in model.layers if layer.trainable_variables]
        for layer in with_weights[-1:]:
            yield from _last_layers(layer) if isinstance(layer, keras.Model) else [layer]
        return
    waiting = list(keras.tree.flatten(getattr(model, "outputs", None) or ()))
    seen: set[int] = set()
    while waiting:
        history = waiting.pop()._keras_history
        node = history.operation._inbound_nodes[history.node_index]
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not getattr(history.operation, "trainable_variables", None):
            waiting += node.input_tensors
        elif isinstance(history.operation, keras.Model):
            yield from _last_layers(history.operation)
        else:
            yield history.operation
