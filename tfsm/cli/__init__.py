"""The command line: one file a command; it parses and prints, and nothing else."""

from __future__ import annotations
