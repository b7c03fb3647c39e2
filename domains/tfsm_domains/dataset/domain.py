"""Data as a compiled domain: fitness is a Keras loss or metric on arrays."""

from __future__ import annotations

import math
import os
import random
import shutil
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.kernels.random import uniform
from tfsm.models.inputs import prepare_arrays
from tfsm.models.network import Network
from tfsm.plugins.options import OBJECT
from tfsm.render.canvas import AnswersFilm, pick_rows
from tfsm_domains.dataset import DatasetOptions
from tfsm_domains.dataset.arrays import Arrays, Examples, Inputs, read_data
from tfsm_domains.dataset.objective import (
    Measure,
    Objective,
    check_measure,
    check_outputs,
    choose_accuracy,
    choose_loss,
    choose_metric,
    fit_targets,
    per_example,
)

TRIED: Final = 32
"""Examples on which a model is tried before a run."""
MAX_PIXELS: Final = 28
"""The longer side of an example in a film."""
ACTIVATIONS: Final = 2**24
"""Numbers that the largest layer of one network may return at a time; more examples are taken in chunks."""


class FittedExamples:
    """Examples in the shapes and types that a model and an objective take.

    Args:
        x: one array `[N, ...]` per input of the model.
        y: `[N, ...]`.
    """

    def __init__(self, x: list[np.ndarray], y: np.ndarray) -> None:
        with tf.init_scope():  # captured by compiled functions, and not copied into each of them
            self.x = [tf.constant(part) for part in x]  # [N, ...]
            self.y = tf.constant(y)  # [N, ...]

    def __len__(self) -> int:
        return int(self.y.shape[0])

    def inputs(self, index: Tensor) -> Nest:
        """Return the inputs of examples `[B, I]`."""
        parts = [tf.gather(part, index) for part in self.x]
        return parts[0] if len(parts) == 1 else parts


class Problem:
    """Data and objectives, fitted to a model; an error if they do not fit.

    Args:
        domain: the options and the data.
        model: a built model.
    """

    def __init__(self, domain: Dataset, model: keras.Model) -> None:
        training, validation = domain.examples.training, domain.examples.validation
        x = prepare_arrays(model, training.x, "x")
        outputs = _try_model(model, x)
        shape = outputs.shape[1:]
        logits = domain.logits
        if domain.metric is None:
            objective = choose_loss(domain.loss_function or domain.loss, training.y, shape, logits=logits)
        else:
            objective = choose_metric(domain.metric, training.y, shape, logits=logits)
        self.objectives = [objective]
        """What is measured; the first one is the fitness."""
        if (objective.takes_classes or "binary_crossentropy" in objective.kind) and "accuracy" not in objective.kind:
            self.objectives.append(choose_accuracy(training.y, shape, logits=logits))
        y = fit_targets(objective, training.y, shape)
        check_measure(objective, y[: len(outputs)], outputs)
        check_outputs(objective, outputs, logits=logits)
        self.training = FittedExamples(x, y)
        self.validation: FittedExamples | None = None
        if validation is not None:
            x = prepare_arrays(model, validation.x, "x_validation")
            self.validation = FittedExamples(x, fit_targets(objective, validation.y, shape, "y_validation"))
        self.chunk = _chunk_size(model)

    def measure(self, network: Network, genomes: Tensor, data: FittedExamples, index: Tensor) -> Tensor:
        """Return all measures `[B, N, M]` of genomes `[B, P]` on examples `[B, N]`, or `[1, N]` for all alike."""
        count = index.shape[1]
        if count <= self.chunk:
            return self._measure_chunk(network, genomes, data, index)
        chunks = -(-count // self.chunk)
        places = np.minimum(np.arange(chunks * self.chunk), count - 1).reshape(chunks, self.chunk)
        measured = tf.map_fn(
            lambda place: self._measure_chunk(network, genomes, data, tf.gather(index, place, axis=1)),
            tf.constant(places),
            fn_output_signature=tf.TensorSpec([genomes.shape[0], self.chunk, len(self.objectives)], tf.float32),
            parallel_iterations=1,
        )  # [chunks, B, chunk, M]
        together = tf.reshape(tf.transpose(measured, [1, 0, 2, 3]), [genomes.shape[0], -1, len(self.objectives)])
        return together[:, :count]

    def _measure_chunk(self, network: Network, genomes: Tensor, data: FittedExamples, index: Tensor) -> Tensor:
        (outputs,) = network.call(genomes, data.inputs(index))  # [B, N, ...]
        outputs = tf.cast(outputs, tf.float32)
        y = tf.gather(data.y, index)
        values = tf.stack([per_example(each.measure, y, outputs) for each in self.objectives], axis=-1)
        # Losses clip probabilities, and accuracies compare them: both hide NaN.
        finite = tf.reduce_all(tf.math.is_finite(outputs), axis=list(range(2, outputs.shape.rank)))
        return tf.where(finite[..., None], values, float("nan"))


@dataclass(frozen=True, kw_only=True)
class Dataset(DatasetOptions):
    """Fit targets. Fitness is minus the loss, or a metric; solved means that the target is reached on all data."""

    compiled: ClassVar[bool] = True
    arrays: Arrays | None = field(default=None, repr=False, compare=False, metadata=OBJECT)
    """The data, if it is no file; `data` is then its digest."""
    loss_function: Measure | None = field(default=None, repr=False, metadata=OBJECT)
    """A loss of the user's program, from targets and outputs to a number per example."""

    def __post_init__(self) -> None:
        """Read the data."""
        if self.metric is not None and (self.loss is not None or self.loss_function is not None):
            raise TfsmError(f"metric={self.metric}: give a loss or a metric, not both")
        available = len(self.examples.training)
        if self.batch is not None and self.batch > available:
            raise TfsmError(f"batch={self.batch}: the data has only {available:,} examples")

    @classmethod
    def from_program(cls, data: Any, validation: Any = None, loss: Any = None) -> tuple[Dataset | None, dict[str, Any]]:
        """Return the domain for arrays of a program, None for files, and the options that describe it.

        Args:
            data: a pair `(x, y)`, or the name of a file.
            validation: another pair, the name of a file, or the share of the data to hold out.
            loss: the name of a Keras loss, or a function.
        """
        options: dict[str, Any] = {}
        if loss is not None:
            options["loss"] = loss if isinstance(loss, str) else None
        function = None if loss is None or isinstance(loss, str) else _as_measure(loss)
        if isinstance(data, str | Path):
            if isinstance(validation, tuple | list):
                raise TfsmError("validation: arrays need data that is arrays; give a file or a share")
            options |= {"data": str(data), **({} if validation is None else {"validation": str(validation)})}
            return (None if function is None else cls(**options, loss_function=function)), options
        arrays = Arrays(Examples.of(data, "data"))
        if isinstance(validation, str | Path):
            arrays = Arrays(arrays.training, read_data(str(validation)).training)
        elif isinstance(validation, float) and 0 < validation < 1:
            arrays = arrays.hold_out(validation)
        elif validation is not None:
            arrays = Arrays(arrays.training, Examples.of(validation, "validation"))
        options["data"] = arrays.digest
        return cls(data=arrays.digest, arrays=arrays, loss_function=function), options

    @cached_property
    def examples(self) -> Arrays:
        """The data."""
        return self.arrays or read_data(self.data, self.validation)

    def files(self) -> dict[str, Path]:
        """Return the files with the data; arrays of a program are written to one."""
        if self.arrays is not None:
            file = self._folder / "data.npz"
            np.savez(file, allow_pickle=False, **self.arrays.as_dict())
            return {"data": file}
        named = {"data": self.data, "validation": self.validation}
        files = {option: Path(os.path.expanduser(name)) for option, name in named.items() if name is not None}
        return {option: file for option, file in files.items() if file.is_file()}

    def network(self) -> keras.Model:
        """Return a small network of tanh layers, with a softmax for class labels."""
        training = self.examples.training
        if not isinstance(training.x, np.ndarray):
            raise TfsmError("the data has several inputs, for which there is no default network: give a model")
        outputs, activation = self._default_outputs(training)
        hidden = [keras.layers.Dense(self.units, "tanh", name=f"hidden_{i + 1}") for i in range(self.layers)]
        return keras.Sequential(
            [
                keras.Input(training.x.shape[1:]),
                keras.layers.Flatten(name="flat"),
                *hidden,
                keras.layers.Dense(outputs, activation, name="answer"),
            ],
            name="dataset",
        )

    def for_model(self, model: keras.Model) -> Dataset:
        """Return the domain with its data fitted to a model."""
        fitted = self._rebuild()()
        vars(fitted).update(examples=self.examples, problem=Problem(self, model))
        return fitted

    @cached_property
    def problem(self) -> Problem:
        """The data as the model takes it; for the default network unless `for_model` was called."""
        # Keras draws default seeds from Python's global generator; restore the state of the user's program.
        state = random.getstate()
        try:
            with tf.init_scope():  # evaluate may be the first to need it, within a graph
                return Problem(self, self.network())
        finally:
            random.setstate(state)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]`, each on a mini-batch drawn by its own seed, or all on all data."""
        return _by_lanes(network, partial(self._evaluate, network), genomes, seed)

    def observe(self, experience: Nest) -> Nest:
        """Return the inputs of the examples with these indices `[B, I]`, or of all examples."""
        training = self.problem.training
        return training.inputs(_everything(training) if isinstance(experience, tuple) else experience)

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> AnswersFilm:
        """Film the answers of genomes `[B, P]` to at most 16 examples of the training data."""
        problem, data = self.problem, self.problem.training
        shown = pick_rows(len(data))
        (outputs,) = network.call(genomes, data.inputs(tf.constant(shown[None])))
        return film_answers(problem.objectives[0], data.x[0].numpy(), data.y.numpy(), shown, np.asarray(outputs))

    def validate(self, network: Network, genomes: Tensor) -> Mapping[str, Tensor]:
        """Return all measures of genomes `[B, P]` on the validation data."""
        problem, data = self.problem, self.problem.validation
        if data is None:
            return {}

        def measure(genomes: Tensor) -> Tensor:
            return tf.reduce_mean(problem.measure(network, genomes, data, _everything(data)), axis=1)

        measured = _by_lanes(network, measure, genomes)  # [B, M]
        return {f"validation_{each.name}": measured[:, i] for i, each in enumerate(problem.objectives)}

    def __reduce__(self) -> Any:
        """Pickle the options and arrays of the program: tensors and fitted data are made again."""
        return self._rebuild(), ()

    def _evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        problem, training = self.problem, self.problem.training
        everything = _everything(training)
        index = everything if self.batch is None else draw_evenly(seed, self.batch, len(training))
        measured = problem.measure(network, genomes, training, index)  # [B, N, M]
        behavior = tf.reduce_mean(measured, axis=1)  # [B, M]
        objective = problem.objectives[0]
        solved = self._is_solved(objective, behavior[:, 0])
        if self.batch is not None and self.target is not None:
            # A lucky mini-batch is no solution: what reaches the target has to reach it on all data.
            def confirm() -> Tensor:
                total = tf.reduce_mean(problem.measure(network, genomes, training, everything)[..., 0], axis=1)
                return solved & self._is_solved(objective, total)

            solved = tf.cond(tf.reduce_any(solved), confirm, lambda: solved)
        return Evaluation(
            objective.fitness(behavior[:, 0]),
            solved,
            tf.where(tf.math.is_finite(behavior), behavior, 0.0),
            self._remember(index, seed, len(training)),
            # Which examples a mini-batch has differs, so that its cases cannot be compared.
            objective.fitness(measured[..., 0]) if self.batch is None else (),
        )

    def _remember(self, index: Tensor, seed: Tensor, available: int) -> Nest:
        if self.batch is not None:  # drawn at random already
            places = np.linspace(0, self.batch - 1, min(self.batch, self.remembered)).round().astype(int)
            return tf.gather(index, places, axis=1)
        return () if self.remembered >= available else draw_evenly(seed, self.remembered, available)

    def _is_solved(self, objective: Objective, value: Tensor) -> Tensor:
        if self.target is None:
            return tf.zeros_like(value, tf.bool)
        return objective.reaches(value, self.target)

    def _default_outputs(self, training: Examples) -> tuple[int, str | None]:
        y = training.y
        name = self.loss or self.metric or ""
        labels = "categorical" not in name or name.startswith("sparse")
        if y.dtype.kind in "iu" and labels and math.prod(y.shape[1:]) == 1 and not name.startswith(("mean", "binary")):
            return max(2, int(y.max()) + 1), None if self.logits else "softmax"
        activation = "softmax" if "categorical" in name else "sigmoid" if name.startswith("binary") else None
        return math.prod(y.shape[1:]), None if self.logits else activation

    @cached_property
    def _folder(self) -> Path:
        folder = mkdtemp(prefix="tfsm-data-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def _rebuild(self) -> Callable[[], Dataset]:
        return partial(type(self), **{each.name: getattr(self, each.name) for each in fields(self)})


def film_answers(
    objective: Objective, x: np.ndarray, y: np.ndarray, shown: np.ndarray, outputs: np.ndarray
) -> AnswersFilm:
    """Return a film of answers to examples.

    For classes, the axis is by how much the right one is ahead of all others; for probabilities and other numbers it is
    the first output itself.

    Args:
        objective: what the outputs are.
        x: the first input of all examples, `[N, ...]`.
        y: their targets, `[N, ...]`.
        shown: the examples that are shown, `[S]`.
        outputs: the outputs for these, `[B, S, ...]`.
    """
    classes = objective.takes_classes
    low, high, names, middle = -1.0, 1.0, ("wrong", "right"), 0.0
    if classes:
        outputs = outputs.reshape(*outputs.shape[:2], -1, outputs.shape[-1])[:, :, 0]  # [B, S, C], of the first place
        labels = y[shown].reshape(len(shown), -1)[:, 0].astype(int)
        if not objective.takes_labels:
            labels = y[shown].reshape(len(shown), -1, y.shape[-1])[:, 0].argmax(axis=-1)
        is_right = np.arange(outputs.shape[-1]) == labels[:, None]
        answers = np.where(is_right, outputs, -np.inf).max(-1) - np.where(is_right, -np.inf, outputs).max(-1)
        targets = np.ones(len(shown))
    else:
        answers = outputs.reshape(*outputs.shape[:2], -1)[..., 0]
        targets = y.reshape(len(y), -1)[:, 0]
        low, high, names = float(targets.min()), float(targets.max()), (f"{targets.min():.3g}", f"{targets.max():.3g}")
        if low == high:
            low, high = low - 1.0, high + 1.0
        targets, middle = targets[shown], 0.5
    compares = classes or "binary" in objective.kind
    right = (answers > middle) == (targets > middle)
    error = np.abs(answers - targets)

    def caption(count: int) -> str:
        if compares:
            others = f", mutants {right[1:, :count].mean():.0%}" if len(right) > 1 else ""
            return f"{int(right[0, :count].sum())} of {count} right{others}"
        others = f", mutants {np.median(error[1:, :count].mean(axis=1)):.2g} (median)" if len(error) > 1 else ""
        return f"mean error {error[0, :count].mean():.2g}{others}"

    return AnswersFilm(
        _as_pictures(x, shown), targets, answers, (low, high), names, caption, middle=middle if compares else None
    )


def _as_pictures(x: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Return examples `[S, height, width]` as gray levels from 0 to 1: images as they are, all others as one line."""
    x = x.astype(np.float64)
    if x.ndim == 4:
        x = x.mean(axis=-1)
    elif x.ndim != 3:
        x = x.reshape(len(x), 1, -1)
    step = -(-max(x.shape[1:]) // MAX_PIXELS)
    x = x[:, ::step, ::step]
    low, high = np.nanmin(x), np.nanmax(x)
    return np.asarray((x[shown] - low) / ((high - low) or 1.0))


def _as_measure(loss: Any) -> Measure:
    if isinstance(loss, keras.losses.Loss):
        measure: Measure = loss.call  # without reduction
        return measure
    if not callable(loss):
        raise TfsmError(f"loss: expected the name of a Keras loss or a function, got {type(loss).__name__}")
    function: Measure = loss
    return function


def draw_evenly(seed: Tensor, count: int, available: int) -> Tensor:
    """Draw indices `[B, count]` below `available` by seeds `[B, 2]`: one from each of `count` equal parts."""
    drawn = (tf.range(count, dtype=tf.float64) + tf.cast(uniform(seed, count), tf.float64)) * (available / count)
    return tf.minimum(tf.cast(drawn, tf.int32), available - 1)


def _everything(data: FittedExamples) -> Tensor:
    return tf.range(len(data))[None]  # [1, N]


def _by_lanes(network: Network, function: Callable[..., Any], *arguments: Tensor) -> Any:
    """Apply a function of lanes `[B, ...]` so that the results do not depend on how many lanes there are.

    A plain graph may round otherwise at the end of an array than within it, so its lanes are taken one by one, which
    also bounds memory. XLA drops a batch axis of one and then sums in another order, so it gets two at least.
    """
    count = arguments[0].shape[0]
    if network.program.reason_against_xla():
        first = [x[:1] for x in arguments]
        signature = tf.function(function, autograph=False).get_concrete_function(*first).structured_outputs
        return tf.map_fn(
            lambda lane: tf.nest.map_structure(lambda x: x[0], function(*(x[None] for x in lane))),
            arguments,
            fn_output_signature=tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), signature),
            parallel_iterations=1,
        )
    lanes = [tf.repeat(x, 2, axis=0) for x in arguments] if count == 1 else arguments
    return tf.nest.map_structure(lambda x: x[:count], function(*lanes))


def _try_model(model: keras.Model, x: list[np.ndarray]) -> np.ndarray:
    """Return the outputs of a model for the first examples."""
    first = [part[:TRIED] for part in x]
    structure = getattr(model, "input", None)
    inputs: Inputs | list[np.ndarray] = first[0] if len(first) == 1 else first
    if isinstance(structure, dict | tuple):
        inputs = tf.nest.pack_sequence_as(structure, first)
    outputs = tf.nest.flatten(model(inputs, training=False))
    if len(outputs) != 1:
        raise TfsmError(f"the model {model.name!r} has {len(outputs)} outputs, and a loss on data takes one")
    return np.asarray(outputs[0], np.float32)


def _chunk_size(model: keras.Model) -> int:
    """Return how many examples a network of this architecture takes at a time."""
    largest = 1
    for layer in model._flatten_layers(include_self=False):
        try:
            shape = layer.output.shape
        except (AttributeError, ValueError):  # a layer of a subclassed model, or one that is used several times
            shape = (None, 4096)
        largest = max(largest, math.prod(size or 1 for size in shape[1:]))
    return int(2 ** math.floor(math.log2(min(4096, max(8, ACTIVATIONS // largest)))))
