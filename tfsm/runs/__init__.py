"""Experiments: running and resuming them, and their directories on disk."""

from __future__ import annotations
