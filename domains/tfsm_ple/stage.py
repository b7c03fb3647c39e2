"""Where games are played: without a window, without sound, and one evaluation at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final

from tfsm.rollouts.unseen import unseen
from tfsm_ple.loading import Arcade
from tfsm_ple.mending import mended

_one_at_a_time: Final = RLock()
"""pygame has one queue of key presses for the whole process."""


@contextmanager
def stage(arcade: Arcade, *, leave: bool = False) -> Iterator[None]:
    """Make it possible to play.

    Args:
        arcade: which game.
        leave: whether to close the unseen display afterwards, so that a window can be opened.
    """
    with _one_at_a_time, unseen(), mended(arcade.mends):
        display: Any = arcade.pygame.display
        display.init()
        if display.get_surface() is None:
            display.set_mode((1, 1))  # pictures can be converted only where there is a display
        try:
            yield
        finally:
            if leave and display.get_driver() == "dummy":
                display.quit()
