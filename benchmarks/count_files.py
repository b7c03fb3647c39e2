"""Count the project's source files and functions that a call runs through.

    python benchmarks/count_files.py mutate
    python benchmarks/count_files.py run

`mutate` is `tfsm.mutate` on a model of two layers; `run` is `tfsm run parity`, in this process.
What runs after `import tfsm` counts. Importing a module runs its class bodies and decorators; a file of which only the
module body runs is counted apart.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGES = ("tfsm", "tfsm_plugins", "tfsm_domains")
ABSENT = ("ray", "tfsm.parallel", "tfsm.report", "tfsm.runs")
"""Packages that `tfsm.mutate` must not import."""


def count(call: Callable[[], Any]) -> dict[str, set[str]]:
    """Call a function under a profile hook, and return the functions and class bodies that ran, by source file."""
    codes: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    files: dict[str, set[str]] = {}
    for code in codes:
        path = Path(code.co_filename)
        package = next((parent for parent in path.parents if parent.name in PACKAGES), None)
        if package is not None:
            functions = files.setdefault(str(path.relative_to(package.parent)), set())
            if code.co_name != "<module>":
                functions.add(f"{code.co_qualname}:{code.co_firstlineno}")
    return files


def mutate() -> None:
    """Mutate a model of two layers once."""
    import keras
    import numpy as np

    import tfsm

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)])
    tfsm.mutate(model, np.ones((5, 3), np.float32))


def run() -> None:
    """Run a short experiment on parity, as on the command line."""
    from tfsm.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        words = "run parity --mutation sm-g-sum --runs 1 --evaluations 300"
        sys.argv = ["tfsm", *words.split(), "--out", f"{folder}/run"]
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise


def main() -> None:
    """Print the counts, and with `--files` the files."""
    calls = {"mutate": mutate, "run": run}
    parser = argparse.ArgumentParser(description="Count the project's files and functions that a call runs through.")
    parser.add_argument("call", choices=calls)
    parser.add_argument("--files", action="store_true", help="list the files with their numbers of functions")
    arguments = parser.parse_args()
    import keras  # noqa: F401  # under a profile hook it would take long

    import tfsm  # noqa: F401

    files = count(calls[arguments.call])
    if arguments.files:
        for name, functions in sorted(files.items()):
            print(f"{len(functions) or 'import':>6}  {name}")
    entered = sum(map(bool, files.values()))
    functions = sum(map(len, files.values()))
    print(f"{arguments.call}: {entered} files and {functions} functions; {len(files) - entered} files only imported")
    if arguments.call == "mutate":
        needless = sorted(name for name in sys.modules if name.startswith(ABSENT))
        print(f"needless imports: {', '.join(needless) or 'none'}")


if __name__ == "__main__":
    main()
