"""On which line of a TOML file a value stands, which the parser does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<string>\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')|(?P<comment>\#[^\n]*)"""
    r"""|(?P<key>^[ \t]*[\w.-]+(?=[ \t]*=))|(?P<bracket>[\[\]])|(?P<newline>\n)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def lines_of(text: str) -> dict[tuple[str | int, ...], int]:
    """Return the line of each top-level key, `(key,)`, and of each array in the array that it holds, `(key, i)`."""
    return dict(_places(text))


def _places(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    line, depth, key, count = 1, 0, "", 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "key" and depth == 0:
            key, count = token.group().strip(), 0
            yield (key,), line
        elif token.lastgroup == "bracket" and token.group() == "[":
            depth += 1
            if depth == 2 and key:
                yield (key, count), line
                count += 1
        elif token.lastgroup == "bracket":
            depth -= 1
        line += token.group().count("\n")
