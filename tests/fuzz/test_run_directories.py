"""Whatever became of a run directory: commands tell of it, or say what is wrong with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domains.hard_maze.mazes import ROOM_FILE
from tests.fuzz.arrays import ARRAYS, archived
from tests.fuzz.damage import changed, damaged
from tests.fuzz.models import members
from tests.fuzz.profile import fuzzed
from tests.fuzz.running import command, empty_folder

QUICK: Final = {
    "list": ("runs", "list", "."),
    "list-json": ("runs", "list", ".", "--json"),
    "show": ("runs", "show", "{}"),
    "show-json": ("runs", "show", "{}", "--json"),
    "report": ("report", "{}"),
    "report-json": ("report", "{}", "--json", "--at", "3"),
    "rm": ("runs", "rm", "{}"),
}
SLOW: Final = {
    "page": ("report", "{}", "--html", "page.html", "--figures", "figures"),
    "replay": ("replay", "{}", "--save", "film.png"),
    "population": ("replay", "{}", "--save", "film.png", "--population"),
    "robustness": ("robustness", "{}", "--all", "--mutation", "control", "--perturbations", "2", "--histogram", "2"),
    "again": ("compare", "hard-maze", "--mutation", "control", "--runs", "1", "--evaluations", "8", "--out", "study",
              "--set", "maze=room.toml", "--set", "engine.compile=graph", "--set", "log_every=4",
              "--selection", "map-elites", "--population", "4"),
}  # fmt: skip


@pytest.fixture(scope="module")
def study() -> Iterator[Path]:
    with empty_folder() as folder:
        Path("room.toml").write_text(ROOM_FILE)
        done = command(*SLOW["again"])
        assert done.code == 0, done.stderr
        yield folder / "study"


@st.composite
def damages(draw: st.DrawFn, study: Path) -> tuple[Path, bytes]:
    """Draw a file of a study, and what it holds instead."""
    files = sorted(path.relative_to(study) for path in study.rglob("*") if path.is_file())
    # Numbers are many and of one kind: damaged more rarely than the records.
    chosen = draw(st.sampled_from([file for file in files if file.suffix.startswith(".json")]) | st.sampled_from(files))
    content = (study / chosen).read_bytes()
    if chosen.suffix == ".npz" and draw(st.booleans()):
        tables = members(study / chosen)
        return chosen, archived(tables | {draw(st.sampled_from(sorted(tables))): draw(ARRAYS)})
    if chosen.suffix not in (".json", ".jsonl") or draw(st.booleans()):
        return chosen, draw(damaged(content))
    if chosen.suffix == ".json":
        return chosen, json.dumps(draw(changed(json.loads(content)))).encode()
    lines: list[Any] = [json.loads(line) for line in content.splitlines()]
    found = draw(changed(lines))
    return chosen, "".join(f"{json.dumps(line)}\n" for line in (found if isinstance(found, list) else [found])).encode()


def tried(study: Path, words: tuple[str, ...], data: st.DataObject) -> None:
    file, content = data.draw(damages(study))
    whole = data.draw(st.sampled_from(["study", "study/control"]))
    with empty_folder():
        shutil.copytree(study, "study")
        Path("room.toml").write_text(ROOM_FILE)
        Path("study", file).write_bytes(content)
        command(*(word.format(whole) for word in words))


@pytest.mark.parametrize("name", QUICK)
@fuzzed(5)
@given(data=st.data())
def test_records_are_told_of_or_refused(study: Path, name: str, data: st.DataObject) -> None:
    tried(study, QUICK[name], data)


@pytest.mark.parametrize("name", SLOW)
@fuzzed(1, share=0.2)
@given(data=st.data())
def test_champions_and_figures_too(study: Path, name: str, data: st.DataObject) -> None:
    tried(study, SLOW[name], data)
