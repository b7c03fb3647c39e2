"""Checks for a whole plugin."""

from __future__ import annotations

import os
import subprocess
import sys

from tfsm.hookspecs import HOOKS_VERSION
from tfsm.testing.failure import Failed, require
from tfsm.testing.trying import PluginSubject

_PROGRAM = "import importlib, sys; importlib.import_module(sys.argv[1]); sys.exit('tensorflow' in sys.modules)"


def loads(subject: PluginSubject) -> None:
    """The plugin is loaded, and registers something."""
    info = subject.info
    if info.state == "broken":
        raise Failed(str(info), "mend what the message says; docs/plugins.md lists what such messages mean")
    require(info.state == "loaded", str(info), "enable it: --disable-plugin or TFSM_DISABLE_PLUGINS names it")
    require(
        any(info.registers.values()),
        f"the module {subject.module!r} registers nothing",
        "implement a hook such as tfsm_register_mutations(registry), marked with @hookimpl",
    )


def says_its_version_of_the_interface(subject: PluginSubject) -> None:
    """It states what it was written for, so that a later tfsm can tell."""
    require(
        subject.info.hooks is not None,
        f"the module {subject.module!r} does not say which version of the plugin interface it was written for",
        f"write tfsm_hooks = {HOOKS_VERSION} into it: then a tfsm with another interface says so instead of failing",
    )


def imports_no_tensorflow_to_be_listed(subject: PluginSubject) -> None:
    """Importing the plugin is quick, because every command does that."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([sys.executable, "-c", _PROGRAM, subject.module], env=environ, check=False)
    require(
        ended.returncode == 0,
        f"importing {subject.module!r} imports TensorFlow: tfsm --help and every listing would take seconds",
        "register 'module:Class' strings, and keep the dataclasses of options in a module that imports no TensorFlow",
    )
