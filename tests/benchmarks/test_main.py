"""The command line of the benchmarks, and one small benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import PARTS, make_parser

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("given", ["x", "", "a,x"])
def test_unknown_parts_are_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["--only", given])
    assert "a,b,c,d,e,f" in capsys.readouterr().err


def test_all_parts_run_by_default() -> None:
    assert make_parser().parse_args([]).only == list(PARTS)
    assert make_parser().parse_args(["--only", "e,a"]).only == ["e", "a"]


@pytest.mark.slow
def test_a_small_part_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "e", "--plots", "--out", str(tmp_path)]
    command += ["--markdown", str(tmp_path / "tables.md")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "benchmarks.json").read_text())
    assert results["meta"]["quick"] is True
    assert results["meta"]["versions"]["tensorflow"]
    assert results["meta"]["command"].startswith("python -m benchmarks --quick --only e")
    for row in results["parts"]["e"][0]["rows"]:
        assert 0 < row["tfsm"]["low"] <= row["tfsm"]["median"] <= row["tfsm"]["high"]
    assert (tmp_path / "flop_rate.png").stat().st_size > 1000
    assert "| dense | forward |" in (tmp_path / "tables.md").read_text(encoding="utf-8")
