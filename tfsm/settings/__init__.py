"""The settings of a run, with the source of each value.

They come from the shipped `tfsm.toml`, the defaults of plugins, the user's `tfsm.toml` and the command line. Importing
this package does not import TensorFlow.
"""

from __future__ import annotations

from tfsm.settings.resolve import GeneralSettings, resolve, resolve_general
from tfsm.settings.schema import EngineOptions, ResolvedSettings, RunOptions, Settings, choose_threads
from tfsm.settings.sources import built_in_path, config_paths, nearest_path

__all__ = [
    "EngineOptions",
    "GeneralSettings",
    "ResolvedSettings",
    "RunOptions",
    "Settings",
    "built_in_path",
    "choose_threads",
    "config_paths",
    "nearest_path",
    "resolve",
    "resolve_general",
]
