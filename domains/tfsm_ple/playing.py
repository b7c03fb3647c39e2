"""One game that is played again and again, always from the same beginning."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from tfsm_ple.loading import Arcade

RATE: Final = 30
"""Frames a second, where a game does not ask for another number."""
LUMINANCE: Final = np.array([0.21, 0.72, 0.07], np.float32)


class Numbers(np.random.RandomState):
    """Random numbers as games draw them."""

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        """Draw whole numbers up to `high` itself: NumPy's own function of this name is about to go."""
        return self.randint(low, high + 1, size) if high is not None else self.randint(1, low + 1, size)


class Play:
    """A game on a screen of its own.

    Args:
        arcade: which game; its `stage` must be open here and whenever a method is called.
    """

    def __init__(self, arcade: Arcade) -> None:
        self._arcade = arcade
        self._random = Numbers(0)
        self._build()
        self.actions: list[Any] = self._ple.getActionSet()
        """Keys to press, and None for no key."""
        width, height = self._ple.getScreenDims()
        self.dims = int(width), int(height)
        """Width and height."""
        self.rate: int = self._ple.fps
        # pygame has one display for all; games that take turns would draw over each other.
        self._screen = arcade.pygame.Surface(self.dims, 0, 32)
        self.frames = 0
        """How many were played since the start."""

    def start(self, seed: Sequence[int]) -> None:
        """Begin anew; the seed alone decides what happens."""
        self._random.seed(seed)
        if self._new is None:
            self._build()
        else:
            self._restore()
        self._ple.game.screen = self._screen
        self._screen.fill((0, 0, 0))
        self._ple.reset_game()
        self._arcade.pygame.event.clear()
        self.frames = 0

    def act(self, action: Any, times: int, watch: Callable[[Play], None] | None = None) -> None:
        """Press a key for so many frames, or until the game is over."""
        for _ in range(times):
            if self.over:
                return
            self._ple.act(action)
            self.frames += 1
            if watch is not None:
                watch(self)

    @property
    def over(self) -> bool:
        """Whether the game has come to its end."""
        return bool(self._ple.game_over())

    @property
    def score(self) -> float:
        """What the game counts."""
        return float(self._ple.score())

    def state(self) -> Any:
        """Return what the game says of itself, or None where it says nothing."""
        return self._ple.game.getGameState()

    def picture(self) -> np.ndarray:
        """Return the screen: `[height, width, 3]`, bytes."""
        return np.ascontiguousarray(self._arcade.pygame.surfarray.array3d(self._screen).swapaxes(0, 1))

    def grey(self, side: int) -> np.ndarray:
        """Return the screen in grey and of another size: `[side, side]`, bytes."""
        small = self._arcade.pygame.transform.smoothscale(self._screen, (side, side))
        colours = self._arcade.pygame.surfarray.array3d(small).swapaxes(0, 1)
        return np.round(colours @ LUMINANCE).astype(np.uint8)

    def _build(self) -> None:
        game = self._arcade.game()
        self._new = _copied(vars(game), self._arcade.pygame.Surface)
        self._ple = self._arcade.environment(game, fps=game.allowed_fps or RATE, rng=self._random)
        self._clock = game.clock

    def _restore(self) -> None:
        # A game's own reset keeps this and that: a bird begins as fast as it ended. To build another game is sure, but
        # may take longer than to play it, most of all where pictures are read.
        game = self._ple.game
        vars(game).clear()
        vars(game).update(_copied(self._new, self._arcade.pygame.Surface) or {})
        game.setRNG(self._random)
        game.clock = self._clock
        game.screen = self._screen
        game.init()


def _copied(attributes: Any, surface: type) -> dict[str, Any] | None:
    """Copy a game's attributes, all but the pictures, which it only looks at; None where that cannot be done."""
    memo = {id(picture): picture for picture in _instances(attributes, surface)}
    try:
        return copy.deepcopy(dict(attributes), memo)
    except TypeError:
        return None


def _instances(value: Any, kind: type) -> Iterator[Any]:
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _instances(item, kind)
