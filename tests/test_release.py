"""What a release consists of agrees: the version in all places, the workflows, the citation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import tfsm
from tests.docs.markdown import ROOT
from tests.helpers.commands import tfsm as run_tfsm


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_the_version_has_one_source(tmp_path: Path) -> None:
    project = tomllib.loads(read("pyproject.toml"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "tfsm/__init__.py"
    assert run_tfsm("--version", cwd=tmp_path).stdout == f"tfsm {tfsm.__version__}\n"


def test_the_citation_and_the_changelog_have_the_version() -> None:
    assert f"\nversion: {tfsm.__version__}\n" in read("CITATION.cff")
    assert re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)[0] == tfsm.__version__


def test_the_extra_all_has_every_extra_of_tfsm_itself() -> None:
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("tfsm[").removesuffix("]").split(","))
    # Packages of environments and other libraries are large, or compiled on installation: each has an extra of its own.
    separate = {"atari", "box2d", "minigrid", "mujoco", "ribs", "deap", "evotorch"}
    assert named == set(extras) - separate - {"all", "test", "fuzz", "dev", "bench", "study", "docs"}


def test_the_workflows_test_every_supported_python_and_have_no_token() -> None:
    supported = re.findall(r"Python :: (3\.\d+)", read("pyproject.toml"))
    expected = ", ".join(f'"{version}"' for version in supported)
    for name in ("test", "release"):
        text = read(f".github/workflows/{name}.yml")
        assert f"python: [{expected}]" in text
        assert "tests/smoke.py" in text
        assert "secrets." not in text
    assert "id-token: write" in read(".github/workflows/release.yml")


def test_actions_are_pinned_to_commits() -> None:
    used = [
        line.split("uses: ", 1)[1]
        for file in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if "uses: " in line and "uses: ./" not in line
    ]
    assert len(used) > 10
    assert [one for one in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []
