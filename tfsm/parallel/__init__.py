"""Pools of workers, processes or Ray actors, that run any picklable task."""

from __future__ import annotations
