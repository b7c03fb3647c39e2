"""What holds for every run, whatever its domain: `[run]` and `[engine]` of all files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfsm.experiments.settings.checks import check
from tfsm.experiments.settings.engine_options import EngineOptions
from tfsm.experiments.settings.files import config_files
from tfsm.experiments.settings.layers import engine_layer, run_layer
from tfsm.experiments.settings.resolve import BUILT_IN, complete
from tfsm.experiments.settings.run_options import RunOptions
from tfsm.plugins import Plugins


@dataclass(frozen=True, kw_only=True)
class General:
    """Settings before a domain is chosen, and where each came from."""

    run: dict[str, Any]
    """With `intensity` by operator; an operator that no `[run]` names is not in it."""
    engine: dict[str, Any]
    sources: dict[str, str]
    """By dotted path, such as `population`, `intensity.control` or `engine.memory`."""


def resolve_general(plugins: Plugins, *, config: Path | None = None, cwd: Path | None = None) -> General:
    """Resolve what holds where no domain and no command line says otherwise."""
    files = config_files(config, cwd)
    for file in files:
        check(file, plugins)
    sources: dict[str, str] = {}
    run = complete(RunOptions, run_layer(files, None, None), BUILT_IN, sources)
    del run["intensity"], sources["intensity"]
    intensities: dict[str, object] = {}
    for name in plugins.mutations:
        layer = {key: item for key, item in run_layer(files, None, name).items() if key == "intensity"}
        if layer:
            intensities[name] = complete(RunOptions, layer, BUILT_IN, {})["intensity"]
            sources[f"intensity.{name}"] = layer["intensity"].source
    engine = complete(EngineOptions, engine_layer(files), BUILT_IN, sources, "engine.")
    return General(run={**run, "intensity": intensities}, engine=engine, sources=sources)
