"""The settings of a run: from the shipped `tfsm.toml`, the user's own and the command line, with their provenance.

Importing this imports no TensorFlow.
"""

from __future__ import annotations

from tfsm.experiments.settings.engine_options import EngineOptions
from tfsm.experiments.settings.files import built_in_path, config_paths, nearest_path
from tfsm.experiments.settings.general import General, resolve_general
from tfsm.experiments.settings.model import Init, Resolved, Settings
from tfsm.experiments.settings.resolve import resolve
from tfsm.experiments.settings.run_options import RunOptions

__all__ = [
    "EngineOptions",
    "General",
    "Init",
    "Resolved",
    "RunOptions",
    "Settings",
    "built_in_path",
    "config_paths",
    "nearest_path",
    "resolve",
    "resolve_general",
]
