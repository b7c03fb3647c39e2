"""Divergence, sensitivities, guards and children, from the paper's formulas and the Jacobian by central differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Rows = Callable[[np.ndarray, Any], np.ndarray]


def jacobian(
    rows: Rows, genome: np.ndarray, inputs: Any, step: float = 1e-5, weights: Iterable[int] | None = None
) -> np.ndarray:
    """Return the output gradients g_ik `[I, K, P]`, or those by some weights only."""
    genome = np.asarray(genome, np.float64)
    columns = []
    for p in range(len(genome)) if weights is None else weights:
        columns.append(along(rows, genome, inputs, np.eye(1, len(genome), p)[0], step))
    return np.stack(columns, axis=-1)


def along(rows: Rows, genome: np.ndarray, inputs: Any, direction: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Return the outputs' derivatives along a direction, g_ik . v `[I, K]`."""
    nudge = step * direction
    return (rows(genome + nudge, inputs) - rows(genome - nudge, inputs)) / (2 * step)


def divergence(before: np.ndarray, after: np.ndarray) -> float:
    """D = 1/I sum_i sum_k (y_ik - y'_ik)^2, for rows `[I, K]`."""
    total = 0.0
    for mine, theirs in zip(before, after, strict=True):
        total += sum((a - b) ** 2 for a, b in zip(mine, theirs, strict=True))
    return total / len(before)


def sum_sensitivity(gradients: np.ndarray) -> np.ndarray:
    """s = sqrt(sum_k (sum_i g_ik)^2)."""
    return np.sqrt((gradients.sum(axis=0) ** 2).sum(axis=0))


def abs_sensitivity(gradients: np.ndarray) -> np.ndarray:
    """s = sqrt(sum_k (mean_i |g_ik|)^2)."""
    return np.sqrt((np.abs(gradients).mean(axis=0) ** 2).sum(axis=0))


def rms_sensitivity(gradients: np.ndarray) -> np.ndarray:
    """s = sqrt(mean_i sum_k g_ik^2)."""
    total = np.zeros(gradients.shape[-1])
    for of_experience in gradients:
        for gradient in of_experience:
            total += gradient * gradient
    return np.sqrt(total / len(gradients))


def hessian_product(gradients: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """H v = 2/I sum_i sum_k g_ik (g_ik . v)."""
    total = np.zeros(gradients.shape[-1])
    for of_experience in gradients:
        for gradient in of_experience:
            total += gradient * (gradient @ direction)
    return 2 * total / len(gradients)


def so_sensitivity(gradients: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """s = sqrt(|H v|)."""
    return np.sqrt(np.abs(hessian_product(gradients, direction)))


def guarded(sensitivity: np.ndarray, zero: float = 1.0, floor: float = 0.01) -> np.ndarray:
    """Replace zeros by `zero`, then raise values below `floor` to `floor`."""
    result = []
    for s in sensitivity:
        s = zero if s == 0 else s
        result.append(floor if s < floor else s)
    return np.array(result)


def child(
    genome: np.ndarray, noise: np.ndarray, sensitivity: np.ndarray, max_change: float | None = None
) -> np.ndarray:
    """w + noise / s, no weight of which changes by more than `max_change`."""
    change = noise / guarded(sensitivity)
    if max_change is not None:
        change = np.sign(change) * np.minimum(np.abs(change), max_change)
    return genome + change
