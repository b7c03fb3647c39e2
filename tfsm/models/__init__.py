"""Keras models as networks: flat genomes, and B genomes of one architecture run at once."""

from __future__ import annotations
