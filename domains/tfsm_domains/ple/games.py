"""Find, patch and play a PLE game without a visible window.

PLE predates current versions of NumPy and pygame. Its files and those libraries stay unchanged: while a game runs, only
the names that PLE's own modules have for them are rebound to compatible versions.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import packages_distributions
from threading import RLock
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from tfsm.errors import TfsmError, UnknownNameError, import_optional, suggestion
from tfsm.render.canvas import headless_display

ALIASES: Final[dict[str, type]] = {"int": int, "float": float, "bool": bool, "complex": complex, "object": object}
"""Aliases that NumPy used to have for Python's types."""


class Patch(NamedTuple):
    """A name in a module, and the value to bind it to."""

    module: ModuleType
    name: str
    replacement: Any


def find_patches(modules: Iterable[ModuleType], pygame: Any) -> tuple[Patch, ...]:
    """Return the patches that modules need; none if NumPy and pygame still behave as PLE expects."""
    replacements: dict[int, Any] = {}
    if missing := missing_aliases():
        replacements[id(np)] = _copy_module(np, **missing)
    if refuses_arrays(pygame):
        line = _accept_arrays(pygame.draw.line)
        draw = _copy_module(pygame.draw, line=line)
        replacements |= {id(pygame): _copy_module(pygame, draw=draw), id(pygame.draw): draw, id(pygame.draw.line): line}
    return tuple(
        Patch(module, name, replacements[id(value)])
        for module in modules
        for name, value in vars(module).items()
        if id(value) in replacements
    )


@contextmanager
def apply_patches(patches: Iterable[Patch]) -> Iterator[None]:
    """Apply patches inside the context, and restore the original values afterwards."""
    before = [(patch, vars(patch.module)[patch.name]) for patch in patches]
    try:
        for patch, _ in before:
            setattr(patch.module, patch.name, patch.replacement)
        yield
    finally:
        for patch, value in before:
            setattr(patch.module, patch.name, value)


def missing_aliases() -> dict[str, type]:
    """Return the aliases of Python's types that this version of NumPy lacks."""
    # Not by attribute access, which makes some versions warn.
    return {name: kind for name, kind in ALIASES.items() if name not in vars(np)}


def refuses_arrays(pygame: Any) -> bool:
    """Return whether this version of pygame rejects coordinates that are arrays of one number."""
    one = np.zeros(1, int)
    try:
        pygame.draw.line(pygame.Surface((1, 1)), (0, 0, 0), (0, one), (0, one))
    except (TypeError, DeprecationWarning):
        return True
    return False


def _copy_module(module: Any, **changes: Any) -> ModuleType:
    copied = ModuleType(module.__name__)
    copied.__dict__.update(vars(module))
    copied.__dict__.update(changes)
    # Attributes that the module creates lazily.
    copied.__dict__["__getattr__"] = lambda name: getattr(module, name)
    return copied


def _accept_arrays(line: Any) -> Any:
    def draw_line(surface: Any, color: Any, start: Any, end: Any, *args: Any, **kwargs: Any) -> Any:
        return line(surface, color, _to_scalars(start), _to_scalars(end), *args, **kwargs)

    return draw_line


def _to_scalars(point: Any) -> tuple[Any, Any]:
    x, y = point
    return x.item() if isinstance(x, np.ndarray) else x, y.item() if isinstance(y, np.ndarray) else y


PURPOSE: Final = "the domain 'ple'"
INSTALL: Final = "clone the GitHub project ntasfi/PyGame-Learning-Environment and run 'pip install -e .' in it"
MISSING: Final = f"{PURPOSE} needs ple, which is installed from its source: {INSTALL}"


EDITABLE: Final = "PLE's packaging omits them; an editable install of a clone has them: run 'pip install -e .' in it"


class LoadedGame(NamedTuple):
    """A game's class and what is needed to play it."""

    name: str
    game_class: Any
    """The game's class."""
    ple_class: Any
    """The class `ple.PLE`."""
    pygame: Any
    patches: tuple[Patch, ...]
    """What must be patched in ple's modules while they run."""


def load_game(name: str) -> LoadedGame:
    """Import ple and find a game by its class name."""
    package = _import("ple")
    if importlib.util.find_spec("ple.games") is None or not hasattr(package, "PLE"):
        raise TfsmError(_describe_unrelated())
    games = find_games(_import("ple.games"))
    if name not in games:
        known = ", ".join(sorted(games))
        listed = known in suggestion(name, sorted(games))
        raise UnknownNameError("game", name, games, hint="" if listed else f" ple.games has {known}")
    pygame = import_optional("pygame", extra="replay", purpose=PURPOSE)
    modules = [module for key, module in list(sys.modules.items()) if key == "ple" or key.startswith("ple.")]
    return LoadedGame(name, games[name], package.PLE, pygame, find_patches(modules, pygame))


def _describe_unrelated() -> str:
    """Return the message for another package that is named ple, such as the one that fast-ple on PyPI installs."""
    owners = sorted(set(packages_distributions().get("ple", [])))
    origin = f", of {' and '.join(owners)}," if owners else ""
    uninstall = f"run 'pip uninstall {' '.join(owners)}', then " if owners else ""
    return f"{PURPOSE}: the installed package 'ple'{origin} is an unrelated one: {uninstall}{INSTALL}"


def find_games(module: ModuleType) -> dict[str, type]:
    """Return the pygame games by name; Doom is not a pygame game and cannot be seeded this way."""
    base = _import("ple.games.base.pygamewrapper").PyGameWrapper
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }


def _import(name: str) -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        # ple prints which of its games are unavailable, and its old syntax makes Python warn.
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing == "ple":
            raise TfsmError(MISSING) from None
        if missing in ("pygame", "PIL"):
            import_optional(missing, extra="replay", purpose=PURPOSE)
        raise TfsmError(f"{PURPOSE}: ple needs {missing}, which is not installed") from error
    except Exception as error:
        # ple imports all games together, so one broken file takes the others with it.
        raise TfsmError(f"{PURPOSE}: ple cannot be imported: {type(error).__name__}: {error}") from error


RATE: Final = 30
"""Frames per second of games that do not set their own rate."""
LUMINANCE: Final = np.array([0.21, 0.72, 0.07], np.float32)


class LegacyRandomState(np.random.RandomState):
    """A random state with the methods that games call."""

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        """Draw integers up to and including `high`; NumPy deprecates its own function of this name."""
        return self.randint(low, high + 1, size) if high is not None else self.randint(1, low + 1, size)


class GameInstance:
    """A game with its own screen.

    Args:
        game: the loaded game. `game_display` must be active here and whenever a method is called.
    """

    def __init__(self, game: LoadedGame) -> None:
        self._game = game
        self._random = LegacyRandomState(0)
        self._build()
        self.actions: list[Any] = self._ple.getActionSet()
        """Keys to press, and None for no key."""
        width, height = self._ple.getScreenDims()
        self.dims = int(width), int(height)
        """Width and height."""
        self.rate: int = self._ple.fps
        # pygame has a single display; games that take turns would draw over each other.
        self._screen = game.pygame.Surface(self.dims, 0, 32)
        self.frames = 0
        """Frames played since the start."""

    def start(self, seed: Sequence[int]) -> None:
        """Start a new game that depends on the seed alone."""
        self._random.seed(seed)
        if self._initial is None:
            self._build()
        else:
            self._restore()
        self._ple.game.screen = self._screen
        self._screen.fill((0, 0, 0))
        self._ple.reset_game()
        self._game.pygame.event.clear()
        self.frames = 0

    def act(self, action: Any, times: int, watch: Callable[[GameInstance], None] | None = None) -> None:
        """Hold a key for `times` frames, or until the game is over."""
        for _ in range(times):
            if self.over:
                return
            self._ple.act(action)
            self.frames += 1
            if watch is not None:
                watch(self)

    @property
    def over(self) -> bool:
        """Whether the game is over."""
        return bool(self._ple.game_over())

    @property
    def score(self) -> float:
        """The game's score."""
        return float(self._ple.score())

    def state(self) -> Any:
        """Return the game's state, or None if the game does not report one."""
        return self._ple.game.getGameState()

    def screenshot(self) -> np.ndarray:
        """Return the screen as `[height, width, 3]`, uint8."""
        return np.ascontiguousarray(self._game.pygame.surfarray.array3d(self._screen).swapaxes(0, 1))

    def grayscale(self, side: int) -> np.ndarray:
        """Return the screen in grayscale, resized to `[side, side]`, uint8."""
        small = self._game.pygame.transform.smoothscale(self._screen, (side, side))
        colours = self._game.pygame.surfarray.array3d(small).swapaxes(0, 1)
        return np.round(colours @ LUMINANCE).astype(np.uint8)

    def _build(self) -> None:
        try:
            game = self._game.game_class()
            self._initial = _copy_attributes(vars(game), self._game.pygame.Surface)
            self._ple = self._game.ple_class(game, fps=game.allowed_fps or RATE, rng=self._random)
        except (OSError, self._game.pygame.error) as error:
            if not isinstance(error, FileNotFoundError) and "file" not in str(error).lower():
                raise
            raise TfsmError(f"the game {self._game.name!r} does not find its images ({error}): {EDITABLE}") from error
        self._clock = game.clock

    def _restore(self) -> None:
        # A game's own reset is incomplete: a bird starts as fast as it ended. Building another game is safe, but can
        # take longer than playing it, especially if it loads images.
        game = self._ple.game
        vars(game).clear()
        vars(game).update(_copy_attributes(self._initial, self._game.pygame.Surface) or {})
        game.setRNG(self._random)
        game.clock = self._clock
        game.screen = self._screen
        game.init()


def _copy_attributes(attributes: Any, surface: type) -> dict[str, Any] | None:
    """Deep-copy a game's attributes except its surfaces, which are read-only; None if that is impossible."""
    memo = {id(image): image for image in _instances(attributes, surface)}
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


_pygame_lock: Final = RLock()
"""pygame has one event queue per process."""


@contextmanager
def game_display(game: LoadedGame, *, leave: bool = False) -> Iterator[None]:
    """Open a dummy display and patch ple, so that a game can be played.

    Args:
        game: the game to play.
        leave: whether to close the display afterwards, so that a window can be opened.
    """
    with _pygame_lock, headless_display(), apply_patches(game.patches):
        display: Any = game.pygame.display
        display.init()
        if display.get_surface() is None:
            display.set_mode((1, 1))  # surfaces can only be converted while there is a display
        try:
            yield
        finally:
            if leave and display.get_driver() == "dummy":
                display.quit()
