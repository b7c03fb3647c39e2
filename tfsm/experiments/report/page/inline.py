"""Drawings within a page: part of it, in its colours, and told in words."""

from __future__ import annotations

import re

from tfsm.experiments.report.figures.look import COLORS, GRID, INK
from tfsm.experiments.report.page.html import Html, element, text


def inlined(svg: bytes, *, prefix: str, label: str, described_by: str) -> Html:
    """Return a drawing as an element of a page.

    Args:
        svg: a file of matplotlib's.
        prefix: makes its identifiers different from those of the page's other drawings.
        label: what it is.
        described_by: the element that tells its content.
    """
    source = svg.decode()
    found = re.search(r'<svg\b[^>]*\bviewBox="([^"]+)"[^>]*>(.*)</svg>', source, re.DOTALL)
    if found is None:
        raise ValueError("not a drawing: it has no <svg> with a viewBox")
    box, body = found.groups()
    # What it says of itself the page says better, and its style sheet would be the whole page's.
    body = re.sub(r"<(title|metadata|style)\b.*?</\1>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'\bid="', f'id="{prefix}', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", body)
    for color, name in variables().items():
        body = body.replace(color, f"var(--{name})")
    body = re.sub(r"\n\s*", "\n", body)
    return Html(
        f'<svg viewBox="{text(box)}" role="img" aria-label="{text(label)}" aria-describedby="{text(described_by)}">'
        f"{body}</svg>"
    )


def variables() -> dict[str, str]:
    """Return what the drawings' colours are called in the style sheet, where each scheme has its own."""
    return {INK: "ink", GRID: "grid", **{color: f"curve-{i}" for i, color in enumerate(COLORS)}}


def figure(drawings: list[tuple[str, Html]], *, caption: Html, id: str) -> Html:
    """Return a figure with its drawings, one of which is seen, by the width of the window."""
    shown = (element("div", drawing, class_=f"drawing {kind}") for kind, drawing in drawings)
    return element("figure", *shown, element("figcaption", caption), id=id)
