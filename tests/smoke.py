"""Smoke test of an installed tfsm, with nothing but the installation: `python tests/smoke.py`.

Run it with the interpreter into which a wheel or a source distribution was installed. It needs no test tools, and fails
if it would test a source tree instead of the installation. What needs an extra that is not installed is left out.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent
TFSM = [sys.executable, "-m", "tfsm"]


def run(*words: str, cwd: Path) -> str:
    """Run a command and return its output; a failure ends the smoke test."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def check(condition: object, message: str) -> None:
    """End the smoke test unless a condition holds."""
    if not condition:
        sys.exit(f"failed: {message}")
    print(f"ok: {message}", flush=True)


def has(*modules: str) -> bool:
    """Say whether modules are installed."""
    return all(importlib.util.find_spec(module) for module in modules)


PYTHON = """
import keras, numpy, tfsm
model = keras.Sequential([keras.Input([3]), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)])
inputs = numpy.random.default_rng(0).normal(size=[32, 3]).astype("float32")
child = tfsm.mutate(model, inputs, divergence=0.01)
print(tfsm.divergence(model, child, inputs))
model.save("model.keras")
numpy.save("inputs.npy", inputs)
"""


def main() -> None:
    """Test the installation in an empty directory."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        place = Path(run(sys.executable, "-c", "import tfsm; print(tfsm.__file__)", cwd=here).strip())
        check(not place.is_relative_to(SOURCES / "tfsm"), f"tfsm is installed, in {place.parent}")
        version = run(sys.executable, "-c", "import tfsm; print(tfsm.__version__)", cwd=here).strip()
        check(run(*TFSM, "--version", cwd=here) == f"tfsm {version}\n", f"tfsm --version is {version}")
        check(importlib.metadata.version("tfsm") == version, "the metadata has the same version")
        script = Path(sys.executable).with_name("tfsm.exe" if os.name == "nt" else "tfsm")
        check("Three commands" in run(str(script), cwd=here), "the command tfsm is installed")

        plugins = json.loads(run(*TFSM, "plugins", "list", "--json", cwd=here))
        check(plugins and all(plugin["state"] == "loaded" for plugin in plugins), f"{len(plugins)} plugins are loaded")
        run(*TFSM, "config", "show", "parity", cwd=here)
        run(*TFSM, "plugins", "new", "my-noise", "--kind", "mutation", cwd=here)
        check((here / "tfsm-my-noise" / "pyproject.toml").is_file(), "tfsm plugins new writes a package")

        words = ("run", "parity", "--mutation", "sm-g-sum", "--runs", "2", "--population", "20", "--evaluations", "200")
        result = json.loads(run(*TFSM, *words, "--quiet", "--json", "--out", "run", cwd=here))
        check([one["evaluations"] for one in result["runs"]] == [200, 200], "tfsm run evolves networks")
        report = json.loads(run(*TFSM, "report", "run", "--json", cwd=here))
        check(report["studies"][0]["domain"] == "parity", "tfsm report reads them")
        if has("matplotlib"):
            run(*TFSM, "report", "run", "--html", "report.html", "--quiet", cwd=here)
            check((here / "report.html").stat().st_size > 50_000, "tfsm report writes a page")
        if has("starlette", "uvicorn", "matplotlib"):
            watch(here)

        moved = float(run(sys.executable, "-c", PYTHON, cwd=here).split()[-1])
        check(0.005 < moved < 0.02, f"tfsm.mutate moves the outputs by {moved:.4f}, and 0.01 was asked for")
        words = ("mutate", "model.keras", "--experience", "inputs.npy", "--out", "child.keras", "--quiet")
        run(*TFSM, *words, cwd=here)
        check((here / "child.keras").is_file(), "tfsm mutate writes a child")
    print(f"tfsm {version} works on Python {sys.version.split()[0]}")


def watch(here: Path) -> None:
    """Open the live page once."""
    from urllib.request import urlopen

    with subprocess.Popen([*TFSM, "watch", "run"], cwd=here, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            page = urlopen(url, timeout=120).read().decode()
            check("Watching run" in page, "tfsm watch serves a page")
        finally:
            process.kill()


if __name__ == "__main__":
    main()
