"""Elements of a page: text is escaped unless it was built here."""

from __future__ import annotations

from collections.abc import Sequence, Set
from html import escape
from itertools import groupby
from typing import Final

from tfsm.experiments.report.tables import Table
from tfsm.experiments.report.words import printable

_SHORT: Final = 17
_LONG: Final = 30
"""Letters of a cell."""
_BRIEF: Final = 12
"""Rows of a table that is not worth a page break within it."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | int | None) -> Html:
    """Return an element; children that are no HTML are text.

    An attribute's trailing underscore is dropped, other underscores become hyphens; one without a value is left out.

    >>> element("p", "1 < 2 ", element("b", "&"), class_="note", aria_label="<>", id=None)
    '<p class="note" aria-label="&lt;&gt;">1 &lt; 2 <b>&amp;</b></p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{joined(*children)}</{name}>")


def text(content: str) -> Html:
    """Return text in which nothing is taken for HTML."""
    return Html(escape(printable(content)))


def joined(*children: str) -> Html:
    """Return elements and texts one after the other."""
    return Html("".join(child if isinstance(child, Html) else text(child) for child in children))


def listing(items: list[str], *, id: str | None = None, class_: str | None = None) -> Html:
    """Return a list."""
    return element("ul", *(element("li", item) for item in items), id=id, class_=class_)


def table(content: Table, id: str) -> Html:
    """Return a table in a box that scrolls by itself, by keyboard too, and what is to be known about it."""
    columns = content.columns[1:] if content.grouped else content.columns
    numeric = {i - 1 for i in content.numeric} if content.grouped else content.numeric
    head = element("thead", element("tr", *(_head(name, i in numeric) for i, name in enumerate(columns))))
    body = _groups(content, numeric) if content.grouped else [_body(content.rows, numeric)]
    drawn = element("table", element("caption", element("span", content.caption), id=f"{id}-caption"), head, *body)
    box = element(
        "div",
        drawn,
        class_="scroll brief" if len(content.rows) <= _BRIEF else "scroll",
        role="group",
        tabindex=0,
        aria_labelledby=f"{id}-caption",
        id=id,
    )
    return joined(box, listing(list(content.notes), class_="notes") if content.notes else Html())


def _groups(content: Table, numeric: Set[int]) -> list[Html]:
    bodies = []
    for first, rows in groupby(content.rows, key=lambda row: row[0]):
        heading = element(
            "tr",
            element("th", element("span", first), scope="rowgroup", colspan=len(content.columns) - 1),
            class_="group",
        )
        own = (_row(row[1:], numeric) for row in rows)
        bodies.append(element("tbody", heading, *own, class_="group-rows"))
    return bodies


def _body(rows: Sequence[tuple[str, ...]], numeric: Set[int]) -> Html:
    return element("tbody", *(_row(row, numeric) for row in rows))


def _head(name: str, numeric: bool) -> Html:
    return element("th", name, scope="col", class_="number" if numeric else None)


def _row(cells: tuple[str, ...], numeric: Set[int]) -> Html:
    first, *others = cells
    rest = (element("td", cell, class_=_kind(cell, i in numeric)) for i, cell in enumerate(others, start=1))
    return element("tr", element("th", first, scope="row"), *rest)


def _kind(cell: str, numeric: bool) -> str | None:
    """Return how a cell is laid out: short ones are not broken, long ones get some room."""
    kinds = ["number"] if numeric else []
    kinds += ["short"] if len(cell) <= _SHORT else ["long"] if len(cell) >= _LONG and not numeric else []
    return " ".join(kinds) or None
