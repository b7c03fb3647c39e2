"""The examples in the docstrings of all three packages run, and every public name has one."""

from __future__ import annotations

import ast
import doctest
import importlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"tfsm": ROOT, "tfsm_plugins": ROOT / "plugins", "tfsm_domains": ROOT / "domains"}
PUBLIC = ("tfsm", "tfsm.functional", "tfsm.interfaces", "tfsm.abilities", "tfsm.testing")
WITHOUT_EXAMPLE = {"tfsm.__version__", "tfsm.functional"}
"""A number, and a module whose functions have examples."""


def _modules_with_examples() -> list[str]:
    modules = []
    for package, folder in FOLDERS.items():
        for file in sorted((folder / package).rglob("*.py")):
            if ">>> " in file.read_text(encoding="utf-8"):
                parts = file.relative_to(folder).with_suffix("").parts
                modules.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return modules


def _constants_with_examples(module: object) -> Iterator[tuple[str, str]]:
    """Yield the constants of a module whose docstring, the text after the assignment, has an example."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    body = ast.parse(source).body
    for assignment, text in pairwise(body):
        match assignment, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(docstring))),
            ) if ">>> " in docstring:
                yield name, docstring


@pytest.mark.parametrize("name", _modules_with_examples())
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(1)
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    runner, parser = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), doctest.DocTestParser()
    for constant, docstring in _constants_with_examples(module):
        runner.run(parser.get_doctest(docstring, dict(vars(module)), constant, None, 0))
    assert results.attempted + runner.tries > 0
    assert results.failed + runner.failures == 0


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_an_example(module: str) -> None:
    names = importlib.import_module(module)
    for name in names.__all__:
        value = getattr(names, name)
        defined = importlib.import_module(getattr(value, "__module__", None) or module)
        constants = {**dict(_constants_with_examples(names)), **dict(_constants_with_examples(defined))}
        if name == "hookimpl":
            constants |= dict(_constants_with_examples(importlib.import_module("tfsm.plugins.hookspecs")))
        example = ">>> " in (getattr(value, "__doc__", None) or "") or name in constants
        assert example or f"{module}.{name}" in WITHOUT_EXAMPLE, f"{module}.{name} has no example"
