"""Hooks of mkdocs: pages from outside of `docs/`, generated pages, and links as they are in the repository.

Pages link to files of the repository, so that the links also work where the repository is browsed. A link to a page of
the site becomes a link to that page. Any other linked text file becomes a page that shows it, and a linked folder a
page that lists it.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs.scripts import generated_pages, notebook_pages  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import File, Files
    from mkdocs.structure.pages import Page

MOVED = {
    "CHANGELOG.md": "contributing/changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "README.md": "index.md",
    "SECURITY.md": "contributing/security.md",
}
"""Where pages of the repository are on the site, if not at the same path."""

LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash", ".yml": "yaml"}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^```.*?^```$", flags=re.M | re.S)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the anchors of headings as GitHub does, and list the decision records below the page of decisions."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = make_anchor
    records = sorted(path.name for path in (ROOT / "docs" / "adr").glob("*.md"))
    contributing = next(item["Contributing"] for item in config.nav or [] if "Contributing" in item)
    for entry in contributing:
        if isinstance(entry.get("Decisions"), str):
            entry["Decisions"] = [entry["Decisions"], *(f"adr/{name}" for name in records)]
    return config


def make_anchor(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading.

    >>> make_anchor("(e) Distance from the machine's limit")
    'e-distance-from-the-machines-limit'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the results, the pages at the top of the repository, and generated pages."""
    from mkdocs.structure.files import File

    def add(uri: str, content: str | bytes | None = None, path: Path | None = None) -> None:
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=content, abs_src_path=str(path) if path else None))

    for name, render in generated_pages.PAGES.items():
        add(name, render())
    for uri, content in notebook_pages.render_all(ROOT / "examples" / "notebooks").items():
        add(uri, content)
    for path in (path for path in list_repository_pages() if not path.startswith("docs/")):
        add(site_path(path), path=ROOT / path)
    for path in sorted(find_linked_files()):
        source = ROOT / path
        if source.is_dir():
            add(site_path(path), list_folder(path))
        elif source.suffix in (".png", ".gif", ".svg", ".csv", ".json", ".ipynb"):
            add(site_path(path), path=source)
        else:
            language = LANGUAGES.get(source.suffix, "text")
            add(site_path(path), f"# {path}\n\n````{language}\n{source.read_text(encoding='utf-8')}````\n")
    return files


@cache
def list_repository_pages() -> tuple[str, ...]:
    """Return the Markdown files of the repository that are pages of the site."""
    found = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "results").rglob("*.md")]
    return (*sorted(str(path.relative_to(ROOT)) for path in found), "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


@cache
def find_linked_files() -> frozenset[str]:
    """Return the files and folders outside of `docs/` that pages link to, other than pages of the site."""
    pages = {*list_repository_pages(), "README.md"}
    linked = {
        resolve_link(page, target)[0]
        for page in list_repository_pages()
        for _, target, _ in LINK.findall(FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")))
        if not re.match(r"[a-z]+:|#", target)
    }
    return frozenset(
        path
        for path in linked - pages
        if not path.startswith(("docs/", "examples/notebooks/")) and (ROOT / path).exists()
    )


def resolve_link(page: str, target: str) -> tuple[str, str]:
    """Return the file of the repository that a link of a page leads to, and the anchor."""
    path, _, anchor = target.partition("#")
    return (os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page), anchor


def site_path(path: str) -> str:
    """Return where a file of the repository is on the site.

    >>> site_path("docs/start/install.md"), site_path("results/README.md"), site_path("examples/pixel_views.py")
    ('start/install.md', 'results/index.md', 'source/examples/pixel_views.py.md')
    """
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith(notebook_pages.FOLDER):
        return notebook_pages.site_path(path)
    at = PurePosixPath(path)
    if (ROOT / path).is_dir():
        return str(at / "index.md") if path.startswith("results/") else f"source/{path}/index.md"
    if path.startswith("results/") and at.suffix in (".md", ".png", ".gif", ".svg", ".csv", ".json"):
        return str(at.with_name("index.md")) if at.name == "README.md" else path
    return f"source/{path}" if at.suffix in (".png", ".gif", ".svg", ".csv", ".json") else f"source/{path}.md"


def list_folder(path: str) -> str:
    """Return a page with links to the files of a folder that are on the site."""
    pages = [page for page in list_repository_pages() if page.startswith(f"{path}/")]
    entries = [f"- [{page.removeprefix(f'{path}/')}]({page.removeprefix(f'{path}/')})" for page in pages]
    return f"# {path}\n\n" + ("\n".join(entries) or "The files are in the repository.") + "\n"


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adjust the links of a page to the site, and remove marks of blocks that only the tests use."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # a list of one page
    markdown = re.sub(r"^(```python) no-run$", r"\1", markdown, flags=re.M)
    source = repository_path(page.file)
    if source is None:
        return markdown

    def adjust(match: re.Match[str]) -> str:
        target = match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, anchor = resolve_link(source, target)
        relative = os.path.relpath(site_path(path), os.path.dirname(page.file.src_uri) or ".")
        return f"{match[1]}{relative}{'#' + anchor if anchor else ''}{match[3]}"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(adjust, part) for part in parts)


def repository_path(file: File) -> str | None:
    """Return the file of the repository that a page was made of; None for a generated page."""
    return _sources().get(file.src_uri)


@cache
def _sources() -> dict[str, str]:
    notebooks = [str(path.relative_to(ROOT)) for path in (ROOT / notebook_pages.FOLDER).glob("*.py")]
    return {site_path(path): path for path in (*list_repository_pages(), *notebooks)}
