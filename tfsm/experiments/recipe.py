"""What a worker needs to make an engine of its own: nothing of TensorFlow in it, so that it can be sent."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras

from tfsm.experiments.settings import Settings
from tfsm.plugins import Plugins, load_plugins
from tfsm.registry import Kind


@dataclass(frozen=True)
class Recipe:
    """Settings, and what no setting tells: parts that came ready made, and a model of the user's own."""

    settings: Settings
    ready_made: tuple[tuple[Kind, Any], ...] = ()
    model: keras.Model | None = None
    disabled: tuple[str, ...] = ()
    folder: str = field(default_factory=os.getcwd)
    """Where files and modules are that the settings name."""

    def plugins(self) -> Plugins:
        """Load the plugins, in a worker."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        plugins = load_plugins(disabled=self.disabled)
        for kind, part in self.ready_made:
            plugins, _ = plugins.with_part(kind, part)
        return plugins

    def for_runs(self, count: int) -> Recipe:
        """Return a recipe for so many runs."""
        return replace(self, settings=replace(self.settings, runs=count))


def recipe_of(plugins: Plugins, settings: Settings, model: keras.Model | None = None) -> Recipe:
    """Return what a worker needs to do what would be done here."""
    chosen = (
        plugins.domains[settings.domain],
        plugins.mutations[settings.mutation],
        plugins.selections[settings.selection],
    )
    disabled = tuple(info.name for info in plugins.infos if info.state == "disabled")
    return Recipe(settings, tuple((e.kind, e.part) for e in chosen if e.part is not None), model, disabled)
