"""Make the notebooks of `examples/notebooks` from their scripts, and run them: `make notebooks`.

`python -m docs.scripts.make_notebooks` makes all of them, and `python -m docs.scripts.make_notebooks cartpole` one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"


def make_notebook(script: Path) -> None:
    """Run a script as a notebook in an empty folder, and write the notebook with its outputs beside the script."""
    notebook = jupytext.read(script)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=1_800, resources={"metadata": {"path": folder}}).execute()
    remove_traces(notebook)
    nbformat.write(notebook, script.with_suffix(".ipynb"))


def remove_traces(notebook: Any) -> None:
    """Remove what depends on the machine or the time, and the messages of libraries on stderr."""
    for key in ("language_info", "jupytext"):
        notebook.metadata.pop(key, None)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


if __name__ == "__main__":
    for path in [FOLDER / f"{name}.py" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.py")):
        print(path.name, flush=True)
        make_notebook(path)
