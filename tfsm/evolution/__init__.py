"""The steady-state loop: many runs in lock step, each with the paper's one-child-at-a-time semantics."""

from __future__ import annotations
