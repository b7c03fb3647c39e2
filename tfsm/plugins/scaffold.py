"""Tfsm plugins new."""

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


@dataclass(frozen=True)
class PackageNames:
    """All names, made from what users shall type."""

    kind: Kind
    part: str
    """`my-noise`"""

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
    """Return all names, or say what is wrong with the one that was given.

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
        near = _suggest_name(part)
        hint = f", did you mean {near!r}?" if near else ""
        raise TfsmError(f"bad name {name!r}: expected lower-case letters, digits and single '-' between them{hint}")
    return PackageNames(known, part)


def _suggest_name(name: str) -> str:
    """Return the nearest name that would do, or nothing."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    words = re.findall(r"[a-z0-9]+", spaced.lower())
    near = "-".join(words).lstrip("0123456789-")
    return near if _NAME.fullmatch(near) else ""


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
"""What is written, and from which template."""

_USES: Final = {
    "mutation": "tfsm run parity --mutation {part} --intensity 0.1",
    "domain": "tfsm run {part} --mutation sm-g-sum --intensity 0.1",
    "selection": "tfsm run parity --mutation sm-g-sum --selection {part}",
    "observer": "tfsm run parity --mutation sm-g-sum --observer {part}",
}


def package_files(names: PackageNames) -> dict[str, str]:
    """Return the package's files, by path."""
    places = {"module": names.module, "kind": names.kind, "name": names.part.replace("-", "_")}
    values = {
        **places,
        "part": names.part,
        "package": names.package,
        "title": names.title,
        "hooks": str(HOOKS_VERSION),
        "tfsm": __version__,
        "use": usage_example(names),
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
    """Write a package to a new directory, and return that.

    Args:
        names: what it is called.
        plugins: what is installed: a name may not be taken.
        out: the directory; the package's name in the working directory if None.
    """
    parts, directory = plugins.parts(names.kind), out or Path(names.package)
    if names.part in parts:
        raise TfsmError(f"a {names.kind} named {names.part!r} is there already, by {parts[names.part].origin}")
    if importlib.util.find_spec(names.module) is not None:
        raise TfsmError(f"a module named {names.module!r} is installed already: choose another name")
    if directory.exists():
        raise TfsmError(f"{directory} exists already: choose another name, or another directory with --out")
    for path, text in package_files(names).items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return directory
