"""Safe mutations for Keras models.

Importing `tfsm` does not import TensorFlow: public names are resolved on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfsm.errors import TfsmError
from tfsm.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from tfsm import functional
    from tfsm.api import divergence, evolve, mutate, sensitivity
    from tfsm.interfaces import Child, Choice, Evaluation, Observer
    from tfsm.models.genome import flatten, unflatten
    from tfsm.models.loading import load_model
    from tfsm.search import Search

__all__ = [
    "Child",
    "Choice",
    "Evaluation",
    "Observer",
    "Search",
    "TfsmError",
    "__version__",
    "divergence",
    "evolve",
    "flatten",
    "functional",
    "hookimpl",
    "load_model",
    "mutate",
    "sensitivity",
    "unflatten",
]

__version__ = "0.2.0"

_LAZY = {
    **dict.fromkeys(("divergence", "evolve", "mutate", "sensitivity"), "tfsm.api"),
    **dict.fromkeys(("flatten", "unflatten"), "tfsm.models.genome"),
    "load_model": "tfsm.models.loading",
    "Search": "tfsm.search",
    **dict.fromkeys(("Child", "Choice", "Evaluation", "Observer"), "tfsm.interfaces"),
}
_MODULES = ("functional",)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"tfsm.{name}")
    raise AttributeError(f"module 'tfsm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
