"""The command line: parses arguments and prints results, and nothing else."""

from __future__ import annotations
