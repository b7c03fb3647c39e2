"""The examples in the docstrings of all three packages run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"tfsm": ROOT, "tfsm_plugins": ROOT / "plugins", "tfsm_domains": ROOT / "domains"}


def _modules_with_examples() -> list[str]:
    modules = []
    for package, folder in FOLDERS.items():
        for file in sorted((folder / package).rglob("*.py")):
            if ">>> " in file.read_text(encoding="utf-8"):
                parts = file.relative_to(folder).with_suffix("").parts
                modules.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return modules


@pytest.mark.parametrize("name", _modules_with_examples())
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(1)
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.attempted > 0
    assert results.failed == 0
