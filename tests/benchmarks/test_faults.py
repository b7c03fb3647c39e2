"""The table of faults counts losses, and can be continued."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import faults
from tests.faults.lab import Trial


def rows(trials: list[Trial]) -> list[faults.FaultRow]:
    return [faults.FaultRow("flood", "much water", trials), faults.FaultRow("fire", "a match", [Trial("lit", True, 0)])]


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    trials = [Trial("a little", True, 0), Trial("much", True, 0)]
    monkeypatch.setattr(faults, "list_faults", lambda root, quick: rows(trials))
    return trials


def test_every_loss_is_counted_and_fails_the_command(
    tmp_path: Path, trials: list[Trial], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "faults.md"
    assert faults.main(["--out", str(out)]) == 0
    assert "| flood | much water | 2 | 2 | 0 | 0 |\n| fire | a match | 1 | 1 | 0 | 0 |" in out.read_text()
    trials += [Trial("too much", False, 0, "drowned"), Trial("far too much", True, 3, "swept away")]
    assert faults.main(["--out", str(out)]) == 1
    assert "| flood | much water | 4 | 3 | 3 | 0 |" in out.read_text()
    errors = capsys.readouterr().err
    assert "flood: too much: drowned" in errors
    assert "flood: far too much: swept away" in errors


def test_existing_rows_may_be_kept(tmp_path: Path, trials: list[Trial]) -> None:
    out = tmp_path / "faults.md"
    faults.main(["--out", str(out)])
    before = faults._read_rows(out)
    trials.append(Trial("lost", False, 9))
    assert faults.main(["--out", str(out), "--go-on"]) == 0
    assert faults._read_rows(out) == before
    assert len(before) == 2


def test_an_unexpected_error_is_not_survived(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trials() -> object:
        yield Trial("a little", True, 0)
        raise OSError("the dam broke")

    monkeypatch.setattr(faults, "list_faults", lambda root, quick: rows(trials()))  # type: ignore[arg-type]
    assert faults.main([]) == 1
    captured = capsys.readouterr()
    assert "| flood | much water | 2 | 1 | 0 | 0 |" in captured.out
    assert "the dam broke" in captured.err
