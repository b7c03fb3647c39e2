"""What both pixel mazes share: a base class, and networks from a sequence of images to five outputs per step."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import keras
import numpy as np
from keras import layers

from tfsm.interfaces import Evaluation, Tensor
from tfsm.models.rules.recurrent import DualBiasLSTMCell
from tfsm_domains.pixel_maze.drawing import draw_endpoints
from tfsm_domains.pixel_maze.layout import SHIPPED, MazeLayout

SIZE: Final = 64
ACTIONS: Final = 5
MAPS: Final = 12
UNITS: Final = 20


@dataclass(frozen=True, init=False)
class PixelMaze:
    """Walk along a hidden path. Fitness is the number of its squares touched; solved means all of them.

    The options are a separate object because one of them, `network`, has the name of a method.
    """

    compiled: ClassVar[bool] = True
    behavior_names: ClassVar[tuple[str, ...]] = ("x", "y")
    performance_name: ClassVar[str] = "squares touched"

    options: Any
    layout: MazeLayout = field(repr=False, compare=False)

    def _set(self, **values: Any) -> None:
        """Set the fields of a frozen dataclass in its `__init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def behavior_bounds(self) -> tuple[tuple[float, float], ...]:
        """The whole map."""
        return (0.0, float(self.layout.width)), (0.0, float(self.layout.height))

    def files(self) -> dict[str, Path]:
        """Return the maze file, unless it is a built-in one."""
        maze = self.options.maze
        return {} if maze is None or maze in SHIPPED else {"maze": Path(self.layout.source)}

    def performance(self, evaluation: Evaluation) -> Tensor:
        """Return the number of squares of the path that were touched."""
        return evaluation.fitness

    def picture(self, evaluations: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        """Draw the final positions of populations."""
        return draw_endpoints(self.layout, evaluations, behavior)


def convolutional_lstm_network(times: int, depth: int, *, dual_bias: bool) -> keras.Model:
    """Return the paper's network: two wide convolutions, `depth` more, global average pooling and two LSTM layers."""
    first = [_convolution(5, 2, f"wide_{i}") for i in range(2)]
    deep = [_convolution(3, 1, f"deep_{i}") for i in range(depth)]
    eye = keras.Sequential([keras.Input((SIZE, SIZE, 1)), *first, *deep, layers.GlobalAveragePooling2D()], name="eye")
    memory = [_memory(f"memory_{i}", dual_bias=dual_bias) for i in range(2)]
    return keras.Sequential(
        [keras.Input((times, SIZE, SIZE, 1)), layers.TimeDistributed(eye), *memory, _action()], name=f"pixels_{depth}"
    )


def stacked_conv_lstm_network(times: int) -> keras.Model:
    """Return a network whose recurrent state is spatial: two ConvLSTM2D layers on a downsampled image."""

    def memory(number: int) -> keras.layers.Layer:
        return layers.ConvLSTM2D(8, 3, strides=2, padding="same", return_sequences=True, name=f"memory_{number}")

    return keras.Sequential(
        [
            keras.Input((times, SIZE, SIZE, 1)),
            layers.TimeDistributed(layers.AveragePooling2D(4), name="smaller"),
            memory(0),
            memory(1),
            layers.TimeDistributed(layers.Flatten(), name="flat"),
            _action(),
        ],
        name="pixels_convlstm",
    )


def _convolution(window: int, stride: int, name: str) -> keras.layers.Layer:
    return layers.Conv2D(MAPS, window, stride, padding="same", activation="selu", name=name)


def _memory(name: str, *, dual_bias: bool) -> keras.layers.Layer:
    if dual_bias:
        return layers.RNN(DualBiasLSTMCell(UNITS), return_sequences=True, name=name)
    return layers.LSTM(UNITS, return_sequences=True, name=name)


def _action() -> keras.layers.Layer:
    return layers.Dense(ACTIONS, activation="sigmoid", name="action")
