"""The package that docs/plugins.md writes out, taken from there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.docs.markdown import DOCS, blocks

PAGE = DOCS / "plugins.md"


def files() -> dict[str, str]:
    """Return the package's files, by path."""
    return {block.title: block.text for kind in ("toml", "python") for block in blocks(PAGE, kind) if block.title}


def names() -> set[str]:
    """Return the names that it registers."""
    return set(re.findall(r'registry\.add\(\s*"([^"]+)"', files()["tfsm_xor/__init__.py"]))


def install(folder: Path) -> None:
    """Write the package to a folder for the import path, and what pip would write about it."""
    for path, text in files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    project = tomllib.loads(files()["pyproject.toml"])["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    points = [f"{name} = {target}" for name, target in project["entry-points"]["tfsm"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[tfsm]", *points, ""]), encoding="utf-8")
