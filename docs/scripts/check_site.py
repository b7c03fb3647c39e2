"""Check a built site: every link and anchor within it resolves, and no page loads anything from another host.

`python -m docs.scripts.check_site build/site` exits with 1 if there is a problem.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
"""What a browser loads by itself, by tag; `a` only links."""
UNLOADED_LINKS = {"canonical", "prev", "next"}
EXTERNAL_STYLE = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import\s+['\"](?:https?:)?//")


class Page(HTMLParser):
    """The links, anchors and loaded addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what matters of a tag."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag in LOADED and LOADED[tag] in values and values.get("rel") not in UNLOADED_LINKS:
            self.loaded.add(values[LOADED[tag]])


def find_problems(site: Path) -> list[str]:
    """Return a line for each broken link and each address on another host that a page would load."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    problems = [
        f"{path.relative_to(site)}: {problem}"
        for path, page in pages.items()
        for target in sorted(page.links | page.loaded)
        for problem in _check_target(site, pages, path, page, target)
    ]
    styles = (path for path in sorted(site.rglob("*.css")) if EXTERNAL_STYLE.search(path.read_text(encoding="utf-8")))
    return [*problems, *(f"{path.relative_to(site)}: it loads from another host" for path in styles)]


def _check_target(site: Path, pages: dict[Path, Page], path: Path, page: Page, target: str) -> list[str]:
    parts = urlsplit(target)
    if parts.scheme in ("data", "mailto", "javascript"):
        return []
    if parts.scheme or parts.netloc:
        return [f"it loads {target}"] if target in page.loaded else []
    # The page for unknown addresses has absolute links.
    start = site if parts.path.startswith("/") else path.parent
    file = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        return [f"{target} does not exist"]
    anchor = unquote(parts.fragment)
    if anchor and file in pages and anchor not in pages[file].anchors:
        return [f"{target} has no such anchor"]
    return []


if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    found = find_problems(Path(folder).resolve())
    print("\n".join(found) or "all links resolve, and nothing is loaded from another host")
    sys.exit(bool(found))
