"""Drawing by pygame where nobody watches: no window opens and nothing sounds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

UNSEEN: Final = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    # Else SDL makes a key press of SIGTERM, at which a game would end the process as if its window had been closed.
    "SDL_NO_SIGNAL_HANDLERS": "1",
}


@contextmanager
def unseen() -> Iterator[None]:
    """Let displays that are opened in here be seen by nobody."""
    before = {name: os.environ.get(name) for name in UNSEEN}
    os.environ.update(UNSEEN)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
