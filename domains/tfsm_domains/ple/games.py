"""Find, patch and play a PLE game headless.

ple's files stay as they are, and so do NumPy and pygame: only the names that ple's own modules have for them mean
something else for the time being.
"""

from __future__ import annotations

import copy
import importlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from threading import RLock
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.render.canvas import headless_display
from tfsm.utils.optional import optional

ALIASES: Final[dict[str, type]] = {"int": int, "float": float, "bool": bool, "complex": complex, "object": object}
"""Names that NumPy had for Python's types."""


class Mend(NamedTuple):
    """A name in a module, and what it has to mean."""

    module: ModuleType
    name: str
    instead: Any


def mends(modules: Iterable[ModuleType], pygame: Any) -> tuple[Mend, ...]:
    """Find the names to put right in modules; none where NumPy and pygame still do what is expected of them."""
    instead: dict[int, Any] = {}
    if missing := missing_aliases():
        instead[id(np)] = _twin(np, **missing)
    if refuses_arrays(pygame):
        line = _patient(pygame.draw.line)
        draw = _twin(pygame.draw, line=line)
        instead |= {id(pygame): _twin(pygame, draw=draw), id(pygame.draw): draw, id(pygame.draw.line): line}
    return tuple(
        Mend(module, name, instead[id(value)])
        for module in modules
        for name, value in vars(module).items()
        if id(value) in instead
    )


@contextmanager
def mended(found: Iterable[Mend]) -> Iterator[None]:
    """Put names right, and everything back afterwards."""
    before = [(mend, vars(mend.module)[mend.name]) for mend in found]
    try:
        for mend, _ in before:
            setattr(mend.module, mend.name, mend.instead)
        yield
    finally:
        for mend, value in before:
            setattr(mend.module, mend.name, value)


def missing_aliases() -> dict[str, type]:
    """Return the names for Python's types that this NumPy lacks."""
    # Asked by attribute, some versions warn.
    return {name: kind for name, kind in ALIASES.items() if name not in vars(np)}


def refuses_arrays(pygame: Any) -> bool:
    """Say whether this pygame refuses to draw a line to where a coordinate is an array of one number."""
    one = np.zeros(1, int)
    try:
        pygame.draw.line(pygame.Surface((1, 1)), (0, 0, 0), (0, one), (0, one))
    except (TypeError, DeprecationWarning):
        return True
    return False


def _twin(module: Any, **other: Any) -> ModuleType:
    twin = ModuleType(module.__name__)
    twin.__dict__.update(vars(module))
    twin.__dict__.update(other)
    # What a module makes only when it is asked for.
    twin.__dict__["__getattr__"] = lambda name: getattr(module, name)
    return twin


def _patient(line: Any) -> Any:
    def patient(surface: Any, color: Any, start: Any, end: Any, *rest: Any, **named: Any) -> Any:
        return line(surface, color, _plain(start), _plain(end), *rest, **named)

    return patient


def _plain(point: Any) -> tuple[Any, Any]:
    x, y = point
    return x.item() if isinstance(x, np.ndarray) else x, y.item() if isinstance(y, np.ndarray) else y


PURPOSE: Final = "the domain 'ple'"
MISSING: Final = (
    f"{PURPOSE} needs ple, which is installed from its source: "
    "clone the GitHub project ntasfi/PyGame-Learning-Environment and run 'pip install .' in it"
)


class Arcade(NamedTuple):
    """A game, and what is needed to play it."""

    name: str
    game: Any
    """The game's class."""
    environment: Any
    """The class `ple.PLE`."""
    pygame: Any
    mends: tuple[Mend, ...]
    """What has to be other in ple's modules while they run."""


def load_arcade(name: str) -> Arcade:
    """Import ple and find a game by the name of its class."""
    package = _import("ple")
    games = games_in(_import("ple.games"))
    if not hasattr(package, "PLE"):
        raise TfsmError(MISSING)  # another package of this name
    if name not in games:
        known = ", ".join(sorted(games))
        told = known in suggestion(name, sorted(games))
        raise UnknownNameError("game", name, games, hint="" if told else f" ple.games has {known}")
    pygame = optional("pygame", extra="replay", purpose=PURPOSE)
    own = [module for key, module in list(sys.modules.items()) if key == "ple" or key.startswith("ple.")]
    return Arcade(name, games[name], package.PLE, pygame, mends(own, pygame))


def games_in(module: ModuleType) -> dict[str, type]:
    """Return the pygame games by name; Doom, where it can be had, is none of them and has no seed of this kind."""
    base = _import("ple.games.base.pygamewrapper").PyGameWrapper
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }


def _import(name: str) -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        # ple prints which of its games cannot be had, and is old enough for Python to warn about its syntax.
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing == "ple":
            raise TfsmError(MISSING) from None
        if missing in ("pygame", "PIL"):
            optional(missing, extra="replay", purpose=PURPOSE)
        raise TfsmError(f"{PURPOSE}: ple needs {missing}, which is not installed") from error
    except Exception as error:
        # Its games are imported all together: one whose file is broken takes the others with it.
        raise TfsmError(f"{PURPOSE}: ple cannot be imported: {type(error).__name__}: {error}") from error


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


_one_at_a_time: Final = RLock()
"""pygame has one queue of key presses for the whole process."""


@contextmanager
def stage(arcade: Arcade, *, leave: bool = False) -> Iterator[None]:
    """Make it possible to play.

    Args:
        arcade: which game.
        leave: whether to close the unseen display afterwards, so that a window can be opened.
    """
    with _one_at_a_time, headless_display(), mended(arcade.mends):
        display: Any = arcade.pygame.display
        display.init()
        if display.get_surface() is None:
            display.set_mode((1, 1))  # pictures can be converted only where there is a display
        try:
            yield
        finally:
            if leave and display.get_driver() == "dummy":
                display.quit()
