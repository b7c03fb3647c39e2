"""Parse Markdown files: blocks, commands, prose, anchors and links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "adr").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted(set(DOCS.rglob("*.md")) - set(DECISIONS))]
ALL_PAGES = [*PAGES, *DECISIONS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    mark: str
    """What follows the language: `no-run`, or `title="..."`."""
    text: str
    line: int
    """Where its text begins, from 1."""

    @property
    def title(self) -> str:
        found = re.search(r'title="([^"]+)"', self.mark)
        return found[1] if found else ""


@dataclass(frozen=True)
class Command:
    """A line of a console block after the prompt, with its documented output."""

    words: tuple[str, ...]
    environment: dict[str, str]
    output: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((*(f"{key}={value}" for key, value in self.environment.items()), *self.words))


def blocks(page: Path, language: str) -> list[Block]:
    """Return the blocks of one language."""
    return [block for block in _blocks(page) if block.language == language]


def _blocks(page: Path) -> Iterator[Block]:
    opened: tuple[str, str, int] | None = None
    text: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if opened is None and line.startswith("```"):
            language, _, mark = line[3:].strip().partition(" ")
            opened, text = (language, mark, number + 1), []
        elif opened is not None and line.rstrip() == "```":
            yield Block(opened[0], opened[1], "\n".join(text) + "\n", opened[2])
            opened = None
        elif opened is not None:
            text.append(line)
    assert opened is None, f"{page}: the block at line {opened and opened[2] - 1} is never closed"


def commands(page: Path) -> list[Command]:
    """Return the commands of all console blocks."""
    return [command for block in blocks(page, "console") for command in _commands(block)]


def _commands(block: Block) -> Iterator[Command]:
    lines = block.text.replace("\\\n", " ").splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        words = shlex.split(lines[start][2:], comments=True)
        environment = {}
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, environment_value = words.pop(0).partition("=")
            environment[name] = environment_value
        yield Command(tuple(words), environment, tuple(lines[start + 1 : end]))


def prose(page: Path) -> str:
    """Return the text without its blocks and code spans."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    return find_anchors(page.read_text("utf-8"))


def find_anchors(markdown: str) -> set[str]:
    """Return the anchors of the headings of a text."""
    text = re.sub(r"^```.*?^```$", "", markdown, flags=re.M | re.S)
    headings = re.findall(r"^#+ +(.+?) *$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """Return the targets of links and images that stay in the repository."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]
