"""A failing environment loses no results, and one that cannot be used is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("gymnasium")

from tests.faults.env_faults import (
    BROKEN,
    RAISING,
    EnvBench,
    fail_and_continue,
    fail_and_resume,
    refuse_names,
    refuse_spaces,
)
from tests.faults.lab import assert_nothing_lost


@pytest.fixture(autouse=True)
def _no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAGILE_ENV", "")


def test_what_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    bench = EnvBench(tmp_path)
    assert_nothing_lost(refuse_names(bench))
    assert_nothing_lost(refuse_spaces(bench))


@pytest.mark.parametrize("kind", ["shape", pytest.param("all", marks=pytest.mark.slow)])
def test_a_failing_environment_loses_nothing(kind: str, tmp_path: Path) -> None:
    assert_nothing_lost(fail_and_resume(EnvBench(tmp_path), RAISING if kind == "all" else [kind]))


@pytest.mark.slow
def test_nan_counts_as_broken_and_loses_nothing(tmp_path: Path) -> None:
    assert_nothing_lost(fail_and_continue(EnvBench(tmp_path), BROKEN))


@pytest.mark.slow
def test_an_environment_that_hangs_loses_nothing(tmp_path: Path) -> None:
    assert_nothing_lost(fail_and_resume(EnvBench(tmp_path, {"evaluation_timeout": 3.0}), ["hang"]))


@pytest.mark.slow
def test_environments_in_processes_lose_nothing(tmp_path: Path) -> None:
    assert_nothing_lost(fail_and_resume(EnvBench(tmp_path, sets=("vector=async",)), ["step", "shape", "die"]))
