"""The documents are correct: code runs, commands and names exist, links resolve."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from docs.scripts import generated_pages
from tests.docs.markdown import ALL_PAGES, DECISIONS, DOCS, PAGES, ROOT, anchors, blocks, find_anchors, links
from tfsm.plugins import hookspecs, load_plugins
from tfsm.plugins.options import describe
from tfsm.plugins.registry import KINDS
from tfsm.settings import resolve


def shown(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.sample(10)
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=shown)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        if block.mark == "no-run" or block.title:  # files of a package are tested separately
            continue
        # Prepend empty lines, so that tracebacks have the line numbers of the page.
        exec(compile("\n" * (block.line - 1) + block.text, shown(page), "exec"), namespace)


@pytest.mark.parametrize("page", ALL_PAGES, ids=shown)
def test_blocks_have_known_marks(page: Path) -> None:
    for block in blocks(page, "python") + blocks(page, "toml"):
        assert not block.mark or block.mark == "no-run" or block.title, f"line {block.line - 1}: {block.mark}"


@pytest.mark.parametrize("page", [page for page in ALL_PAGES if blocks(page, "toml")], ids=shown)
def test_toml_blocks_are_valid_settings(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        if not block.title:
            (tmp_path / "tfsm.toml").write_text(block.text, encoding="utf-8")
            resolve(load_plugins(), domain="parity", mutation="sm-g-abs", cwd=tmp_path)


def test_every_hook_is_documented_with_its_signature() -> None:
    text = (DOCS / "reference" / "hooks.md").read_text(encoding="utf-8")
    tree = ast.parse(Path(hookspecs.__file__).read_text(encoding="utf-8"))
    hooks = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert {hook.name for hook in hooks} == {f"tfsm_register_{kind}s" for kind in KINDS}
    for hook in hooks:
        assert hook.returns is not None
        signature = f"def {hook.name}({ast.unparse(hook.args)}) -> {ast.unparse(hook.returns)}:"
        assert signature in text


@pytest.mark.parametrize("kind", KINDS)
def test_every_built_in_part_is_named(kind: Any) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    entries = load_plugins().parts(kind).values()
    assert {entry.name for entry in entries if entry.distribution == "tfsm" and f"`{entry.name}`" not in text} == set()


def test_every_option_is_explained() -> None:
    text = generated_pages.render_options() + (DOCS / "reference" / "run-settings.md").read_text(encoding="utf-8")
    plugins = load_plugins()
    keys = set()
    overrides = {"observers": list(plugins.observers)}
    for mutation in plugins.mutations:
        for domain, entry in plugins.domains.items():
            needed = [f"domain.{option.name}=any" for option in describe(entry.options) if option.required]
            resolved = resolve(
                plugins, domain=domain, mutation=mutation, overrides=overrides, sets=needed, cwd=Path("/")
            )
            keys |= set(resolved.sources)
    options = {key.rpartition(".")[2] for key in keys}
    assert {option for option in options if f"`{option}`" not in text} == set()


@pytest.mark.parametrize("page", ALL_PAGES, ids=shown)
def test_links_resolve(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if DOCS in target.parents and str(target.relative_to(DOCS)) in generated_pages.PAGES:
            text = generated_pages.PAGES[str(target.relative_to(DOCS))]()
            assert not anchor or anchor in find_anchors(text), link
            continue
        assert target.exists(), link
        # The anchors of Python names, such as `tfsm.mutate`, are made by the site and checked there.
        assert not anchor or anchor in anchors(target) or anchor.startswith("tfsm."), link


def test_every_document_is_in_the_navigation_of_the_site() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)\b", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    there = {str(page.relative_to(DOCS)) for page in PAGES if DOCS in page.parents}
    assert there <= listed
    assert set(generated_pages.PAGES) <= listed


def test_every_decision_is_listed() -> None:
    listed = {Path(link).name for link in links(DOCS / "contributing" / "decisions.md")}
    assert {page.name for page in DECISIONS} <= listed


@pytest.mark.parametrize("page", ALL_PAGES, ids=shown)
def test_make_is_called_with_targets_that_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    named = re.findall(r"(?:`|^\$ )make ([a-z-]+)", page.read_text(encoding="utf-8"), flags=re.M)
    assert set(named) <= targets


CODE_PAGES = [page for page in ALL_PAGES if page.name != "CHANGELOG.md"]  # the changelog names removed modules
PACKAGES = ("tfsm", "tfsm_plugins", "tfsm_domains", "benchmarks", "tests")


def find_modules(page: Path) -> set[str]:
    """Return the dotted names of code spans, such as `tfsm.kernels.random`, and the modules of `python -m`."""
    text = page.read_text(encoding="utf-8")
    spans = "\n".join(re.findall(r"`([^`\n]+)`", text))
    names = re.findall(rf"(?<![\w./-])((?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+)", spans)
    modules = re.findall(r"python -m ((?:benchmarks|tests)[\w.]*)", text)
    return {name for name in names if name.rpartition(".")[2] not in ("toml", "md", "json")} | set(modules)


def is_importable(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[count:]:
            if not hasattr(value, attribute):
                return False
            value = getattr(value, attribute)
        return True
    return False


def find_files(page: Path) -> set[str]:
    """Return the paths of Python files anywhere on a page, and of folders in code spans."""
    text = re.sub(r'title="[^"]+"', "", page.read_text(encoding="utf-8"))  # files of a tutorial's package
    files = re.findall(r"(?<![\w/.-])((?:[\w-]+/)+[\w-]+\.py)\b", text)
    folders = re.findall(r"`((?:tfsm|plugins|domains|tests|benchmarks|examples)(?:/[\w-]+)+/?)`", text)
    return {
        path
        for path in [*files, *folders]
        if not path.startswith(("src/", "tfsm/HardMaze", "tfsm/Topdown", "tfsm/First"))
    }


@pytest.mark.parametrize("page", CODE_PAGES, ids=shown)
def test_named_modules_and_files_exist(page: Path) -> None:
    assert {name for name in find_modules(page) if not is_importable(name)} == set()
    # A diagram may omit the package.
    assert {
        path for path in find_files(page) if not (ROOT / path).exists() and not (ROOT / "tfsm" / path).exists()
    } == set()
