"""Third-party plugin packages written to a folder, so that importlib.metadata finds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from textwrap import dedent

from tests.helpers.commands import CommandResult, importable, tfsm


def make_plugin_source(*names: str, kind: str = "mutation", target: str = "fake_parts:Part", extra: str = "") -> str:
    """Return the source of a plugin that registers these names, and then runs `extra` in the hook."""
    lines = ["from tfsm import hookimpl", "@hookimpl", f"def tfsm_register_{kind}s(registry):"]
    lines += [f"    registry.add({name!r}, {target!r}, description='the fake {name}')" for name in names]
    return "\n".join([*lines, f"    {extra or 'pass'}", ""])


@dataclass(frozen=True)
class FakeSite:
    """A folder for the import path."""

    root: Path

    def module(self, name: str, source: str) -> None:
        """Write a module."""
        (self.root / f"{name}.py").write_text(dedent(source), encoding="utf-8")

    def install(self, distribution: str, plugins: Mapping[str, str], version: str = "1.0") -> tuple[EntryPoint, ...]:
        """Write a distribution with one module per plugin, given by its source, and return its entry points."""
        info = self.root / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        lines = ["[tfsm]"]
        for plugin, source in plugins.items():
            module = f"{distribution}_{plugin}".replace("-", "_")
            self.module(module, source)
            lines.append(f"{plugin} = {module}")
        (info / "entry_points.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
        return tuple(Distribution.at(info).entry_points)

    def install_source(self, folder: Path) -> None:
        """Copy a package in src layout to the folder, and write the metadata that pip would write."""
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        shutil.copytree(folder / "src", self.root, dirs_exist_ok=True)
        info = self.root / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        points = [f"{name} = {target}" for name, target in project["entry-points"]["tfsm"].items()]
        (info / "entry_points.txt").write_text("\n".join(["[tfsm]", *points, ""]), encoding="utf-8")

    def environ(self, **variables: str) -> dict[str, str]:
        """Return an environment with the folder on the path and without the settings of the caller."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("TFSM_", "_TFSM_"))}
        path = os.pathsep.join(filter(None, [str(self.root), inherited.get("PYTHONPATH", "")]))
        return {**inherited, "PYTHONPATH": path, **variables}

    def tfsm(self, *arguments: str, **variables: str) -> CommandResult:
        """Run the command line in this process."""
        with importable(self.root):
            return tfsm(*arguments, cwd=self.root, environ=self.environ(**variables))

    def tfsm_process(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command line in a subprocess."""
        return self.python("-m", "tfsm", *arguments, **variables)

    def python(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python in a subprocess."""
        return subprocess.run(
            [sys.executable, *arguments],
            env=self.environ(**variables),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
