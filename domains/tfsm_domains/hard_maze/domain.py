"""The hard maze as a compiled domain, and the paper's networks for it."""

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

from tfsm.abilities import Film
from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.models.network import Network
from tfsm_domains.hard_maze import HardMazeOptions
from tfsm_domains.hard_maze.breadcrumb import PathLengthField, compute_path_lengths
from tfsm_domains.hard_maze.drawing import MazeFilm, draw_endpoints
from tfsm_domains.hard_maze.maze import Maze, read_maze
from tfsm_domains.hard_maze.robot import RANGE, RANGEFINDERS, SENSORS, Trajectory, sense, simulate

BLOCK = 4
"""Layers skipped by a residual connection."""


def deep_network(layers: int, units: int) -> keras.Model:
    """Return a plain network: a first layer and `layers` more of the same width, all SELU, and two sigmoid outputs."""
    hidden = [keras.layers.Dense(units, activation="selu", name=f"hidden_{i}") for i in range(layers + 1)]
    action = keras.layers.Dense(2, activation="sigmoid", name="action")
    return keras.Sequential([keras.Input((SENSORS,)), *hidden, action], name=f"maze_{layers}x{units}")


def residual_network(layers: int, units: int) -> keras.Model:
    """Return a residual network: a first layer and `layers` more, all tanh, with a skip connection every four."""
    sensors = keras.Input((SENSORS,))
    value = skipped = keras.layers.Dense(units, activation="tanh", name="hidden_0")(sensors)
    for i in range(1, layers + 1):
        value = keras.layers.Dense(units, activation="tanh", name=f"hidden_{i}")(value)
        if i % BLOCK == 0:
            value = skipped = keras.layers.Add(name=f"skip_{i}")([value, skipped])
    action = keras.layers.Dense(2, activation="sigmoid", name="action")(value)
    return keras.Model(sensors, action, name=f"maze_{layers}x{units}_residual")


@dataclass(frozen=True, kw_only=True)
class HardMaze(HardMazeOptions):
    """Steer a robot to the goal. Fitness is minus the path length left at the end; solved means that it got there."""

    compiled: ClassVar[bool] = True
    behavior_names: ClassVar[tuple[str, ...]] = ("x", "y")
    layers: ClassVar[int] = 16
    units: ClassVar[int] = 8
    geometry: Maze = field(init=False, repr=False)
    """The parsed maze."""
    path_length: PathLengthField = field(init=False, repr=False, compare=False)
    """Path lengths to the goal."""
    _simulations: WeakKeyDictionary[Network, dict[bool, Callable[[Tensor], Trajectory]]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Read the maze and compute the path lengths to its goal."""
        geometry = read_maze(self.maze)
        object.__setattr__(self, "geometry", geometry)
        object.__setattr__(self, "path_length", compute_path_lengths(geometry))
        object.__setattr__(self, "_simulations", WeakKeyDictionary())

    @property
    def behavior_bounds(self) -> tuple[tuple[float, float], ...]:
        """The bounding box of all walls."""
        x, y = (np.ravel([[wall[i], wall[i + 2]] for wall in self.geometry.walls]) for i in (0, 1))
        return (float(x.min()), float(x.max())), (float(y.min()), float(y.max()))

    def files(self) -> dict[str, Path]:
        """Return the maze file, unless it is the paper's."""
        return {} if self.maze is None else {"maze": Path(os.path.expanduser(self.maze))}

    def network(self) -> keras.Model:
        """Return the paper's network for this task."""
        return deep_network(self.layers, self.units)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let each of genomes `[B, P]` steer a robot."""
        trajectory = self.simulate(network, genomes)
        left = tf.cast(self.path_length.at(trajectory.end.position), tf.float32)
        fitness = tf.where(trajectory.finite, -left, float("nan"))
        experience = sample_experiences(trajectory.seen, self.remembered, seed)
        return Evaluation(fitness, trajectory.reached, tf.cast(trajectory.end.position, tf.float32), experience)

    def observe(self, experience: Nest) -> Nest:
        """Return the stored sensor readings `[B, I, 11]`."""
        return experience

    def simulate(self, network: Network, genomes: Tensor, *, trail: bool = False) -> Trajectory:
        """Return a complete roll-out of genomes `[B, P]`.

        Always compiled by XLA: in a plain graph the last digits of a number depend on its position in the batch, and a
        robot would take another path alone than among others.
        """
        count = genomes.shape[0]
        # XLA drops a batch axis of one and then sums in another order.
        lanes = tf.repeat(genomes, 2, axis=0) if count == 1 else genomes
        trajectory = self._compiled(network, trail)(lanes)
        return tf.nest.map_structure(lambda x: x[:count], trajectory)

    def _compiled(self, network: Network, trail: bool) -> Callable[[Tensor], Trajectory]:
        cached = self._simulations.setdefault(network, {})
        if trail not in cached:
            # A proxy: the compiled roll-out must not keep the network alive.
            proxy = weakref.proxy(network)

            def run(genomes: Tensor) -> Trajectory:
                rows = proxy.bind(genomes)
                return simulate(
                    self.geometry,
                    lambda sensors: rows(sensors[:, None])[:, 0],
                    genomes.shape[0],
                    self.hold,
                    trail=trail,
                )

            cached[trail] = tf.function(run, jit_compile=True, autograph=False)
        return cached[trail]

    def __reduce__(self) -> Any:
        """Pickle the options alone: compiled functions cannot be pickled."""
        options = {option.name: getattr(self, option.name) for option in fields(HardMazeOptions)}
        return partial(type(self), **options), ()

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film robots, with the sensor readings of the first one."""
        trajectory = self.simulate(network, genomes, trail=True)
        trails = trajectory.trail.numpy()
        return MazeFilm(
            self.geometry,
            trails,
            sense(self.geometry, trails[0, :, :2], trails[0, :, 2]).numpy(),
            trajectory.reached.numpy(),
            self.path_length.at(trajectory.end.position).numpy(),
            RANGEFINDERS,
            RANGE,
        )

    def picture(self, evaluations: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        """Draw the final positions of populations."""
        return draw_endpoints(self.geometry, evaluations, behavior)


@dataclass(frozen=True, kw_only=True)
class HardMaze32(HardMaze):
    """The hard maze with 33 residual tanh layers of 125 units: 505,752 weights."""

    layers: ClassVar[int] = 32
    units: ClassVar[int] = 125

    def network(self) -> keras.Model:
        """Return the paper's residual network of this size."""
        return residual_network(self.layers, self.units)


@dataclass(frozen=True, kw_only=True)
class HardMaze64(HardMaze32):
    """The hard maze with 65 residual tanh layers of 125 units: 1,009,752 weights."""

    layers: ClassVar[int] = 64


@dataclass(frozen=True, kw_only=True)
class HardMaze101(HardMaze32):
    """The hard maze with 102 residual tanh layers of 48 units: 238,226 weights."""

    layers: ClassVar[int] = 101
    units: ClassVar[int] = 48
