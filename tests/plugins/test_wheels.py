"""New packages and the example, as wheels in a fresh environment: found, listed and run by name."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.docs.package import EXAMPLE
from tests.helpers.fake_distribution import FakeSite
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import KINDS
from tfsm.plugins.scaffold import names_for, usage_example, write_package

SMALL = ("--population", "6", "--evaluations", "12", "--quiet", "--json")


def run_command(*command: str, cwd: Path, environ: dict[str, str]) -> str:
    result = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=900, check=False)
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout


@pytest.mark.slow
def test_wheels_in_a_fresh_environment_run_by_name(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    environ = FakeSite(tmp_path / "nothing").environ()
    environ.pop("PYTHONPATH")
    environ["SDL_VIDEODRIVER"] = "dummy"  # environments are also rendered to a window
    every = [names_for(f"try-{kind}", kind) for kind in KINDS]
    packages = [write_package(names, load_plugins(), tmp_path / names.package) for names in every]
    wheels = tmp_path / "wheels"
    for source in (ROOT, EXAMPLE, *packages):
        run_command(
            *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(source)),
            cwd=tmp_path,
            environ=environ,
        )
    assert len(list(wheels.glob("*.whl"))) == 2 + len(packages)

    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    scripts, site = (
        Path(sysconfig.get_path(what, "venv", {"base": str(home), "platbase": str(home)}))
        for what in ("scripts", "purelib")
    )
    python = scripts / Path(sys.executable).name
    install = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index")
    run_command(*install, *map(str, wheels.glob("*.whl")), cwd=tmp_path, environ=environ)
    # TensorFlow and the rest are already installed; packages of the environment take precedence.
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(others), encoding="utf-8")

    tfsm = str(scripts / "tfsm")
    where = "import tfsm; print(tfsm.__file__)"
    assert str(site) in run_command(str(python), "-c", where, cwd=tmp_path, environ=environ)
    mazes = (
        "import gymnasium; from gymnasium.utils.env_checker import check_env; "
        "check_env(gymnasium.make('tfsm_domains.envs:tfsm/HardMaze-v0').unwrapped)"
    )
    run_command(str(python), "-W", "error::UserWarning", "-c", mazes, cwd=tmp_path, environ=environ)
    infos = json.loads(run_command(tfsm, "plugins", "list", "--json", cwd=tmp_path, environ=environ))
    states = {info["name"]: (info["state"], info["distribution"]) for info in infos}
    assert states["example"] == ("loaded", "tfsm-example-plugin")
    for names in every:
        assert states[names.part] == ("loaded", names.package)
        _, *words = usage_example(names).split()
        summary = json.loads(
            run_command(tfsm, *words, *SMALL, "--out", f"out-{names.part}", cwd=tmp_path, environ=environ)
        )
        assert summary["runs"][0]["evaluations"] <= 12
    # The fixtures come with the wheel, through the entry point of pytest.
    run_command(
        *(str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(packages[0] / "tests")),
        cwd=packages[0],
        environ=environ,
    )
    run_command(tfsm, "plugins", "check", "observer:csv", cwd=tmp_path, environ=environ)
