"""What fitness is made of: a Keras loss or metric per example, with its direction, and targets that fit it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError, format_error, suggestion
from tfsm.interfaces import Tensor

Measure = Callable[[Tensor, Tensor], Tensor]
"""From targets `[M, ...]` and outputs `[M, ...]` to one number per example, or per place in an example: `[M, ...]`."""

CLASS_PROBABILITIES: Final = ("categorical_crossentropy", "categorical_focal_crossentropy")
"""What takes a distribution over classes, also with the prefix `sparse_`."""
PROBABILITIES: Final = ("binary_crossentropy", "binary_focal_crossentropy")
"""What takes numbers between 0 and 1."""
CLASS_MEASURES: Final = (*CLASS_PROBABILITIES, "categorical_accuracy", "top_k_categorical_accuracy")
ACCURACY: Final = ("accuracy", "acc")


@dataclass(frozen=True)
class Objective:
    """A loss or a metric per example."""

    name: str
    """`loss`, or the name of the metric."""
    measure: Measure
    higher_is_better: bool
    kind: str
    """The name of the Keras function, which says what targets it takes; empty for a function of the user."""

    @property
    def takes_labels(self) -> bool:
        """Whether targets are class labels."""
        return self.kind.startswith("sparse_")

    @property
    def takes_classes(self) -> bool:
        """Whether the outputs are scores of classes."""
        return self.kind.removeprefix("sparse_") in CLASS_MEASURES

    def fitness(self, value: Tensor) -> Tensor:
        """Return the fitness: higher is better."""
        return value if self.higher_is_better else -value

    def reaches(self, value: Tensor, target: float) -> Tensor:
        """Return whether a value is at least as good as the target; NaN is not."""
        return value >= target if self.higher_is_better else value <= target


def choose_loss(loss: str | Measure | None, y: np.ndarray, outputs: tuple[int, ...], *, logits: bool) -> Objective:
    """Return the objective of a loss.

    Args:
        loss: the name of a Keras loss, a function of targets and outputs, or None to choose by the data.
        y: the targets.
        outputs: the shape of the network's outputs, without the axis of the examples.
        logits: whether the network returns logits.
    """
    if loss is None:
        labels = y.dtype.kind in "iu" and _has_labels(y, outputs)
        loss = "sparse_categorical_crossentropy" if labels else "mean_squared_error"
    if not isinstance(loss, str):
        return Objective("loss", loss, higher_is_better=False, kind="")
    try:
        found = keras.losses.get(loss)
    except (TypeError, ValueError):
        found = None
    if found is None:
        raise TfsmError(f"loss={loss}: Keras has no such loss{suggestion(loss, _names(keras.losses))}")
    measure, name = _unwrap(found)
    if name.startswith("cosine_similarity"):  # as a loss it is negative
        name = ""
    return Objective("loss", _with_logits(measure, f"loss={loss}") if logits else measure, False, name)


def choose_metric(metric: str, y: np.ndarray, outputs: tuple[int, ...], *, logits: bool) -> Objective:
    """Return the objective of a metric; its direction is the one that Keras declares.

    Args:
        metric: the name of a Keras metric.
        y: the targets.
        outputs: the shape of the network's outputs, without the axis of the examples.
        logits: whether the network returns logits.
    """
    if metric in ACCURACY:
        return choose_accuracy(y, outputs, logits=logits)
    try:
        found = keras.metrics.get(metric)
    except (TypeError, ValueError) as error:
        if "missing" not in str(error):
            names = ("accuracy", *_names(keras.metrics))
            raise TfsmError(f"metric={metric}: Keras has no such metric{suggestion(metric, names)}") from None
        found = None
    direction, function = getattr(found, "_direction", None), getattr(found, "_fn", None)
    if function is None or direction not in ("up", "down"):
        raise TfsmError(
            f"metric={metric}: it has no value per example; use another metric, or write a fitness function: "
            "tfsm.evolve(fitness=...)"
        )
    measure: Measure = partial(function, **getattr(found, "_fn_kwargs", {}))
    if logits and "crossentropy" in function.__name__:
        measure = _with_logits(measure, f"metric={metric}")
    return Objective(function.__name__, measure, direction == "up", function.__name__)


def choose_accuracy(y: np.ndarray, outputs: tuple[int, ...], *, logits: bool) -> Objective:
    """Return the share of right answers: of labels, of classes, or of single numbers."""
    if outputs[-1:] == (1,) or not outputs:
        measure: Measure = partial(keras.metrics.binary_accuracy, threshold=0.0 if logits else 0.5)
        return Objective("accuracy", measure, True, "binary_accuracy")
    kind = "sparse_categorical_accuracy" if _has_labels(y, outputs) else "categorical_accuracy"
    return Objective("accuracy", getattr(keras.metrics, kind), True, kind)


def fit_targets(objective: Objective, y: np.ndarray, outputs: tuple[int, ...], name: str = "y") -> np.ndarray:
    """Return targets in the shape that the objective takes, and check them.

    Args:
        objective: the loss or metric.
        y: the targets `[N, ...]`.
        outputs: the shape of the network's outputs, without the axis of the examples.
        name: the targets' name in messages.
    """
    if not objective.kind:
        return y
    if objective.takes_labels:
        return _fit_labels(y, outputs, name)
    if y.shape[1:] != outputs:
        if (*y.shape[1:], 1) == outputs:
            y = y[..., None]
        elif (*outputs, 1) == y.shape[1:]:
            y = y[..., 0]
        else:
            use = f"; for class labels use sparse_{objective.kind}" if _has_labels(y, outputs) else ""
            raise TfsmError(
                f"{name} has shape {_shape(y.shape[1:])}, but {objective.kind} compares it with outputs of shape "
                f"{_shape(outputs)}{use}"
            )
    return y.astype(np.float32)


def check_outputs(objective: Objective, outputs: np.ndarray, *, logits: bool) -> None:
    """Raise an error if a loss takes probabilities and these outputs `[N, ...]` are none."""
    kind = objective.kind.removeprefix("sparse_")
    if logits or kind not in (*CLASS_PROBABILITIES, *PROBABILITIES) or not np.isfinite(outputs).all():
        return
    low, high = float(outputs.min()), float(outputs.max())
    total = outputs.sum(axis=-1)
    if low < -1e-3 or high > 1 + 1e-3 or (kind in CLASS_PROBABILITIES and np.abs(total - 1).max() > 1e-2):
        last = "softmax" if kind in CLASS_PROBABILITIES else "sigmoid"
        raise TfsmError(
            f"{objective.kind} takes probabilities, and the network's outputs are not: they range from {low:.3g} to "
            f"{high:.3g}; end it with a {last}, or set logits=yes"
        )


def check_measure(objective: Objective, y: np.ndarray, outputs: np.ndarray) -> None:
    """Raise an error unless the objective gives numbers for each of these examples."""
    name = objective.kind or getattr(objective.measure, "__name__", type(objective.measure).__name__)
    try:
        values = np.asarray(objective.measure(tf.constant(y), tf.constant(outputs)))
    except Exception as error:  # any exception: it may be the user's function
        raise TfsmError(
            f"{objective.name} {name} does not fit targets {_shape(y.shape[1:])} and outputs "
            f"{_shape(outputs.shape[1:])}: {format_error(error)}"
        ) from error
    if values.ndim == 0 or values.shape[0] != len(y) or values.dtype.kind not in "biuf":
        raise TfsmError(
            f"{objective.name} {name} returns {_shape(values.shape)} for {len(y)} examples, expected a number for each"
        )


def per_example(measure: Measure, y: Tensor, outputs: Tensor) -> Tensor:
    """Return a measure `[B, N]` of outputs `[B, N, ...]`, given targets `[B, N, ...]` or `[1, N, ...]`."""
    lanes, examples = outputs.shape[:2]
    y = tf.broadcast_to(y, [lanes, *y.shape[1:]])
    # Keras takes the first axis for that of the examples.
    flat = [tf.reshape(x, [lanes * examples, *x.shape[2:]]) for x in (y, outputs)]
    values = tf.reshape(tf.cast(measure(*flat), tf.float32), [lanes, examples, -1])
    return tf.reduce_mean(values, axis=-1)


def _fit_labels(y: np.ndarray, outputs: tuple[int, ...], name: str) -> np.ndarray:
    if y.shape[1:] == (*outputs[:-1], 1):
        y = y[..., 0]
    if y.shape[1:] != outputs[:-1]:
        raise TfsmError(
            f"{name} has shape {_shape(y.shape[1:])}, expected one class label for each of the network's outputs "
            f"{_shape(outputs)}"
        )
    labels = y.astype(np.int64)
    if (labels != y).any():
        raise TfsmError(f"{name} must be class labels 0, 1, ..., got {y[labels != y].flat[0]:g}")
    low, high, classes = int(labels.min()), int(labels.max()), outputs[-1]
    if low < 0 or high >= classes:
        raise TfsmError(
            f"{name} has the label {low if low < 0 else high}, but the network has {classes} outputs: expected 0 to "
            f"{classes - 1}"
        )
    return labels.astype(np.int32)


def _has_labels(y: np.ndarray, outputs: tuple[int, ...]) -> bool:
    """Return whether targets may be labels of classes: one number for each of several outputs."""
    return outputs[-1:] > (1,) and y.shape[1:] in (outputs[:-1], (*outputs[:-1], 1))


def _unwrap(found: Any) -> tuple[Measure, str]:
    """Return a loss as a function without reduction, and its name."""
    if isinstance(found, keras.losses.Loss):
        function = getattr(found, "fn", None)
        return found.call, getattr(function, "__name__", "")
    return found, found.__name__


def _with_logits(measure: Measure, what: str) -> Measure:
    wrapper = getattr(measure, "__self__", None)
    function: Any = getattr(wrapper, "fn", measure)
    if "from_logits" not in inspect.signature(function).parameters:
        raise TfsmError(f"{what} takes no logits: leave logits out")
    return partial(function, **{**getattr(wrapper, "_fn_kwargs", {}), "from_logits": True})


def _names(module: Any) -> Iterable[str]:
    return [name for name in dir(module) if name[0] != "_" and name not in ("get", "serialize", "deserialize")]


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
