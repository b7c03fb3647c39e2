"""A test double of ple: the same interface, with games small enough to predict."""

from __future__ import annotations

import os

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

from tests.domains.ple.double.environment import PLE

__all__ = ["PLE"]
