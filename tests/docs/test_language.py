"""The text of users and developers is plain technical English, and files are named by the field's words.

Dropped phrases must not come back: people-pronouns for data ("somebody", "whoever"), "is told" for "receives", "anew",
"gone on with", and so on. CONTRIBUTING.md has the words to use instead.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ALL_PAGES, ROOT

PACKAGES = [ROOT / "tfsm", ROOT / "plugins" / "tfsm_plugins", ROOT / "domains" / "tfsm_domains"]
SOURCES = sorted(file for folder in PACKAGES for file in folder.rglob("*.py"))
TESTS = sorted(file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__))
TEMPLATES = sorted(
    file
    for file in (ROOT / "tfsm").rglob("*")
    if file.suffix in (".tmpl", ".jinja", ".css", ".html") and file.is_file()
)
TEXTS = [
    *ALL_PAGES,
    ROOT / "Makefile",
    ROOT / "tfsm.toml",
    ROOT / "pyproject.toml",
    ROOT / "results" / "README.md",
    ROOT / "results" / "faults.md",
    *TEMPLATES,
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "docs" / "scripts").glob("*.py")),
    ROOT / "mkdocs.yml",
]

PHRASES = {
    "people for data": r"somebody|whoever|nobody|everybody|anybody|whosoever",
    "anew": r"anew",
    "gone on with": r"(?:go|goes|going|gone|went) on with",
    "told for reported": r"(?:is|are|was|were|be|been) told|unless told",
    "hear for receive": r"hears?|heard",
    "so many": r"so many",
    "the wanted": r"the wanted",
    "is had": r"(?:is|are|can be) had",
    "put aside": r"put aside",
    "dear": r"dearer?|dearest",
    "mend": r"mends?|mended|mending",
    "on its way": r"(?:is|are|was|were|children) on (?:its|their|the) way",
}
DROPPED = re.compile("|".join(rf"(?P<p{i}>\b(?:{text})\b)" for i, text in enumerate(PHRASES.values())), re.IGNORECASE)
DROPPED_IN_TESTS = re.compile(rf"{DROPPED.pattern}|(?P<told>\btold\b)", re.IGNORECASE)

OLD_FILE_NAMES = {
    *("adapting", "apart", "asking", "breeder", "breeding", "cadence", "care", "connecting", "desk", "elsewhere"),
    *("failing", "filming", "grouping", "ledger", "making", "mending", "nursery", "observing", "orders", "packing"),
    *("pace", "past", "places", "playing", "probing", "raying", "remembering", "replaying", "reuse", "saving"),
    *("selecting", "serving", "settling", "spent", "stage", "starting", "steadily", "steady", "stepping", "taps"),
    *("together", "told", "unseen", "untrusted", "where", "words"),
}
"""Module names of the former private vocabulary."""


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def find_dropped(lines: Iterator[tuple[int, str]], dropped: re.Pattern[str] = DROPPED) -> list[str]:
    """Return the dropped phrases in numbered pieces of text."""
    names = {f"p{index}": name for index, name in enumerate(PHRASES)} | {"told": "told"}
    return [
        f"line {number}: {match.group()!r} ({names[str(match.lastgroup)]})"
        for number, text in lines
        for match in dropped.finditer(" ".join(text.split()))
    ]


def user_text(file: Path) -> Iterator[tuple[int, str]]:
    """Return the docstrings and other string literals of a Python file, with their lines."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def developer_text(file: Path) -> Iterator[tuple[int, str]]:
    """Return the docstrings, comments and defined names of a Python file, with their lines; names as words."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name.replace("_", " ")
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name.replace("_", " ")
    with tokenize.open(file) as stream:
        for token in tokenize.generate_tokens(stream.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


@pytest.mark.parametrize("file", TEXTS, ids=shown)
def test_documents_and_templates_use_no_dropped_phrase(file: Path) -> None:
    # By paragraph: a phrase may be broken over two lines.
    number, paragraphs = 1, []
    for paragraph in file.read_text(encoding="utf-8").split("\n\n"):
        paragraphs.append((number, paragraph))
        number += paragraph.count("\n") + 2
    assert find_dropped(iter(paragraphs)) == []


@pytest.mark.parametrize("file", SOURCES, ids=shown)
def test_strings_and_docstrings_use_no_dropped_phrase(file: Path) -> None:
    assert find_dropped(user_text(file)) == []


@pytest.mark.parametrize("file", TESTS, ids=shown)
def test_docstrings_comments_and_names_of_tests_use_no_dropped_phrase(file: Path) -> None:
    assert find_dropped(developer_text(file), DROPPED_IN_TESTS) == []


@pytest.mark.parametrize(
    "code", ["def told(): ...", "heard = 1", "x = 1  # nobody", "def f(anew): ...", '"""He told."""']
)
def test_a_dropped_phrase_in_a_test_is_found(code: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(f"{code}\n")
    assert find_dropped(developer_text(tmp_path / "module.py"), DROPPED_IN_TESTS) != []


def test_files_have_no_names_of_the_old_vocabulary() -> None:
    assert [shown(file) for file in SOURCES if file.stem in OLD_FILE_NAMES or file.parent.name in OLD_FILE_NAMES] == []


@pytest.mark.parametrize(
    "text",
    ["Somebody has it", "it is\n    told so", "made anew", "gone on with", "so many runs", "the wanted divergence"],
)
def test_a_dropped_phrase_is_found(text: str) -> None:
    assert find_dropped(iter([(1, text)])) != []


@pytest.mark.parametrize("text", ["an absolute path", "shear", "told apart by name", "amendment", "as many as"])
def test_other_words_are_allowed(text: str) -> None:
    assert find_dropped(iter([(1, text)])) == []
