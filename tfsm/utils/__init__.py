"""What domains in plain Python have in common: asking networks in lock step, remembering, and showing."""

from __future__ import annotations
