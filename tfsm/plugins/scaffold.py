"""Write a new plugin package from templates: `tfsm plugins new`."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from tfsm import __version__
from tfsm.errors import TfsmError, suggestion
from tfsm.plugins import Plugins
from tfsm.plugins.hookspecs import HOOKS_VERSION
from tfsm.plugins.registry import KINDS, Kind

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_FILES: Final = {
    "pyproject.toml": "common/pyproject.toml",
    "README.md": "common/README.md",
    ".gitignore": "common/gitignore",
    ".github/workflows/test.yml": "common/test.yml",
    "src/{module}/__init__.py": "common/init.py",
    "src/{module}/options.py": "{kind}/options.py",
    "src/{module}/{kind}.py": "{kind}/part.py",
    "tests/test_{name}.py": "{kind}/test.py",
}
"""The files of a package, and their templates."""

_USES: Final = {
    "mutation": "tfsm run parity --mutation {part}",
    "domain": "tfsm run {part} --mutation sm-g-sum",
    "selection": "tfsm run parity --mutation sm-g-sum --selection {part}",
    "observer": "tfsm run parity --mutation sm-g-sum --observer {part}",
}

_DEFAULTS: Final = {
    "mutation": """
        intensity=0.1,""",
    "domain": """
        # The [domains.NAME] table of a tfsm.toml; users can override every key.
        defaults={
            "population": 50,
            "evaluations": 10_000,
            "log_every": 100,
            "intensity": {"control": 0.1, "sm-g-sum": 0.1},
        },""",
}
"""The default settings that a part is registered with."""


@dataclass(frozen=True)
class PackageNames:
    """The names of a package and its contents, derived from the name of the part."""

    kind: Kind
    part: str
    """The name that users type: `my-noise`."""

    @property
    def package(self) -> str:
        """The distribution and its folder: `tfsm-my-noise`."""
        return f"tfsm-{self.part}"

    @property
    def module(self) -> str:
        """The import package: `tfsm_my_noise`."""
        return self.package.replace("-", "_")

    @property
    def title(self) -> str:
        """The class: `MyNoise`."""
        return "".join(word.capitalize() for word in self.part.split("-"))


def names_for(name: str, kind: str) -> PackageNames:
    """Return the names of a package for a part, or raise a `TfsmError` that suggests a valid name.

    >>> names_for("my-noise", "mutation").module
    'tfsm_my_noise'
    """
    for known in KINDS:
        if kind == known:
            break
    else:
        raise TfsmError(f"--kind {kind}: no such kind of part{suggestion(kind, KINDS)}")
    part = name.removeprefix("tfsm-")
    if not _NAME.fullmatch(part):
        valid = _suggest_name(part)
        hint = f", did you mean {valid!r}?" if valid else ""
        raise TfsmError(f"bad name {name!r}: expected lower-case letters and digits, separated by single '-'{hint}")
    return PackageNames(known, part)


def package_files(names: PackageNames) -> dict[str, str]:
    """Return the contents of the package's files by path."""
    places = {"module": names.module, "kind": names.kind, "name": names.part.replace("-", "_")}
    values = {
        **places,
        "part": names.part,
        "package": names.package,
        "title": names.title,
        "hooks": str(HOOKS_VERSION),
        "tfsm": __version__,
        "use": usage_example(names),
        "defaults": _DEFAULTS.get(names.kind, ""),
    }
    templates = files("tfsm.plugins") / "templates"
    return {
        path.format(**places): Template((templates / f"{source.format(**places)}.tmpl").read_text("utf-8")).substitute(
            values
        )
        for path, source in _FILES.items()
    }


def usage_example(names: PackageNames) -> str:
    """Return a command that uses the part."""
    return _USES[names.kind].format(part=names.part)


def write_package(names: PackageNames, plugins: Plugins, out: Path | None = None) -> Path:
    """Write a package to a new directory and return the directory.

    Args:
        names: the names of the package.
        plugins: the installed plugins, whose names are taken.
        out: the directory; by default the package's name in the working directory.
    """
    parts, directory = plugins.parts(names.kind), out or Path(names.package)
    if names.part in parts:
        raise TfsmError(f"{names.kind} {names.part!r} already exists, registered by {parts[names.part].origin}")
    if importlib.util.find_spec(names.module) is not None:
        raise TfsmError(f"a module named {names.module!r} is already installed: choose another name")
    if directory.exists():
        raise TfsmError(f"{directory} already exists: choose another name, or another directory with --out")
    for path, text in package_files(names).items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return directory


def _suggest_name(name: str) -> str:
    """Return the closest valid name, or an empty string."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    words = re.findall(r"[a-z0-9]+", spaced.lower())
    valid = "-".join(words).lstrip("0123456789-")
    return valid if _NAME.fullmatch(valid) else ""
