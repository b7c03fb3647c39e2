"""Domain + networks."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import keras
import numpy as np
import tensorflow as tf

from tfsm.interfaces import Evaluation, Film, Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.models.network import Network
from tfsm_domains.hard_maze import HardMazeOptions
from tfsm_domains.hard_maze.breadcrumb import PathLengthField, compute_path_lengths
from tfsm_domains.hard_maze.drawing import MazeFilm, draw_endpoints
from tfsm_domains.hard_maze.maze import Maze, read_maze
from tfsm_domains.hard_maze.robot import RANGE, RANGEFINDERS, SENSORS, Trajectory, sense, simulate

BLOCK = 4
"""Layers that a residual connection skips."""


def deep_network(layers: int, units: int) -> keras.Model:
    """Return a plain network: a first layer, `layers` more of the same width, all SELU, and two sigmoid outputs."""
    hidden = [keras.layers.Dense(units, activation="selu", name=f"hidden_{i}") for i in range(layers + 1)]
    answer = keras.layers.Dense(2, activation="sigmoid", name="action")
    return keras.Sequential([keras.Input((SENSORS,)), *hidden, answer], name=f"maze_{layers}x{units}")


def residual_network(layers: int, units: int) -> keras.Model:
    """Return a residual network: a first layer, then `layers` more, all tanh, the input of every four added on."""
    seen = keras.Input((SENSORS,))
    value = skipped = keras.layers.Dense(units, activation="tanh", name="hidden_0")(seen)
    for i in range(1, layers + 1):
        value = keras.layers.Dense(units, activation="tanh", name=f"hidden_{i}")(value)
        if i % BLOCK == 0:
            value = skipped = keras.layers.Add(name=f"skip_{i}")([value, skipped])
    answer = keras.layers.Dense(2, activation="sigmoid", name="action")(value)
    return keras.Model(seen, answer, name=f"maze_{layers}x{units}_residual")


@dataclass(frozen=True, kw_only=True)
class HardMaze(HardMazeOptions):
    """Steer a robot to the goal; fitness is minus the way that is left at the end, solved is ever having been there."""

    compiled: ClassVar[bool] = True
    behavior_names: ClassVar[tuple[str, ...]] = ("x", "y")
    layers: ClassVar[int] = 16
    units: ClassVar[int] = 8
    geometry: Maze = field(init=False, repr=False)
    """The maze."""
    path_length: PathLengthField = field(init=False, repr=False, compare=False)
    """How far it is to the goal."""
    _simulations: WeakKeyDictionary[Network, dict[bool, Callable[[Tensor], Trajectory]]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Read the maze, and find all ways to its goal."""
        geometry = read_maze(self.maze)
        object.__setattr__(self, "geometry", geometry)
        object.__setattr__(self, "path_length", compute_path_lengths(geometry))
        object.__setattr__(self, "_simulations", WeakKeyDictionary())

    @property
    def behavior_bounds(self) -> tuple[tuple[float, float], ...]:
        """The rectangle around all walls."""
        x, y = (np.ravel([[wall[i], wall[i + 2]] for wall in self.geometry.walls]) for i in (0, 1))
        return (float(x.min()), float(x.max())), (float(y.min()), float(y.max()))

    def files(self) -> dict[str, Path]:
        """Return the maze file, if it is the user's own."""
        return {} if self.maze is None else {"maze": Path(os.path.expanduser(self.maze))}

    def network(self) -> keras.Model:
        """Return the paper's network for this task."""
        return deep_network(self.layers, self.units)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let a robot be steered by each of genomes `[B, P]`."""
        found = self.simulate(network, genomes)
        left = tf.cast(self.path_length.at(found.end.position), tf.float32)
        fitness = tf.where(found.finite, -left, float("nan"))
        seen = sample_experiences(found.seen, self.remembered, seed)
        return Evaluation(fitness, found.reached, tf.cast(found.end.position, tf.float32), seen)

    def observe(self, experience: Nest) -> Nest:
        """Return the sensor readings `[B, I, 11]` that were kept."""
        return experience

    def simulate(self, network: Network, genomes: Tensor, *, trail: bool = False) -> Trajectory:
        """Return a whole roll-out of genomes `[B, P]`.

        Always compiled by XLA: elsewhere the last digits of a number depend on its place in a batch, and a robot would
        take another way alone than among others.
        """
        count = genomes.shape[0]
        # XLA drops a batch axis of one and then sums in another order.
        own = tf.repeat(genomes, 2, axis=0) if count == 1 else genomes
        found = self._compiled(network, trail)(own)
        return tf.nest.map_structure(lambda x: x[:count], found)

    def _compiled(self, network: Network, trail: bool) -> Callable[[Tensor], Trajectory]:
        known = self._simulations.setdefault(network, {})
        if trail not in known:
            # The network outlives its roll-outs, not the other way round.
            ask = weakref.proxy(network)

            def rolled(own: Tensor) -> Trajectory:
                rows = ask.bind(own)
                return simulate(
                    self.geometry, lambda seen: rows(seen[:, None])[:, 0], own.shape[0], self.hold, trail=trail
                )

            known[trail] = tf.function(rolled, jit_compile=True, autograph=False)
        return known[trail]

    def __reduce__(self) -> Any:
        """Be pickled by the options: what is compiled cannot be."""
        options = {option.name: getattr(self, option.name) for option in fields(HardMazeOptions)}
        return partial(type(self), **options), ()

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film robots; what the first one senses is shown too."""
        found = self.simulate(network, genomes, trail=True)
        trails = found.trail.numpy()
        return MazeFilm(
            self.geometry,
            trails,
            sense(self.geometry, trails[0, :, :2], trails[0, :, 2]).numpy(),
            found.reached.numpy(),
            self.path_length.at(found.end.position).numpy(),
            RANGEFINDERS,
            RANGE,
        )

    def picture(self, evaluations: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        """Draw where populations ended."""
        return draw_endpoints(self.geometry, evaluations, behavior)


@dataclass(frozen=True, kw_only=True)
class HardMaze32(HardMaze):
    """With 33 residual tanh layers of 125 units: 505,752 weights."""

    layers: ClassVar[int] = 32
    units: ClassVar[int] = 125

    def network(self) -> keras.Model:
        """Return the paper's large network of this size."""
        return residual_network(self.layers, self.units)


@dataclass(frozen=True, kw_only=True)
class HardMaze64(HardMaze32):
    """With 65 residual tanh layers of 125 units: 1,009,752 weights."""

    layers: ClassVar[int] = 64


@dataclass(frozen=True, kw_only=True)
class HardMaze101(HardMaze32):
    """With 102 residual tanh layers of 48 units: 238,226 weights."""

    layers: ClassVar[int] = 101
    units: ClassVar[int] = 48
