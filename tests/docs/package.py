"""The packages that the documents describe: the example, and those of the tutorials."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.markdown import DOCS, ROOT, blocks, commands
from tests.helpers.fake_distribution import FakeSite
from tfsm.plugins.scaffold import PackageNames, names_for, package_files

EXAMPLE = ROOT / "examples" / "tfsm-example-plugin"
TUTORIALS = sorted((DOCS / "guides").glob("your-own-*.md"))


def names() -> set[str]:
    """Return the names of parts that only these packages register."""
    hooks = (EXAMPLE / "src" / "tfsm_example" / "__init__.py").read_text(encoding="utf-8")
    return {*re.findall(r'registry\.add\(\s*"([^"]+)"', hooks), *(parse_new_command(page).part for page in TUTORIALS)}


def install(folder: Path) -> None:
    """Install the example into a folder for the import path."""
    FakeSite(folder).install_source(EXAMPLE)


def parse_new_command(page: Path) -> PackageNames:
    """Return the names of the package that a tutorial creates."""
    (command,) = [command for command in commands(page) if command.words[1:3] == ("plugins", "new")]
    _, _, _, name, flag, kind = command.words
    assert flag == "--kind"
    return names_for(name, kind)


def write_tutorial_package(page: Path, folder: Path) -> Path:
    """Write the package of a tutorial in its final state: the new package, with the files of the page."""
    own = {block.title: block.text for block in blocks(page, "python") if block.title}
    files = package_files(parse_new_command(page))
    assert own.keys() <= files.keys(), f"{page.name}: files that are not in a new package"
    for path, text in {**files, **own}.items():
        target = folder / parse_new_command(page).package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder / parse_new_command(page).package
