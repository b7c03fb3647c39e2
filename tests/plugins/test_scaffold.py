"""New packages: names, files, tests, and two of them in one run."""

from __future__ import annotations

import ast
import json
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.docs.package import EXAMPLE, TUTORIALS, parse_new_command, write_tutorial_package
from tests.helpers.fake_distribution import FakeSite
from tests.testing.running import pytest_in, ruff
from tfsm.errors import TfsmError
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import KINDS, Kind
from tfsm.plugins.scaffold import names_for, write_package
from tfsm.runs.runner import run_experiment
from tfsm.settings import resolve


def new(kind: Kind, folder: Path, name: str = "") -> Path:
    names = names_for(name or f"try-{kind}", kind)
    return write_package(names, load_plugins(), folder / names.package)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("My Noise", "mutation", "bad name 'My Noise': .*, did you mean 'my-noise'?"),
        ("myNoise", "mutation", "did you mean 'my-noise'?"),
        ("my_noise", "mutation", "did you mean 'my-noise'?"),
        ("2fast", "mutation", "did you mean 'fast'?"),
        ("../up", "mutation", "did you mean 'up'?"),
        ("", "mutation", "bad name ''"),
        ("é", "mutation", "bad name 'é': expected lower-case letters"),
        ("a", "mutaton", "--kind mutaton: no such kind of part, did you mean 'mutation'?"),
    ],
)
def test_bad_names_are_rejected_with_a_better_one(name: str, kind: str, message: str) -> None:
    with pytest.raises(TfsmError, match=message.replace("?", r"\?")):
        names_for(name, kind)


def test_a_package_may_be_named_with_its_prefix() -> None:
    assert names_for("tfsm-my-noise", "mutation") == names_for("my-noise", "mutation")


def test_existing_names_are_rejected(tmp_path: Path) -> None:
    plugins = load_plugins()
    with pytest.raises(TfsmError, match=r"mutation 'control' already exists, registered by plugin 'tfsm-mutations'"):
        write_package(names_for("control", "mutation"), plugins, tmp_path / "new")
    with pytest.raises(TfsmError, match="a module named 'tfsm_domains' is already installed"):
        write_package(names_for("domains", "domain"), plugins, tmp_path / "new")
    with pytest.raises(TfsmError, match="already exists: choose another name, or another directory with --out"):
        write_package(names_for("my-noise", "mutation"), plugins, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_complete(kind: Kind, tmp_path: Path) -> None:
    folder = new(kind, tmp_path)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    module = f"tfsm_try_{kind}"
    assert project["name"] == f"tfsm-try-{kind}"
    assert project["entry-points"]["tfsm"] == {f"try-{kind}": module}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        ".github/workflows/test.yml",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        f"src/{module}/__init__.py",
        f"src/{module}/options.py",
        f"src/{module}/{kind}.py",
        f"tests/test_try_{kind}.py",
    }
    assert not any("$" in (folder / path).read_text() for path in files if path.endswith((".py", ".toml")))
    assert "${{ matrix.python }}" in (folder / ".github/workflows/test.yml").read_text()
    imported = _imports(folder / f"src/{module}/options.py")
    assert imported <= {"dataclasses", "typing", "annotated_types", "typing_extensions"}


def test_a_new_domain_and_a_new_mutation_run_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = []
    for kind in KINDS[:2]:
        folder = new(kind, tmp_path, f"pair-{kind}")
        monkeypatch.syspath_prepend(folder / "src")
        points.append(EntryPoint(f"pair-{kind}", f"tfsm_pair_{kind}", "tfsm"))
    plugins = load_plugins(entry_points=[*entry_points(group="tfsm"), *points], environ={"TFSM_STRICT_PLUGINS": "1"})
    few = {"population": 8, "evaluations": 16, "log_every": 8}

    resolved = resolve(plugins, domain="pair-domain", mutation="pair-mutation", cwd=tmp_path)
    assert (resolved.settings.intensity, resolved.sources["intensity"]) == (0.1, "plugin pair-mutation")
    assert (resolved.settings.population, resolved.sources["population"]) == (50, "plugin pair-domain")
    assert (resolved.settings.log_every, resolved.sources["log_every"]) == (100, "plugin pair-domain")
    assert resolve(plugins, domain="pair-domain", mutation="sm-g-sum", cwd=tmp_path).settings.intensity == 0.1

    quick = resolve(
        plugins,
        domain="pair-domain",
        mutation="pair-mutation",
        overrides=few,
        sets=["engine.compile=graph"],
        cwd=tmp_path,
    )
    result = run_experiment(plugins, quick, out=tmp_path / "run")
    assert [run.evaluations for run in result.runs] == [16]
    recorded = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert recorded["sources"]["intensity"] == "plugin pair-mutation"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeSite, list[Path]]:
    """Install every kind of new package, the packages of the tutorials, and the example."""
    folder = tmp_path_factory.mktemp("packages")
    site = FakeSite(tmp_path_factory.mktemp("site"))
    found = [
        *(new(kind, folder) for kind in KINDS),
        *(write_tutorial_package(page, folder) for page in TUTORIALS),
        EXAMPLE,
    ]
    for package in found:
        site.install_source(package)
    return site, found


def test_packages_pass_ruff(packages: tuple[FakeSite, list[Path]]) -> None:
    for arguments in (("check",), ("format", "--check")):
        ended = ruff(*arguments, *map(str, packages[1]))
        assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
def test_packages_pass_their_quick_tests(packages: tuple[FakeSite, list[Path]]) -> None:
    site, found = packages
    new_packages, others = found[: len(KINDS)], found[len(KINDS) :]
    own = [test for package in others for test in _own_tests(package)]
    assert len(own) == 8
    # The slow test covers complete runs, and the checks of the other packages.
    ended = pytest_in(
        site, *(str(package / "tests") for package in new_packages), *own, "-k", "not lock-step and not affect-the-run"
    )
    assert ended.returncode == 0, ended.stdout[-4000:]
    assert "skipped" not in ended.stdout


@pytest.mark.slow
def test_packages_pass_all_their_tests(packages: tuple[FakeSite, list[Path]]) -> None:
    site, found = packages
    ended = pytest_in(site, *(str(package / "tests") for package in found))
    assert ended.returncode == 0, ended.stdout[-4000:]


def test_every_tutorial_covers_another_kind() -> None:
    assert sorted(parse_new_command(page).kind for page in TUTORIALS) == ["domain", "mutation", "selection"]


def _own_tests(package: Path) -> list[str]:
    """Return the tests of a package other than the common checks."""
    (file,) = (package / "tests").glob("test_*.py")
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    tests = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return [f"{file}::{test.name}" for test in tests if "tfsm_check" not in {each.arg for each in test.args.args}]


def _imports(path: Path) -> set[Any]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
