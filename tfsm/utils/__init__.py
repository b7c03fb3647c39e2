"""Helpers that know nothing of evolution: atomic files, JSON, optional libraries and TensorFlow's start-up."""

from __future__ import annotations
