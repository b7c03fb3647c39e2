"""The networks that are measured, with the genomes and experiences that they are measured on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfsm.evolution.compile_plan import make_plan
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.variation import mutate_batch
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part

OPERATORS = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
INTENSITY = {"control": 0.05, "sm-r": 0.005, "sm-g-sum": 0.01, "sm-g-abs": 0.01, "sm-g-so": 0.01}

Compiled = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A network, B genomes of it, and the experiences `[1, I, ...]` that all of them see."""

    name: str
    model: keras.Model
    experience: np.ndarray
    genomes: int
    kind: str = "dense"

    @cached_property
    def network(self) -> Network:
        """The model as tfsm runs it."""
        return Network(self.model)

    @cached_property
    def jit(self) -> bool:
        """Whether tfsm would compile this network with XLA."""
        return make_plan(self.network, runs=self.genomes, population=1).jit

    @cached_property
    def seeds(self) -> tf.Tensor:
        """`[B, 2]`."""
        with tf.init_scope():
            return fold_in(root_seed(1), tf.range(self.genomes))

    @cached_property
    def parents(self) -> tf.Tensor:
        """`[B, P]`."""
        return Initializer("xavier-normal").genomes(self.network, self.seeds)

    @cached_property
    def seen(self) -> tf.Tensor:
        """`[1, I, ...]`."""
        with tf.init_scope():  # the same tensor for all functions, whichever asks first
            return tf.constant(self.experience[None], tf.float32)

    @property
    def outputs(self) -> int:
        """K."""
        return int(self.model.output_shape[-1])

    def compiled(self, function: Callable[[tf.Tensor], Any], jit: bool | None = None) -> Compiled:
        """Return a function of the parents, compiled as tfsm would, as a call that returns when it is done."""
        traced = tf.function(function, jit_compile=self.jit if jit is None else jit, autograph=False)
        held: dict[str, Any] = {}

        def call() -> Any:
            if not held:  # in the first call, whose time is tracing and compiling anyway
                held["function"] = traced.get_concrete_function(tf.TensorSpec(self.parents.shape, self.parents.dtype))
            return [x.numpy() for x in tf.nest.flatten(held["function"](self.parents))]

        return call

    def empty(self) -> Compiled:
        """Return a call that does next to nothing: what TensorFlow takes to call anything at all."""
        return self.compiled(lambda parents: tf.identity(parents[:, 0]))

    def forward(self) -> Compiled:
        """Return one forward pass of all genomes over all experiences."""
        return self.compiled(lambda parents: self.network.rows(parents, self.seen))

    def operator(self, name: str) -> Any:
        """Return an operator that looks at all experiences."""
        options = {} if name == "control" else {"experiences": len(self.experience)}
        return build_part(load_plugins().mutations[name], options)

    def child(self, name: str) -> Compiled:
        """Return the making of one child of each genome."""
        operator, intensity = self.operator(name), tf.constant(INTENSITY[name])

        def make(parents: tf.Tensor) -> Any:
            return mutate_batch(operator, self.network, parents, self.seen, intensity, self.seeds)

        return self.compiled(make)


def dense(inputs: int, widths: list[int], outputs: int, activation: str, last: str) -> keras.Model:
    layers = keras.layers
    hidden = [layers.Dense(width, activation=activation) for width in widths]
    return keras.Sequential([keras.Input((inputs,)), *hidden, layers.Dense(outputs, activation=last)])


def selu_case(genomes: int = 20, experiences: int = 100) -> Case:
    """Return the maze controller's network: 17 SELU layers of 8, 1,266 weights."""
    model = dense(11, [8] * 17, 2, "selu", "sigmoid")
    return Case("dense", model, data(experiences, 11), genomes)


def parity_case(genomes: int = 20) -> Case:
    """Return recurrent parity's network on its 16 sequences, 1,302 weights."""
    domain = build_part(load_plugins().domains["parity"], {})
    return Case("recurrent", domain.network(), domain.observe(())[0].numpy(), genomes, "recurrent")


def convolutional_case(genomes: int = 4, experiences: int = 8) -> Case:
    """Return a small ConvLSTM2D network that sees 4 frames of 12 x 12."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((4, 12, 12, 1)),
            layers.ConvLSTM2D(4, 3, strides=2, padding="same"),
            layers.Flatten(),
            layers.Dense(2, activation="sigmoid"),
        ]
    )
    return Case("ConvLSTM2D", model, data(experiences, 4, 12, 12, 1), genomes, "recurrent")


def million_case(genomes: int = 2, experiences: int = 100) -> Case:
    """Return 64 tanh layers of 125: a million weights."""
    model = dense(11, [125] * 64, 2, "tanh", "linear")
    return Case("dense, 10^6 weights", model, data(experiences, 11), genomes)


def data(*shape: int) -> np.ndarray:
    """Return inputs, always the same."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)
