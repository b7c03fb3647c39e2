"""One experiment that is compiled once, for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.disk_faults import left_experiment
from tests.faults.lab import Bench, Lab


@pytest.fixture(scope="package")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRAGILE", "")
        patch.syspath_prepend(str(tmp_path_factory.getbasetemp()))  # undone at the end, with what is added to it
        yield Bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="package")
def left(bench: Bench) -> Path:
    """An experiment that was killed half-way."""
    return left_experiment(bench)
