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
    "a": ("operator_cost", "the cost of each operator in forward passes"),
    "b": ("whole_loop", "evaluations per second of the whole loop, compared with plain Keras loops"),
    "c": ("other_libraries", "the same genetic algorithm in other libraries"),
    "d": ("growth", "how the cost of a child grows"),
    "e": ("flop_rate", "floating-point rate, compared with plain matrix products"),
    "f": ("offspring", "evaluations per second of one run that makes many children at once"),
}


def parse_parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or any(part not in PARTS for part in parts):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(PARTS)}, got {text!r}")
    return parts


def make_parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {part}: {about}" for part, (_, about) in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure tfsm. Both sides of every ratio are measured in turns, on one core.",
        epilog=f"parts:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="take one minute instead of thirteen: fewer cases, less precision"
    )
    parser.add_argument("--only", type=parse_parts, default=list(PARTS), metavar="a,b", help="measure only these parts")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="the directory for benchmarks.json")
    parser.add_argument("--plots", action="store_true", help="also draw PNG plots there (needs matplotlib)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables to a Markdown file")
    return parser


def main() -> None:
    arguments = make_parser().parse_args()
    core = environment.use_one_core()
    # Import these only now: numerical libraries look at the number of cores when they are imported.
    from rich.console import Console

    from benchmarks.markdown import render_markdown
    from benchmarks.measure import Effort
    from benchmarks.results import BenchmarkTable, print_table, write_results
    from tfsm.utils.tf_startup import import_tensorflow

    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "benchmarks.json"
    console = Console(width=None if sys.stdout.isatty() else 140)
    meta = environment.describe_environment(core)
    meta["quick"] = arguments.quick
    meta["seconds"] = {}
    meta["load_average_after"] = {}
    console.print(f"{meta['processor']}, one core of {meta['cores_in_machine']}; load average {meta['load_average']}\n")
    import_tensorflow()
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # it warns of retracing, but the functions differ
    results: dict[str, list[BenchmarkTable]] = {}
    for part in arguments.only:
        start = time.perf_counter()
        module = importlib.import_module(f"benchmarks.{PARTS[part][0]}")
        results[part] = module.run(Effort.choose(arguments.quick))
        for table in results[part]:
            print_table(table, console)
        meta["seconds"][part] = round(time.perf_counter() - start, 1)
        meta["load_average_after"][part] = environment.read_load_average()
        write_results(path, meta, results)  # after each part, so that an interruption loses at most one
    console.print(f"{sum(meta['seconds'].values()):.0f} s; results in {path}", highlight=False)
    if arguments.markdown:
        arguments.markdown.parent.mkdir(parents=True, exist_ok=True)
        arguments.markdown.write_text(render_markdown(path), encoding="utf-8")
        console.print(f"tables in {arguments.markdown}", highlight=False)
    if arguments.plots:
        if importlib.util.find_spec("matplotlib") is None:
            console.print("no plots: matplotlib is not installed")
            return
        from benchmarks.plots import save_plots

        for plot in save_plots(path):
            console.print(f"plot in {plot}", highlight=False)


if __name__ == "__main__":
    main()
