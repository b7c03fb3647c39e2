"""The examples with other libraries run, if the library is installed."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
LIBRARIES = {
    "deap": (["--generations", "2"], r"[\w-]+, intensity \S+: \d+ of 16 right, mean squared error \d\.\d+"),
    "ribs": (["--iterations", "2"], r"\w+, intensity \S+: coverage \S+%, QD score \d+\.\d"),
    "evotorch": (["--generations", "2"], r"\w+, intensity \S+: mean squared error \d\.\d+ \(.*\)"),
}
FILES = {"deap": "deap", "ribs": "pyribs", "evotorch": "evotorch"}


def run_example(library: str, capsys: pytest.CaptureFixture[str], *seeds: str) -> list[str]:
    """Run an example with each of these seeds; return what it prints."""
    pytest.importorskip(library, reason=f"the example needs {library}: pip install {library}")
    main = runpy.run_path(str(FOLDER / f"{FILES[library]}_safe_mutation.py"))["main"]
    outputs = []
    for seed in seeds:
        main([*LIBRARIES[library][0], "--seed", seed])
        outputs.append(capsys.readouterr().out)
    return outputs


@pytest.mark.filterwarnings("ignore")  # of these libraries
@pytest.mark.parametrize("library", LIBRARIES)
def test_an_example_runs(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = LIBRARIES[library][1]
    plain, safe = run_example(library, capsys, "1")[0].splitlines()
    assert re.fullmatch(line, plain)
    assert re.fullmatch(line, safe)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of these libraries
@pytest.mark.parametrize("library", LIBRARIES)
def test_an_example_is_reproducible(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = run_example(library, capsys, "1", "1", "2")
    assert first == again != other


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_compiles_and_documents_its_command(file: Path) -> None:
    text = file.read_text()
    compile(text, str(file), "exec")
    assert f"python examples/{file.name}" in (ast.get_docstring(ast.parse(text)) or "")
    assert len(text.splitlines()) < 200


def test_there_is_an_example_for_every_library() -> None:
    assert {f"{name}_safe_mutation.py" for name in FILES.values()} <= {file.name for file in EXAMPLES}
