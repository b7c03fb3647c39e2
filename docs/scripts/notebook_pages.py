"""The notebooks in `examples/notebooks` as pages of the site: their text, their code and the recorded outputs."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

FOLDER = "examples/notebooks/"


def site_path(path: str) -> str:
    """Return where a notebook's script, which is its page, or another file of the folder is on the site.

    >>> site_path("examples/notebooks/cartpole.py")
    'notebooks/cartpole.md'
    """
    at = PurePosixPath(path)
    return f"notebooks/{at.stem}.md" if at.suffix == ".py" else f"notebooks/{at.name}"


def render_all(folder: Path) -> dict[str, str | bytes]:
    """Return the pages of all notebooks, their pictures and the notebooks themselves, by their place on the site."""
    files: dict[str, str | bytes] = {}
    for path in sorted(folder.glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        files[site_path(f"{FOLDER}{path.name}")] = text.encode()
        files |= render(json.loads(text), path.stem)
    return files


def render(notebook: dict[str, Any], name: str) -> dict[str, str | bytes]:
    """Return the page of one notebook, and its pictures."""
    files: dict[str, str | bytes] = {}
    lines: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines.append(source)
        elif cell["cell_type"] == "code":
            lines.append(f"```python\n{source}\n```")
            for output in cell["outputs"]:
                lines += _render_output(output, name, files)
    title, _, rest = "\n\n".join(lines).partition("\n")
    note = (
        f"*This page is a [notebook]({name}.ipynb), made from the script `{FOLDER}{name}.py` by `make notebooks`,"
        " which also ran it.*"
    )
    return {f"notebooks/{name}.md": f"{title}\n\n{note}\n{rest}\n", **files}


def _render_output(output: dict[str, Any], name: str, files: dict[str, str | bytes]) -> list[str]:
    data = output.get("data", {})
    if "image/png" in data:
        picture = f"{name}-{len(files) + 1}.png"
        files[f"notebooks/{picture}"] = base64.b64decode(data["image/png"])
        return [f"![Output of the cell above]({picture})"]
    text = "".join(output.get("text", data.get("text/plain", "")))
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).strip("\n")
    return [f"```text\n{text}\n```"] if text else []
