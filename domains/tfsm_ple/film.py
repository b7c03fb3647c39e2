"""A game as it was played, to be looked at."""

from __future__ import annotations

import math
import zlib
from typing import Final

import numpy as np

from tfsm_ple.playing import Play

LEAST: Final = 256
"""Pixels that the longer side of a picture has at least."""
TILES: Final = 4
"""Pictures in a row and rows in a still."""


class GameFilm:
    """Pictures of one game, frame by frame.

    Args:
        play: the game, as it starts.
    """

    def __init__(self, play: Play) -> None:
        self.rate = float(play.rate)
        width, height = play.dims
        self._shape = (height, width, 3)
        self._larger = math.ceil(LEAST / max(width, height))
        # A minute of a large screen is a gigabyte; most of a game's screen is of one colour.
        self._frames: list[bytes] = []

    def add(self, play: Play) -> None:
        """Take a picture."""
        self._frames.append(zlib.compress(play.picture().tobytes(), 1))

    def __len__(self) -> int:
        """Return how many pictures there are."""
        return len(self._frames)

    def frame(self, index: int) -> np.ndarray:
        """Return a picture, large enough to be seen: each pixel of a small screen becomes a square."""
        small = self._small(index)
        return _even(small.repeat(self._larger, axis=0).repeat(self._larger, axis=1))

    def still(self) -> np.ndarray:
        """Return pictures from the first to the last, row by row."""
        chosen = np.linspace(0, len(self) - 1, TILES * TILES).round().astype(int)
        tiles = np.stack([np.pad(self._small(int(i)), ((0, 2), (0, 2), (0, 0)), constant_values=128) for i in chosen])
        height, width = tiles.shape[1:3]
        rows = tiles.reshape(TILES, TILES, height, width, 3).transpose(0, 2, 1, 3, 4)
        return _even(np.ascontiguousarray(rows.reshape(TILES * height, TILES * width, 3)))

    def _small(self, index: int) -> np.ndarray:
        return np.frombuffer(zlib.decompress(self._frames[index]), np.uint8).reshape(self._shape)


def _even(picture: np.ndarray) -> np.ndarray:
    """Add a row and a column where their number is odd: most video formats insist."""
    height, width, _ = picture.shape
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
