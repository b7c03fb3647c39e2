"""Progress, colors and widths, on a terminal and elsewhere."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from tests.helpers.commands import tfsm
from tests.helpers.outcomes import write_run
from tests.helpers.terminal import TerminalResult, needs_terminal, run_on_terminal
from tfsm.cli import progress
from tfsm.cli.main import START, app
from tfsm.cli.progress import show_progress, show_steps

LONG_COMMANDS = (
    "run",
    "compare",
    "sweep",
    "robustness",
    "reproduce",
    "report",
    "replay",
    "doctor",
    "mutate",
    "sensitivity",
    "plugins check",
)


def walk(command: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of all commands."""
    yield names
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, *names, name)


COMMANDS = list(walk(typer.main.get_command(app)))


def on_terminal(*words: str, cwd: Path, columns: int = 80, **environ: str) -> TerminalResult:
    return run_on_terminal([sys.executable, "-m", "tfsm", *words], cwd=cwd, columns=columns, **environ)


def test_bare_tfsm_shows_three_commands(tmp_path: Path) -> None:
    result = tfsm(cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == START + "\n"
    assert len(re.findall(r"^    tfsm \w+", START, re.MULTILINE)) == 3
    assert len(START.splitlines()) < 15


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_80_columns(words: tuple[str, ...], tmp_path: Path) -> None:
    result = tfsm(*words, "--help", cwd=tmp_path, environ={**os.environ, "COLUMNS": "80"})
    assert result.returncode == 0
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []
    assert [line for line in result.stdout.splitlines()[1:] if line.endswith("...")] == [], "no description is cut"


@pytest.mark.parametrize("name", LONG_COMMANDS)
def test_every_long_command_can_be_quiet_and_print_json(name: str, tmp_path: Path) -> None:
    text = tfsm(*name.split(), "--help", cwd=tmp_path).stdout
    assert {"--quiet", "--json"} <= set(re.findall(r"--\w+", text))


@needs_terminal
@pytest.mark.parametrize(
    "words",
    [
        "mutations",
        pytest.param("domains", marks=pytest.mark.slow),
        pytest.param("selections", marks=pytest.mark.slow),
        pytest.param("observers", marks=pytest.mark.slow),
        pytest.param("plugins list", marks=pytest.mark.slow),
        pytest.param("config show", marks=pytest.mark.slow),
        "config show hard-maze-101 --mutation sm-g-sum",
        "runs list .",
        "runs show a-run-directory-with-a-rather-long-name",
        "report .",
    ],
)
def test_listings_fit_an_80_column_terminal(words: str, tmp_path: Path) -> None:
    write_run(tmp_path / "a-run-directory-with-a-rather-long-name")
    write_run(tmp_path / "another", mutation="sm-g-sum")
    result = on_terminal(*words.split(), cwd=tmp_path)
    assert result.returncode == 0, result.text
    lines = result.text.splitlines()
    assert len(lines) > 2
    # A command line is not broken, so that it can be copied.
    assert [line for line in lines if len(line) > 80 and not line.startswith("$ ")] == []
    assert "…" not in result.text, "no name is cut"


@needs_terminal
def test_no_color_is_respected(tmp_path: Path) -> None:
    colorful = on_terminal("plugins", "list", cwd=tmp_path)
    assert any(style >= 30 for style in colorful.styles)
    plain = on_terminal("plugins", "list", cwd=tmp_path, NO_COLOR="1")
    assert plain.text == colorful.text
    assert not any(style >= 30 for style in plain.styles)


@pytest.mark.slow
@needs_terminal
def test_a_report_shows_a_bar_with_rate_and_time_left_unless_quiet(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_run(tmp_path / "run")
    words = ("report", "run", "--figures", "figures")
    shown = on_terminal(*words, cwd=tmp_path, NO_COLOR="1")
    assert shown.returncode == 0, shown.text
    states = re.findall(r"figures: (\w+\.\w+) \S+ +(\d)/(\d)  \S+/s  (\d:\d\d) left", shown.text)
    assert states
    frames = re.split(r"[\r\n]+", shown.text)
    assert max(map(len, frames)) <= 80
    assert not any(style >= 30 for style in shown.styles)
    quiet = on_terminal(*words, "--quiet", cwd=tmp_path)
    assert quiet.text == shown.text.splitlines()[-1] + "\n"


@needs_terminal
def test_the_bar_of_runs_fits_80_columns(tmp_path: Path) -> None:
    program = """if True:
        import time
        from types import SimpleNamespace
        from tfsm.cli.progress import make_progress
        settings = SimpleNamespace(domain="first-person-maze", mutation="safe-crossover")
        with make_progress(settings, quiet=False) as observer:
            for i in range(1, 8):
                observer.on_progress(SimpleNamespace(runs=100, finished=0, solved=99, evaluations=1_000_000 * i,
                    budget=10**9, best_fitness=-386.95, phase="evolving"))
                time.sleep(0.15)
    """
    narrow, wide = (
        run_on_terminal([sys.executable, "-c", program], cwd=tmp_path, columns=columns) for columns in (80, 140)
    )
    assert re.search(r"99/100 solved  best -386\.9500  [\d,]+/s  [\d:]+ left", narrow.text)
    assert max(map(len, re.split(r"[\r\n]+", narrow.text))) <= 80
    assert re.search(r"7,000,000 evals  99/100 solved", wide.text)


class TestSteps:
    """Without a terminal."""

    def test_short_computations_print_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert list(show_progress([1, 2, 3], "counting")) == [1, 2, 3]
        assert capsys.readouterr() == ("", "")

    def test_long_ones_print_a_line_now_and_then(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = iter(np.arange(0.0, 1000.0, 3.0))  # each look at the clock takes three seconds
        monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
        assert list(show_progress(range(10), "counting")) == list(range(10))
        lines = capsys.readouterr().err.splitlines()
        assert 2 <= len(lines) < 10
        match = re.fullmatch(r"counting: (\d)/10, 0\.17/s, 0:(\d\d) left", lines[-1])
        assert match is not None, lines
        assert int(match[2]) == (10 - int(match[1])) * 6

    def test_quiet_prints_nothing(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
        with show_steps("counting", quiet=True) as update:
            update(1, 2, "")
        assert capsys.readouterr().err == ""
