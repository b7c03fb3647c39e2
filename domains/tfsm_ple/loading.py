"""Finding ple and one of its games, or saying what is missing."""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any, Final, NamedTuple

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.extras import optional
from tfsm_ple.mending import Mend, mends

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
