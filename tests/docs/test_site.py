"""The documentation site: it builds without warnings, its links resolve, and its reference is complete."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from docs.scripts import check_site, generated_pages, notebook_pages, site_hooks
from tests.docs.markdown import DOCS, ROOT
from tfsm.plugins import load_plugins
from tfsm.plugins.options import describe
from tfsm.plugins.registry import KINDS
from tfsm.settings.schema import EngineOptions, RunOptions

PUBLIC = {
    "tfsm": "tfsm",
    "tfsm.functional": "functional",
    "tfsm.interfaces": "interfaces",
    "tfsm.abilities": "abilities",
    "tfsm.testing": "testing",
}
COMMANDS = dict(generated_pages.list_commands())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; warnings are errors."""
    for library in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(library, reason="the site needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_links_resolve_and_nothing_is_loaded_from_another_host(site: Path) -> None:
    assert check_site.find_problems(site) == []


@pytest.mark.parametrize(("module", "page"), PUBLIC.items())
def test_every_public_name_is_described(module: str, page: str, site: Path) -> None:
    anchors = check_site.Page((site / "reference" / "python" / f"{page}.html").read_text(encoding="utf-8")).anchors
    names = {name for name in importlib.import_module(module).__all__ if name not in ("__version__", "functional")}
    assert {f"{module}.{name}" for name in names} <= anchors


def test_examples_are_code(site: Path) -> None:
    for page in PUBLIC.values():
        text = (site / "reference" / "python" / f"{page}.html").read_text(encoding="utf-8")
        assert '<span class="gp">' in text  # a highlighted prompt
        assert "<blockquote>" not in text


def test_search_finds_generated_pages(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "reference/cli.html" in index
    assert "results/real-networks/index.html" in index


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_in_the_reference(name: str) -> None:
    text = generated_pages.render_cli()
    section = re.search(rf"^##+ {name}$(.*?)(?=^##|\Z)", text, flags=re.M | re.S)
    assert section is not None
    command = COMMANDS[name]
    for parameter in command.get_params(command.make_context(name, [], resilient_parsing=True)):
        if not getattr(parameter, "hidden", False):
            flag = parameter.opts[-1] if parameter.opts[-1].startswith("-") else parameter.metavar
            assert f"{flag}" in section[1], flag


def test_every_option_of_settings_is_in_the_reference() -> None:
    text = generated_pages.render_options()
    for options in (RunOptions, EngineOptions):
        assert {option.name for option in describe(options) if f"| `{option.name}` |" not in text} == set()
    plugins = load_plugins()
    for kind in KINDS:
        for entry in plugins.parts(kind).values():
            if entry.distribution == "tfsm":
                section = re.search(rf"^### `{re.escape(entry.name)}`$(.*?)(?=^##|\Z)", text, flags=re.M | re.S)
                assert section is not None, entry.name
                names = {option.name for option in describe(entry.with_options().options or generated_pages.NoOptions)}
                assert {name for name in names if f"| `{name}` |" not in section[1]} == set()


def test_a_broken_link_and_a_loaded_address_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="x"></h1><a href="b.html"></a><a href="a.html#y"></a><a href="#x"></a><a href="https://example.org"></a>'
        '<script src="https://example.org/a.js"></script><img src="c.png"><a href="a.html#x"></a>'
    )
    (tmp_path / "a.css").write_text('body { background: url("//example.org/a.png") }')
    assert check_site.find_problems(tmp_path.resolve()) == [
        "a.html: a.html#y has no such anchor",
        "a.html: b.html does not exist",
        "a.html: c.png does not exist",
        "a.html: it loads https://example.org/a.js",
        "a.css: it loads from another host",
    ]


@pytest.mark.parametrize("module", [site_hooks, notebook_pages], ids=lambda module: module.__name__)
def test_the_examples_of_scripts_run(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_films_are_small() -> None:
    films = list((DOCS / "images").glob("*.gif"))
    assert films
    assert {film.name for film in films if film.stat().st_size > 1_000_000} == set()
