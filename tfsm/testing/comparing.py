"""Comparing what parts returned, leaf by leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.contracts import Nest

TOLERANCE = 1e-4


def differences(mine: Nest, theirs: Nest, *, exact: bool = False) -> list[str]:
    """Say where two nests of tensors differ; unless told to be exact, by more than rounding can explain."""
    try:
        tf.nest.assert_same_structure(mine, theirs)
    except (TypeError, ValueError):
        return [f"{type(mine).__name__} and {type(theirs).__name__} are not made of the same tensors"]
    found = [_difference(np.asarray(a), np.asarray(b), exact) for a, b in _pairs(mine, theirs)]
    return [said for said in found if said]


def _pairs(mine: Nest, theirs: Nest) -> Any:
    return zip(tf.nest.flatten(mine), tf.nest.flatten(theirs), strict=True)


def _difference(a: np.ndarray, b: np.ndarray, exact: bool) -> str:
    if a.shape != b.shape:
        return f"a tensor of shape {a.shape} instead of {b.shape}"
    if a.dtype.kind not in "fc":
        return "" if (a == b).all() else f"{(a != b).sum()} of {a.size} values differ"
    same = np.array_equal(a, b, equal_nan=True) if exact else np.allclose(a, b, TOLERANCE, TOLERANCE / 10, True)
    with np.errstate(invalid="ignore"):
        return "" if same else f"values differ by up to {np.nanmax(np.abs(a - b), initial=0.0):.3g}"
