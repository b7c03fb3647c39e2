"""JSON data of any value, and JSON files."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfsm.errors import TfsmError
from tfsm.utils.json_files import read_json, to_json, write_json


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
