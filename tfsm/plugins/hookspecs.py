"""The hooks that a plugin may implement.

A plugin is a module named by an entry point of the group `tfsm`. It registers names and `module:attribute` strings,
never classes, so that listing the installed parts does not import TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from tfsm.plugins.registry import Registry


PROJECT: Final = "tfsm"
"""The name of the entry-point group and of pluggy's project."""

HOOKS_VERSION: Final = 2
"""The version of the plugin interface: these hooks, `Registry`, and `tfsm.interfaces`.

Raised by every change that breaks existing plugins. A plugin declares the version it was written for with
`tfsm_hooks = 2`. A plugin without a declaration is assumed to be compatible.
"""

OLDEST_HOOKS_VERSION: Final = 2
"""The oldest version that is still supported."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin as the implementation of a hook.

>>> import tfsm
>>> @tfsm.hookimpl
... def tfsm_register_mutations(registry):
...     registry.add("my-noise", "my_package.noise:MyNoise", description="my noise", intensity=0.1)
"""


@hookspec
def tfsm_register_mutations(registry: Registry) -> None:
    """Register mutation operators: `registry.add("my-mutation", "my_package.my_module:MyMutation", intensity=0.1)`."""


@hookspec
def tfsm_register_domains(registry: Registry) -> None:
    """Register domains: `registry.add("my-domain", "my_package.my_module:MyDomain", defaults={"population": 50})`."""


@hookspec
def tfsm_register_selections(registry: Registry) -> None:
    """Register selection schemes: `registry.add("my-scheme", "my_package.my_module:MyScheme", options=MyOptions)`."""


@hookspec
def tfsm_register_observers(registry: Registry) -> None:
    """Register observers: `registry.add("my-observer", "my_package.my_module:MyObserver", options=MyOptions)`."""
