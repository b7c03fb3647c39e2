"""How large a model is that a configuration describes, found out without the memory for it."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import keras
import tensorflow as tf

from tfsm.models.untrusted.limits import MOST_BYTES
from tfsm.models.untrusted.refusal import RefusedError


def check_size(config: dict[str, Any]) -> None:
    """Refuse a configuration that makes more weights than memory should hold.

    Args:
        config: one that `check_config` has found harmless, for parts of it are run here.
    """
    total = variables_of(config)
    if total > MOST_BYTES:
        raise RefusedError(
            f"a model of {total:,} bytes of weights", f"above {MOST_BYTES:,} making it could take all memory"
        )


def variables_of(config: dict[str, Any]) -> int:
    """Return how many bytes the variables of a model take."""
    # Keras draws default seeds from Python's own generator, which is not ours to turn.
    state = random.getstate()
    try:
        # Within a graph that is never run, variables have shapes and no values.
        with tf.Graph().as_default():
            model = keras.saving.deserialize_keras_object(copy.deepcopy(config), safe_mode=True)
            variables = getattr(model, "variables", ())
            return sum(
                math.prod(v.shape) * tf.as_dtype(keras.backend.standardize_dtype(v.dtype)).size for v in variables
            )
    finally:
        random.setstate(state)
