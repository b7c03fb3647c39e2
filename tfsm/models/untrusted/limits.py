"""How much a file may take, before any of it is taken."""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 2**31
"""Of an archive unpacked, of all weights, and of an experience."""
MOST_GROWTH: Final = 100
"""How many times larger data may be than what is stored of them; Keras does not compress at all."""
SMALL: Final = 2**24
"""Bytes that may grow as they like."""
MOST_MEMBERS: Final = 10_000
MOST_CONFIG: Final = 2**26
"""Bytes of a configuration."""
MOST_DEPTH: Final = 200
"""How deep a configuration may be nested."""


def is_bomb(size: int, stored: int) -> bool:
    """Say whether data grow more than honest ones do."""
    return size > max(SMALL, MOST_GROWTH * stored)
