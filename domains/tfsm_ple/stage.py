"""Where games are played: without a window, without sound, and one evaluation at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final

from tfsm_ple.loading import Arcade
from tfsm_ple.mending import mended

UNSEEN: Final = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    # Else SDL makes a key press of SIGTERM, at which a game would end the process as if its window had been closed.
    "SDL_NO_SIGNAL_HANDLERS": "1",
}

_one_at_a_time: Final = RLock()
"""pygame has one queue of key presses for the whole process."""


@contextmanager
def stage(arcade: Arcade, *, leave: bool = False) -> Iterator[None]:
    """Make it possible to play.

    Args:
        arcade: which game.
        leave: whether to close the unseen display afterwards, so that a window can be opened.
    """
    with _one_at_a_time, _environment(UNSEEN), mended(arcade.mends):
        display: Any = arcade.pygame.display
        display.init()
        if display.get_surface() is None:
            display.set_mode((1, 1))  # pictures can be converted only where there is a display
        try:
            yield
        finally:
            if leave and display.get_driver() == "dummy":
                display.quit()


@contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
