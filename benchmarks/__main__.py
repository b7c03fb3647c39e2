"""The command: `python -m benchmarks [--quick] [--only a,b] [--out DIR] [--plots] [--markdown FILE]`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import sys
import time
from pathlib import Path

from benchmarks import environment

PARTS = {
    "a": ("operator_cost", "each operator's cost in forward passes"),
    "b": ("whole_loop", "evaluations per second of the whole loop, beside plain Keras loops"),
    "c": ("other_libraries", "the same genetic algorithm in other libraries"),
    "d": ("growth", "how the cost of a child grows"),
    "e": ("flop_rate", "floating-point rate beside plain matrix products"),
}


def parts(given: str) -> list[str]:
    chosen = [part.strip() for part in given.split(",") if part.strip()]
    unknown = [part for part in chosen if part not in PARTS]
    if unknown or not chosen:
        raise argparse.ArgumentTypeError(f"expected some of {','.join(PARTS)}, got {given!r}")
    return chosen


def parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {part}: {about}" for part, (_, about) in PARTS.items())
    found = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure tfsm: every ratio has both sides measured in turns, on one core.",
        epilog=f"parts:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument(
        "--quick", action="store_true", help="a minute instead of about thirteen: fewer cases, wider spread"
    )
    found.add_argument("--only", type=parts, default=list(PARTS), metavar="a,b", help="only these parts")
    found.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="where benchmarks.json goes")
    found.add_argument("--plots", action="store_true", help="draw PNG plots there too (needs matplotlib)")
    found.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a Markdown file, too")
    return found


def main() -> None:
    asked = parser().parse_args()
    core = environment.one_core()
    # Only now: numerical libraries look at the number of cores when they are imported.
    from rich.console import Console

    from benchmarks.markdown import page
    from benchmarks.measure import Effort
    from benchmarks.results import Table, show, write
    from tfsm.utils.tf_startup import import_tensorflow

    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "benchmarks.json"
    console = Console(width=None if sys.stdout.isatty() else 140)
    meta = environment.describe(core)
    meta["quick"] = asked.quick
    meta["seconds"] = {}
    meta["load_average_after"] = {}
    console.print(f"{meta['processor']}, one core of {meta['cores_in_machine']}; load average {meta['load_average']}\n")
    import_tensorflow()
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # many functions are made here, which it warns of
    results: dict[str, list[Table]] = {}
    for part in asked.only:
        began = time.perf_counter()
        module = importlib.import_module(f"benchmarks.{PARTS[part][0]}")
        results[part] = module.run(Effort.of(asked.quick))
        for table in results[part]:
            show(table, console)
        meta["seconds"][part] = round(time.perf_counter() - began, 1)
        meta["load_average_after"][part] = environment.load()
        write(path, meta, results)  # after each part, so that an interruption loses one at the most
    console.print(f"{sum(meta['seconds'].values()):.0f} s; results in {path}", highlight=False)
    if asked.markdown:
        asked.markdown.parent.mkdir(parents=True, exist_ok=True)
        asked.markdown.write_text(page(path), encoding="utf-8")
        console.print(f"tables in {asked.markdown}", highlight=False)
    if asked.plots:
        if importlib.util.find_spec("matplotlib") is None:
            console.print("no plots: matplotlib is not installed")
            return
        for plot in importlib.import_module("benchmarks.plots").draw(path):
            console.print(f"plot in {plot}", highlight=False)


if __name__ == "__main__":
    main()
