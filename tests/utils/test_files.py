"""Atomic writes, by which a file is complete or absent, JSON data of any value, and JSON files."""

from __future__ import annotations

import errno
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfsm.errors import TfsmError
from tfsm.utils.files import atomic_write, flush_to_disk, is_temporary, read_json, to_json, write_json


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the system calls in order."""
    recorded: list[str] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        recorded.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        fsync(descriptor)

    def record_replace(source: Path, target: Path) -> None:
        recorded.append(f"replace {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    return recorded


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not tell what is open")
def test_content_is_synced_before_the_rename_and_the_folder_after_it(tmp_path: Path, calls: list[str]) -> None:
    with atomic_write(tmp_path / "a.json") as draft:
        draft.write_text("new")
    assert calls == ["fsync .a.json.part.json", "replace a.json", f"fsync {tmp_path.name}"]


def test_the_old_file_exists_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("old")
    with atomic_write(file) as draft:
        assert draft.suffix == ".json"
        assert is_temporary(draft)
        draft.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt(), ValueError("odd")])
def test_an_error_leaves_the_old_file_and_no_temporary_file(tmp_path: Path, error: BaseException) -> None:
    file = tmp_path / "a.json"
    file.write_text("old")

    def write() -> None:
        with atomic_write(file) as draft:
            draft.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_failed_sync_does_not_replace_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_text("old")

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="input/output"), atomic_write(file) as draft:
        draft.write_text("new")
    assert file.read_text() == "old"


def test_a_file_system_without_fsync_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EINVAL, "invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    (tmp_path / "a").touch()
    flush_to_disk(tmp_path / "a")
    flush_to_disk(tmp_path)


@pytest.mark.parametrize(("name", "draft"), [(".run.json.part.json", True), ("run.json", False), (".lock", False)])
def test_temporary_files_are_recognized_by_name(name: str, draft: bool) -> None:
    assert is_temporary(Path(name)) is draft


@dataclass
class Point:
    x: float
    tags: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        (3, 3),
        (0.1, 0.1),
        (math.nan, None),
        (-math.inf, None),
        (np.float32(0.5), 0.5),
        (np.float64(math.inf), None),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array([[1.0, math.nan], [2.0, 3.0]]), [[1.0, None], [2.0, 3.0]]),
        ({1: [math.inf], "a": (1, 2)}, {"1": [None], "a": [1, 2]}),
        (Point(math.nan, ("a",)), {"x": None, "tags": ["a"]}),
        (Path("a/b"), "a/b"),
        ({"set": frozenset({4})}, {"set": [4]}),
    ],
)
def test_every_value_becomes_valid_json(value: Any, expected: Any) -> None:
    result = to_json(value)
    assert result == expected
    assert json.loads(json.dumps(result, allow_nan=False)) == expected


@pytest.mark.parametrize("number", [np.int32(3), np.float64(3.0), np.float32(3.0)])
def test_numpy_scalars_become_pythons_own(number: Any) -> None:
    assert type(to_json(number)) in (int, float)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"best": math.inf, "runs": [1, 2]})
    assert read_json(tmp_path / "a.json") == {"best": None, "runs": [1, 2]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("content", "message"), [("[1]", "expected an object, got list"), ("{", "not valid JSON"), (None, "cannot be read")]
)
def test_a_file_without_a_json_object_is_an_error(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "a.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(TfsmError, match=message):
        read_json(file)
