"""Archives of elites in the report: read, put into words, drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.report.cases import method, study
from tfsm.analysis.results import Method
from tfsm.errors import TfsmError
from tfsm.report.alt_text import drawable, in_words
from tfsm.report.findings import Archive, archive_of, examine
from tfsm.runs.records import behavior_file

CELLS = np.array([[0.5, 0.5], [0.5, 1.5], [1.5, 0.5], [1.5, 1.5], [np.inf, np.inf]])
NOBODY = -np.inf


def kept(directory: Path, run: int, fitness: list[float], cells: np.ndarray = CELLS) -> None:
    file = behavior_file(directory, run)
    file.parent.mkdir(parents=True, exist_ok=True)
    last = np.array([[NOBODY] * len(fitness), fitness])
    np.savez_compressed(
        file, evaluations=[1, 2], behavior=np.zeros((2, 5, 2)), fitness=last, cells=cells, names=["x", "y"]
    )


def found(tmp_path: Path, *fitness: list[float]) -> Method:
    for run, own in enumerate(fitness):
        kept(tmp_path, run, own)
    return replace(method("sm-g-so", [None] * len(fitness)), directory=tmp_path)


def test_the_fullest_archive_is_read_without_places_that_have_no_cell(tmp_path: Path) -> None:
    archive = archive_of(found(tmp_path, [1.0, NOBODY, NOBODY, NOBODY, NOBODY], [1.0, 4.0, NOBODY, 3.0, NOBODY]))
    assert archive is not None
    assert (archive.run, archive.names) == (1, ("x", "y"))
    np.testing.assert_array_equal(archive.fitness, [1.0, 4.0, NOBODY, 3.0])
    np.testing.assert_array_equal(archive.filled, [True, True, False, True])


def test_a_raster_shows_each_cell_where_it_is() -> None:
    archive = Archive(0, CELLS[:4], np.array([1.0, 4.0, NOBODY, 3.0]), ("x", "y"))
    values, edges = archive.raster(4, 4)
    np.testing.assert_array_equal(values[:2, :2], np.ones((2, 2)))  # the first row is the lowest
    np.testing.assert_array_equal(values[2:, :2], np.full((2, 2), 4.0))
    assert np.isnan(values[:2, 2:]).all()
    np.testing.assert_array_equal(values[2:, 2:], np.full((2, 2), 3.0))
    assert edges == (0.0, 2.0, 0.0, 2.0)


def test_it_is_told_in_words_and_drawn(tmp_path: Path) -> None:
    findings = examine(study(found(tmp_path, [1.0, 4.0, NOBODY, 3.0, NOBODY])))
    assert "archive" in drawable(findings)
    (line,) = in_words("archive", findings).lines
    assert line == "sm-g-so, run 0: 3 of 4 cells filled (75%), fitness from 1 to 4, 3 in the median."
    pytest.importorskip("matplotlib")
    from tfsm.report.plots import draw

    assert draw("archive", findings, format="png").startswith(b"\x89PNG")
    assert b"75%" in draw("archive", findings, format="svg")


def test_without_an_archive_there_is_nothing_to_draw_and_nothing_is_missed(tmp_path: Path) -> None:
    findings = examine(study(method("control", [None])))
    assert "archive" not in drawable(findings)
    kept(tmp_path, 0, [1.0] * 5, np.zeros((5, 3)))  # three numbers make no map
    assert archive_of(replace(method("control", [None]), directory=tmp_path)) is None


@pytest.mark.parametrize(
    "tables",
    [
        {"cells": np.zeros((5, 2))},
        {"cells": np.zeros((5, 2)), "fitness": np.zeros((2, 4)), "names": ["x", "y"]},
        {"cells": np.zeros((5, 2)), "fitness": np.zeros(5), "names": ["x", "y"]},
        {"cells": np.zeros((5, 2)), "fitness": np.zeros((2, 5)), "names": "x"},
        {"cells": np.array([["a", "b"]] * 5), "fitness": np.zeros((2, 5)), "names": ["x", "y"]},
        {"cells": np.zeros((5, 2)), "fitness": np.zeros((0, 5)), "names": ["x", "y"]},
    ],
    ids=["no fitness", "fewer fitnesses", "no intervals", "one name", "words", "no interval"],
)
def test_tables_that_do_not_go_together_are_told(tables: dict[str, Any], tmp_path: Path) -> None:
    file = behavior_file(tmp_path, 0)
    file.parent.mkdir()
    np.savez(file, **tables)
    with pytest.raises(TfsmError, match=r"run-000.npz: not what a run keeps of its populations"):
        archive_of(replace(method("control", [None]), directory=tmp_path))


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    file = behavior_file(tmp_path, 0)
    file.parent.mkdir()
    file.write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(TfsmError, match=r"run-000.npz: cannot be read"):
        archive_of(replace(method("control", [None]), directory=tmp_path))
    np.savez_compressed(file, cells=np.random.default_rng(0).normal(size=(50, 2)))
    torn = bytearray(file.read_bytes())
    torn[200:300] = bytes(100)  # within what is compressed, which is zlib's to complain about
    file.write_bytes(torn)
    with pytest.raises(TfsmError, match=r"run-000.npz: cells.npy: not an array"):
        archive_of(replace(method("control", [None]), directory=tmp_path))
