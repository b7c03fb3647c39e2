"""Model files from others: what is in one is looked at before Keras opens it."""

from __future__ import annotations
