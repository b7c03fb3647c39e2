"""Experiments: what is run, how often, with which settings, and what came of it."""

from __future__ import annotations
