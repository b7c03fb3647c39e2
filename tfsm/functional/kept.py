"""What is kept of a model from one call to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import keras

from tfsm.functional.lanes import Lanes
from tfsm.models.genome import check_model
from tfsm.models.network import Network

PLACE: Final = "_tfsm_lanes"


@dataclass(frozen=True)
class Kept:
    """Compiled functions, and the variables that they were compiled for."""

    variables: tuple[Any, ...]
    lanes: Lanes


def lanes_of(model: keras.Model) -> Lanes:
    """Return what was compiled for a model, or make it anew if other variables are trainable than were."""
    check_model(model)
    variables = tuple(model.trainable_variables)
    # With the model itself, past Keras' own bookkeeping: what is compiled refers to the model, so that any table of
    # ours, weak or not, would keep both for ever. This way they are collected together.
    kept = vars(model).get(PLACE)
    if kept is None or list(map(id, kept.variables)) != list(map(id, variables)):
        kept = Kept(variables, Lanes(Network(model)))
        vars(model)[PLACE] = kept
    return kept.lanes
