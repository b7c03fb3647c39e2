"""Parse a page into its elements, without a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Node:
    """An element."""

    tag: str
    attributes: dict[str, str]
    children: list[Node] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def all(self, *tags: str) -> list[Node]:
        """Return this element and all below, of the given kinds if any, in document order."""
        selected = [self] if not tags or self.tag in tags else []
        return selected + [node for child in self.children for node in child.all(*tags)]

    @property
    def text(self) -> str:
        """The text of the element and of all below it."""
        return " ".join([*self.texts, *(child.text for child in self.children)]).strip()


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute of <{tag}> is repeated"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.open[-1].texts.append(data.strip())


def parse_page(page: bytes) -> Node:
    """Return the elements of a page. An element that is not closed properly is an error."""
    parser = _Outline()
    parser.feed(page.decode("utf-8"))
    parser.close()
    assert len(parser.open) == 1, f"<{parser.open[-1].tag}> is never closed"
    return parser.root
