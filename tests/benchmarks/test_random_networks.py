from __future__ import annotations

from pathlib import Path

from benchmarks.random_networks import COLUMNS, summarize
from benchmarks.real_networks import append_rows, read_rows

ROWS = [
    ("resnet50", "64x64x3", 23_555_082, 10, "control", "1%", 0.996, True, 17.6, 1625, ""),
    ("resnet50", "64x64x3", 23_555_082, 10, "sm-g-sum", "1%", 1.004, True, 26.6, 2048, ""),
    ("vit", "64x64x3", 843_914, 10, "control", "1%", 0.5, False, 1.0, 512, "no magnitude gives it"),
]


def test_one_line_per_network_shows_what_was_reached_and_what_was_not(tmp_path: Path) -> None:
    append_rows(tmp_path / "a.csv", ROWS, COLUMNS)
    _, _, resnet, vit = summarize(read_rows(tmp_path / "a.csv"), [])
    assert resnet == "| resnet50 | 64x64x3 | 23,555,082 | 10 | 1% | 0.996 |  | 1.004 |  |  |  | 2.0 GiB |"
    assert "| 0.500, not finite (warned) |" in vit


def test_heads_are_compared_below(tmp_path: Path) -> None:
    head = {"network": "m", "outputs": "1000", "images": "8", "operator": "sm-g-sum"}
    lines = summarize([], [head | {"first_seconds": "9.5", "cpu_seconds": "3.2"}])
    assert lines[-1] == "| 1,000 | 8 | 3.2 | 9.5 |"
