"""The compile cache is kept between commands, and its failures are harmless."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_run import QUICK
from tests.helpers.commands import tfsm_process
from tfsm.utils import tf_startup as compile_cache
from tfsm.utils.tf_startup import (
    CONCURRENCY,
    FLAG,
    THREADS,
    set_tensorflow_environment,
    set_threads,
    use_compile_cache,
)


@pytest.mark.parametrize(
    ("given", "cores", "expected"),
    [({CONCURRENCY: "1"}, 8, "2"), ({CONCURRENCY: "3"}, 1, "3"), ({}, 1, "2"), ({}, 8, None)],
)
def test_two_operations_can_always_run_at_the_same_time(
    given: dict[str, str], cores: int, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    environ = dict(given)
    set_tensorflow_environment(environ)
    assert environ.get(CONCURRENCY) == expected


PREDICTING = """
from tfsm.utils.tf_startup import import_tensorflow

import_tensorflow()  # as the command and workers do, before anything else imports it

import keras
import numpy as np

import tfsm

x = np.ones((4, 2), "float32")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def fitness(model):
    return -float(abs(model.predict(x, verbose=0)).sum())


result = tfsm.evolve(model=model, fitness=fitness, evaluations=12, population=5)
print(result.runs[0].evaluations)
"""


@pytest.mark.slow
def test_a_fitness_function_may_predict_with_a_single_thread(tmp_path: Path) -> None:
    environ = {**os.environ, CONCURRENCY: "1", THREADS: "1"}
    command = [sys.executable, "-c", PREDICTING]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "12", done.stderr


def test_the_cache_folder_is_passed_to_tensorflow(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "TF_XLA_FLAGS": "--other=1"}
    folder = use_compile_cache(environ)
    assert folder is not None
    assert folder.parent == tmp_path / "tfsm" / "xla"
    assert environ["TF_XLA_FLAGS"] == f"--other=1 {FLAG}={folder}"


@pytest.mark.parametrize(
    "given", [{"TFSM_COMPILE_CACHE": "off"}, {"TF_XLA_FLAGS": f"{FLAG}=/mine"}, {"TFSM_COMPILE_CACHE": "/proc/nowhere"}]
)
def test_the_cache_is_off_if_disabled_or_its_folder_is_invalid(given: dict[str, str]) -> None:
    environ = dict(given)
    assert use_compile_cache(environ) is None
    assert environ == given


def test_the_least_recently_used_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cache, "MAX_BYTES", 25)
    folder = use_compile_cache({"TFSM_COMPILE_CACHE": str(tmp_path)})
    assert folder is not None
    for age, name in enumerate(("newest", "older", "oldest")):
        (folder / name).write_bytes(b"0123456789")
        os.utime(folder / name, (1e9 - age, 1e9))
    use_compile_cache({"TFSM_COMPILE_CACHE": str(tmp_path)})
    assert sorted(file.name for file in folder.iterdir()) == ["newest", "older"]


@pytest.mark.slow
def test_a_second_run_reuses_compiled_code_with_the_same_results(tmp_path: Path) -> None:
    import json

    cache = str(tmp_path / "cache")
    summaries, kept = [], []
    for _ in range(2):
        done = tfsm_process(*QUICK, "--json", "--quiet", cwd=tmp_path, TFSM_COMPILE_CACHE=cache, TF_XLA_FLAGS="")
        assert done.returncode == 0, done.stderr
        summaries.append(json.loads(done.stdout)["runs"][0]["best_fitness"])
        kept.append({file.name for file in Path(cache).rglob("*.pb")})
    assert kept[0], "something was kept"
    assert kept[0] == kept[1], "nothing had to be compiled again"
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize(
    ("given", "threads", "required", "expected"),
    [
        (None, 1, False, "1"),
        ("3", 1, False, "3"),
        ("3", 1, True, "1"),
        ("3", None, False, "3"),
        (None, None, True, None),
    ],
)
def test_threads_are_set_unless_the_user_has_set_them(
    given: str | None, threads: int | None, required: bool, expected: str | None
) -> None:
    environ = {} if given is None else {THREADS: given}
    set_threads(environ, threads, required=required)
    assert environ.get(THREADS) == expected
