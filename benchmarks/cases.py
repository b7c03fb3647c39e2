"""The networks that are measured, with the genomes and experiences to measure them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfsm.evolution.compile_plan import make_plan
from tfsm.evolution.divergence import DivergenceTarget
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.variation import mutate_batch
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part

OPERATORS = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
INTENSITIES = {"control": 0.05, "sm-r": 0.005, "sm-g-sum": 0.01, "sm-g-abs": 0.01, "sm-g-so": 0.01}

Compiled = Callable[[], Any]


@dataclass(frozen=True)
class NetworkCase:
    """A network, B genomes, and the experiences `[I, ...]` that all of them share."""

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
    def inputs(self) -> tf.Tensor:
        """`[1, I, ...]`."""
        with tf.init_scope():  # one tensor for all functions, whichever is traced first
            return tf.constant(self.experience[None], tf.float32)

    @property
    def outputs(self) -> int:
        """K."""
        return int(self.model.output_shape[-1])

    def compile(self, function: Callable[[tf.Tensor], Any], jit: bool | None = None) -> Compiled:
        """Compile a function of the parents as tfsm would, and return a call that waits for its result."""
        traced = tf.function(function, jit_compile=self.jit if jit is None else jit, autograph=False)
        cache: dict[str, Any] = {}

        def call() -> Any:
            if not cache:  # in the first call, which traces and compiles anyway
                cache["function"] = traced.get_concrete_function(tf.TensorSpec(self.parents.shape, self.parents.dtype))
            return [x.numpy() for x in tf.nest.flatten(cache["function"](self.parents))]

        return call

    def empty(self) -> Compiled:
        """Return a call that does almost nothing, to measure the overhead of a call."""
        return self.compile(lambda parents: tf.identity(parents[:, 0]))

    def forward(self) -> Compiled:
        """Return one forward pass of all genomes over all experiences."""
        return self.compile(lambda parents: self.network.rows(parents, self.inputs))

    def build_operator(self, name: str, **more: Any) -> Any:
        """Return an operator that uses all experiences."""
        options = {} if name == "control" else {"experiences": len(self.experience)} | more
        return build_part(load_plugins().mutations[name], options)

    def mutate(self, name: str) -> Compiled:
        """Return a call that makes one child of each genome."""
        operator, intensity = self.build_operator(name), tf.constant(INTENSITIES[name])

        def make(parents: tf.Tensor) -> Any:
            return mutate_batch(operator, self.network, parents, self.inputs, intensity, self.seeds)

        return self.compile(make)

    def reach(self, name: str, divergence: float) -> Compiled:
        """Return a call that makes one child of each genome at a divergence relative to the variance of its outputs."""
        options = {"guard": "relative"} if name.startswith("sm-g") else {}
        operator, target = self.build_operator(name, **options), DivergenceTarget(relative=True)

        def make(parents: tf.Tensor) -> Any:
            value = tf.constant(divergence)
            return mutate_batch(operator, self.network, parents, self.inputs, value, self.seeds, target=target)

        return self.compile(make)

    def count_trials(self, name: str, divergence: float) -> float:
        """Return the mean number of trials that `reach` takes per child."""
        _, steps, unreached = self.reach(name, divergence)()
        assert not unreached.any()
        return float(steps.mean())


def build_dense_model(inputs: int, widths: list[int], outputs: int, activation: str, last: str) -> keras.Model:
    layers = keras.layers
    hidden = [layers.Dense(width, activation=activation) for width in widths]
    return keras.Sequential([keras.Input((inputs,)), *hidden, layers.Dense(outputs, activation=last)])


def make_selu_case(genomes: int = 20, experiences: int = 100) -> NetworkCase:
    """Return the network of the maze controller: 17 SELU layers of 8, 1,266 weights."""
    model = build_dense_model(11, [8] * 17, 2, "selu", "sigmoid")
    return NetworkCase("dense", model, make_inputs(experiences, 11), genomes)


def make_parity_case(genomes: int = 20) -> NetworkCase:
    """Return the network of recurrent parity on its 16 sequences, 1,302 weights."""
    domain = build_part(load_plugins().domains["parity"], {})
    return NetworkCase("recurrent", domain.network(), domain.observe(())[0].numpy(), genomes, "recurrent")


def make_convolutional_case(genomes: int = 4, experiences: int = 8) -> NetworkCase:
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
    return NetworkCase("ConvLSTM2D", model, make_inputs(experiences, 4, 12, 12, 1), genomes, "recurrent")


def make_million_case(genomes: int = 2, experiences: int = 100) -> NetworkCase:
    """Return 64 tanh layers of 125: a million weights."""
    model = build_dense_model(11, [125] * 64, 2, "tanh", "linear")
    return NetworkCase("dense, 10^6 weights", model, make_inputs(experiences, 11), genomes)


def make_inputs(*shape: int) -> np.ndarray:
    """Return reproducible inputs."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)
