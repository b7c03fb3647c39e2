"""The notebooks are in sync with their scripts, and the scripts run."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def test_there_is_a_notebook_for_every_script() -> None:
    assert {script.stem for script in SCRIPTS} == {notebook.stem for notebook in FOLDER.glob("*.ipynb")}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_notebook_is_in_sync(script: Path) -> None:
    jupytext = pytest.importorskip("jupytext")
    notebook = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    expected = [(cell.cell_type, cell.source) for cell in jupytext.read(script).cells]
    assert cells == expected, "run `make notebooks`"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_notebook_was_run_without_errors_and_has_no_messages_of_libraries(script: Path) -> None:
    notebook = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert {output.get("name") for output in outputs} <= {"stdout", None}


@pytest.mark.filterwarnings("ignore")  # a notebook may warn where a test may not
@pytest.mark.slow  # .ci/run and the workflows run them after `make test`
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_script_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if script.name == "cartpole.py":
        pytest.importorskip("gymnasium")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    namespace = runpy.run_path(str(script))
    pyplot.close("all")
    match script.stem:
        case "keras_model":
            assert namespace["accuracy"](namespace["child"]) > 0.9
        case "cartpole":
            assert namespace["result"].solved > 0
        case "plugin":
            assert namespace["outcome"].state == "ok"
