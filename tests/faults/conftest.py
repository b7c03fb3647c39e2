"""Fixtures for fault injection. The experiment is compiled once for the whole package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.disk_faults import make_killed_experiment
from tests.faults.lab import Bench, Lab


@pytest.fixture(scope="package")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRAGILE", "")
        patch.syspath_prepend(str(tmp_path_factory.getbasetemp()))  # removed at the end, with the entries added later
        yield Bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="package")
def killed_experiment(bench: Bench) -> Path:
    """Return the directory of an experiment that was killed half-way."""
    return make_killed_experiment(bench)
