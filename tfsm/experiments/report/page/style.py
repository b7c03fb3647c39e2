"""The style sheet of a page."""

from __future__ import annotations

from typing import Final

from tfsm.experiments.report.figures.look import COLORS, GRID, INK, PAPER

DARK_PAPER: Final = "#14181d"
DARK_COLORS: Final = ("#a8a8a8", "#e59cc6", "#4fb0ea", "#ff8f45", "#2fc79a", "#d9ae2b", "#ae97f2", "#d18b68")
"""The same hues, lighter: at least three times as bright as the dark paper."""


def _curves(colors: tuple[str, ...]) -> str:
    return " ".join(f"--curve-{i}: {color};" for i, color in enumerate(colors))


STYLE: Final = (
    f"""
:root {{
  color-scheme: light dark;
  --paper: {PAPER}; --panel: #f4f6f8; --ink: {INK}; --quiet: #555d66; --line: #c8cfd6; --grid: {GRID};
  --link: #0b57a4; --warn: #fff4d6; --warn-line: #9a6700; {_curves(COLORS)}
}}
@media screen and (prefers-color-scheme: dark) {{
  :root {{
    --paper: {DARK_PAPER}; --panel: #1d232a; --ink: #e4e8ec; --quiet: #a9b2bb; --line: #414a54; --grid: #343c45;
    --link: #7cb8f5; --warn: #3a2f12; --warn-line: #d9a521; {_curves(DARK_COLORS)}
  }}
}}
"""
    + """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", Arial, sans-serif;
}
header, nav, main, footer { max-width: 68rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; }
main { padding-bottom: 3rem; }
h1, h2, h3 { line-height: 1.25; overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; margin: 0 0 .25rem; }
h2 { font-size: 1.45rem; margin: 2.5rem 0 .75rem; padding-bottom: .3rem; border-bottom: 2px solid var(--line); }
h3 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
main:focus { outline: none; }
.skip { position: absolute; left: -100rem; top: 0; padding: .5rem 1rem; background: var(--paper); z-index: 1; }
.skip:focus { left: .5rem; top: .5rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .75rem 0 0; padding: 0; }
nav a { display: inline-block; padding: .3rem 0; }
nav li { overflow-wrap: anywhere; }
.banner {
  margin: 1rem 0; padding: .6rem 1rem; background: var(--warn); border-left: .35rem solid var(--warn-line);
  overflow-wrap: anywhere;
}
.scroll { overflow-x: auto; margin: 1rem 0 .5rem; border: 1px solid var(--line); border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .6rem .75rem; font-weight: 600; background: var(--panel); }
caption span, .group span { display: inline-block; position: sticky; left: .75rem; max-width: calc(100vw - 4rem); }
th, td { padding: .4rem .75rem; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
th { font-weight: 600; }
thead th { color: var(--quiet); white-space: nowrap; }
tbody th { min-width: 8rem; max-width: 26rem; }
tbody th, td { overflow-wrap: anywhere; }
.number { text-align: right; }
td.number, .short { white-space: nowrap; }
.long { min-width: 14rem; }
tbody th, thead th:first-child { position: sticky; left: 0; background: var(--paper); }
.group th { position: static; background: var(--panel); max-width: none; }
.notes, figcaption { color: var(--quiet); font-size: .9rem; }
.notes { margin: .25rem 0 1.25rem; padding-left: 1.2rem; }
.notes li, figcaption li { max-width: 50rem; margin: .15rem 0; }
figure { margin: 1.25rem 0 2rem; }
figcaption strong { color: var(--ink); }
figcaption ul { margin: .4rem 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
.drawing svg { display: block; width: 100%; height: auto; }
.drawing svg * { stroke-linejoin: round; stroke-linecap: butt; }
.wide { max-width: 50rem; }
.narrow { display: none; }
code { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .9em; }
.commands { padding-left: 1.2rem; }
.commands code { overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
details { margin: 1rem 0; }
summary { cursor: pointer; padding: .3rem 0; font-weight: 600; }
footer { padding-top: 1rem; padding-bottom: 2rem; color: var(--quiet); font-size: .9rem; }
@media screen and (max-width: 40rem) {
  .wide { display: none; }
  .narrow { display: block; }
  header { padding-top: 1rem; }
  th, td { padding: .35rem .5rem; }
  tbody th { max-width: 9.5rem; }
}
@media print {
  @page { margin: 15mm; }
  html { font-size: 10pt; }
  header, nav, main, footer { max-width: none; padding: 0; }
  nav, .skip { display: none; }
  h2, h3, caption { break-after: avoid; }
  section.study + section.study { break-before: page; }
  figure, tr, .group-rows, .brief, .banner, .notes { break-inside: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; border: 0; }
  table { font-size: 8pt; }
  thead th, td.number { white-space: normal; overflow-wrap: normal; }
  td.short { white-space: nowrap; }
  tbody th, thead th:first-child { position: static; }
  th, td, .long { padding: 1mm 1.5mm; min-width: 0; }
  tbody th { max-width: none; }
  .wide { max-width: 155mm; }
  caption { background: none; padding-left: 0; }
  caption span, .group span { position: static; max-width: none; }
  .banner { border: 1px solid var(--warn-line); border-left-width: .35rem; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""
)
