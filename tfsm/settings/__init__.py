"""The settings of a run: from the shipped `tfsm.toml`, the user's own and the command line, with their provenance.

Importing this imports no TensorFlow.
"""

from __future__ import annotations

from tfsm.interfaces import Init
from tfsm.settings.resolve import GeneralSettings, resolve, resolve_general
from tfsm.settings.schema import EngineOptions, ResolvedSettings, RunOptions, Settings
from tfsm.settings.sources import built_in_path, config_paths, nearest_path

__all__ = [
    "EngineOptions",
    "GeneralSettings",
    "Init",
    "ResolvedSettings",
    "RunOptions",
    "Settings",
    "built_in_path",
    "config_paths",
    "nearest_path",
    "resolve",
    "resolve_general",
]
