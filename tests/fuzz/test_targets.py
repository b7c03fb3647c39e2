"""The targets of long fuzzing, on their seeds and on the inputs that it found."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.fuzz.harness import time_limit
from tests.fuzz.long import Row, add_row, parse_output, read_rows
from tests.fuzz.targets import CORPUS, TARGETS, OutsideError, Target, Watch, read_corpus, try_content

SECONDS = 60.0


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_corpus_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    contents = [*target.seeds(), *read_corpus(name), b""]
    with time_limit(SECONDS):
        for content in contents:
            try_content(target, content)


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_is_valid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TARGETS[name].read(TARGETS[name].seeds()[0])


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.change is not None])
def test_changes_keep_the_form(name: str) -> None:
    target, rng = TARGETS[name], random.Random(0)
    assert target.change is not None
    seed = target.seeds()[0]
    changed = [target.change(seed, lambda part: part[::-1], rng) for _ in range(30)]
    assert len(set(changed)) > 10
    for content in changed[:20]:
        target.change(content, lambda part: part, rng)  # raises if it has another form


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 200_000


def make_target(read: object) -> Target:
    return Target(read, list)  # type: ignore[arg-type]


def test_a_file_outside_is_detected() -> None:
    with pytest.raises(AssertionError, match="created outside"):
        try_content(make_target(lambda content: Path("../escaped").write_bytes(content)), b"x")


def test_a_file_anywhere_else_and_a_process_are_detected(tmp_path: Path) -> None:
    watch = Watch()
    with pytest.raises(OutsideError, match="open"):
        try_content(make_target(lambda content: (tmp_path / "file").write_bytes(content)), b"x", watch)
    with pytest.raises(OutsideError, match=r"os\.system"):
        try_content(make_target(lambda content: os.system("true")), b"x", watch)
    assert not (tmp_path / "file").exists()


def test_much_memory_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.targets.MEMORY", 2**26)
    with pytest.raises(AssertionError, match="MiB"):
        try_content(make_target(lambda content: bytearray(b"x") * 2**27), b"x")


def test_rows_add_up(tmp_path: Path) -> None:
    file = tmp_path / "fuzzing.md"
    add_row(file, Row("metrics", 10, 1000, 30, 5, 1))
    add_row(file, Row("settings", 7, 1, 2, 3, 0))
    add_row(file, Row("metrics", 5, 500, 20, 6, 0))
    rows = read_rows(file.read_text(encoding="utf-8"))
    assert rows == {"metrics": Row("metrics", 15, 1500, 30, 6, 1), "settings": Row("settings", 7, 1, 2, 3, 0)}


def test_a_crash_is_found_in_the_output() -> None:
    text = "#512 NEW    cov: 40 ft: 90\n=== Uncaught Python exception: ===\n"
    assert parse_output(text) == (512, 40, True)
