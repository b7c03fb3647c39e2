"""Fuzz with feedback from coverage: `python -m tests.fuzz.long`, or `make fuzz-long`; needs the extra `fuzz`.

Each target runs in a process of its own, with atheris, for a given time. What it found is kept in `build/fuzz`, and
what was executed is added to the table in `results/fuzzing.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
WORK: Final = ROOT / "build" / "fuzz"
RESULTS: Final = ROOT / "results" / "fuzzing.md"
HANG_SECONDS: Final = 10
MOST_CRASHES: Final = 5
"""Crashes of a target after which it is given up for this time."""
KEPT_BYTES: Final = 8_000
"""The most that is committed of the corpus of a target."""


INSTRUMENTED: Final = (
    *("tfsm.analysis.results", "tfsm.evolution.checkpoint", "tfsm.evolution.event_log"),
    *("tfsm.models.inputs", "tfsm.models.loading", "tfsm.models.safe_loading"),
    *("tfsm.runs.behavior_log", "tfsm.runs.inventory", "tfsm.runs.records"),
    *("tfsm.settings.resolve", "tfsm.settings.sources", "tfsm.settings.validation", "tfsm.plugins.options"),
    *("tfsm_domains.hard_maze.domain", "tfsm_domains.hard_maze.maze", "tfsm_domains.pixel_maze.layout"),
)
"""The modules that the targets use, also those that they import only when they need them."""


class Row(NamedTuple):
    """All that was executed of a target so far."""

    target: str
    seconds: int = 0
    executions: int = 0
    coverage: int = 0
    inputs: int = 0
    found: int = 0

    def __str__(self) -> str:
        numbers = (f"{number:,}" for number in self[1:])
        return f"| {self.target} | {' | '.join(numbers)} |"


HEADER: Final = (
    "| target | seconds | executions | coverage | inputs kept | bugs found |",
    "|---|---:|---:|---:|---:|---:|",
)
INTRODUCTION: Final = """# Fuzzing

Measured by `python -m tests.fuzz.long`, over all its runs so far. The engine is libFuzzer, through atheris.
*Coverage* is the most edges in the Python code of `tfsm` that one run reached, *inputs kept* the inputs that each
reach something new. The targets are in `tests/fuzz/targets.py`. A bug is any exception but a `TfsmError`, more than
10 seconds or 1 GiB of memory for one input, a message with control characters, a file outside of the folder, a
process, or a connection. Several inputs may show the same bug. Each is fixed, with a regression test; the inputs in
`tests/fuzz/corpus` are tried by the default tests.

"""


def read_rows(text: str) -> dict[str, Row]:
    """Return the rows of a table by target.

    >>> read_rows("| metrics | 60 | 1,200 | 30 | 4 | 0 |")["metrics"].executions
    1200
    """
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == len(Row._fields) and cells[1].replace(",", "").isdigit():
            rows[cells[0]] = Row(cells[0], *(int(cell.replace(",", "")) for cell in cells[1:]))
    return rows


def add_row(file: Path, new: Row) -> None:
    """Add what was executed to a table."""
    rows = read_rows(file.read_text(encoding="utf-8")) if file.is_file() else {}
    old = rows.get(new.target, Row(new.target))
    rows[new.target] = Row(
        new.target,
        old.seconds + new.seconds,
        old.executions + new.executions,
        max(old.coverage, new.coverage),
        new.inputs or old.inputs,
        old.found + new.found,
    )
    file.write_text(INTRODUCTION + "\n".join([*HEADER, *map(str, rows.values()), ""]), encoding="utf-8")


class Executed(NamedTuple):
    """What one process of the fuzzer reports."""

    executions: int
    coverage: int
    crashed: bool


def parse_output(text: str) -> Executed:
    """Read the output of libFuzzer.

    >>> parse_output("#9 NEW cov: 12 ft: 3 corp: 2/7b\\nstat::number_of_executed_units: 90")
    Executed(executions=90, coverage=12, crashed=False)
    """
    units = re.search(r"number_of_executed_units:\s*(\d+)", text)
    counts = [int(number) for number in re.findall(r"^#(\d+)\s", text, re.MULTILINE)]
    coverage = [int(number) for number in re.findall(r"\bcov: (\d+)", text)]
    crashed = "ERROR: libFuzzer" in text or "Uncaught Python exception" in text
    return Executed(int(units[1]) if units else max(counts, default=0), max(coverage, default=0), crashed)


def fuzz(name: str, arguments: Sequence[str]) -> None:
    """Fuzz one target in this process; does not return."""
    import atheris

    with atheris.instrument_imports(include=["tfsm", "tfsm_domains"]):
        for module in INSTRUMENTED:
            importlib.import_module(module)
    from tests.fuzz.targets import TARGETS, Watch, try_content

    target, watch = TARGETS[name], Watch()
    for seed in target.seeds()[:1]:  # what is imported or compiled at first does not count
        try_content(target, seed)

    def mutate(content: bytes, longest: int, seed: int) -> bytes:
        """Change the content, mostly so that it keeps its form."""
        rng = random.Random(seed)

        def change_bytes(part: bytes) -> bytes:
            return bytes(atheris.Mutate(part, min(longest, len(part) + 64)))

        if target.change is not None and rng.random() < 0.8:
            with contextlib.suppress(ValueError, RecursionError):
                return target.change(content, change_bytes, rng)[:longest]
        return change_bytes(content)

    def run(content: bytes) -> None:
        try:
            try_content(target, content, watch)
        except BaseException:
            (WORK / name / "found" / f"exception-{hashlib.sha1(content).hexdigest()}").write_bytes(content)
            raise

    atheris.Setup([sys.argv[0], *arguments], run, custom_mutator=mutate)
    atheris.Fuzz()


def run_target(name: str, seconds: int) -> Row:
    """Fuzz a target for some time, in processes; a crash ends a process, and the next one goes on."""
    from tests.fuzz.targets import TARGETS, read_corpus

    corpus, found = WORK / name / "corpus", WORK / name / "found"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    for content in [*TARGETS[name].seeds(), *read_corpus(name)]:
        (corpus / hashlib.sha1(content).hexdigest()).write_bytes(content)
    executions = coverage = crashes = 0
    start = time.monotonic()
    while (left := seconds - (time.monotonic() - start)) > 5 and crashes < MOST_CRASHES:
        limits = [f"-max_total_time={left:.0f}", f"-timeout={HANG_SECONDS}", "-rss_limit_mb=0", "-print_final_stats=1"]
        flags = [
            *limits,
            "-len_control=0",
            f"-max_len={TARGETS[name].longest}",
            f"-artifact_prefix={found}/",
            str(corpus),
        ]
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.long", "--fuzz", name, *flags],
            cwd=ROOT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        (WORK / name / "output.txt").write_text(done.stdout, encoding="utf-8")
        result = parse_output(done.stdout)
        executions, coverage = executions + result.executions, max(coverage, result.coverage)
        if result.crashed:
            crashes += 1
            print(f"{name}: {_last_error(done.stdout)}", flush=True)
        elif done.returncode:
            raise RuntimeError(f"{name}: exit code {done.returncode}: {done.stdout[-2000:]}")
    keep_corpus(name, corpus)
    return Row(name, round(time.monotonic() - start), executions, coverage, len(list(corpus.iterdir())), crashes)


def _last_error(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    at = next(
        (i for i, line in enumerate(lines) if "Uncaught Python exception" in line or "ERROR: libFuzzer" in line), 0
    )
    return " ".join(line.strip() for line in lines[at : at + 3])


def keep_corpus(name: str, corpus: Path) -> None:
    """Copy the smallest inputs that were found to the repository, up to a limit."""
    from tests.fuzz.targets import CORPUS, TARGETS

    kept = CORPUS / name
    kept.mkdir(parents=True, exist_ok=True)
    total = sum(path.stat().st_size for path in kept.iterdir())
    seeds = {hashlib.sha1(content).hexdigest() for content in TARGETS[name].seeds()}
    for path in sorted(corpus.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
        content = path.read_bytes()
        if total + len(content) > KEPT_BYTES:
            break
        file = kept / hashlib.sha1(content).hexdigest()[:16]
        if path.name not in seeds and not file.exists():
            file.write_bytes(content)
            total += len(content)


def main() -> int:
    """Fuzz the targets one after the other."""
    if sys.argv[1:2] == ["--fuzz"]:
        fuzz(sys.argv[2], sys.argv[3:])
        return 0
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.long", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"which of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=int, default=3600, help="for each target (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the table (default: %(default)s)")
    options = parser.parse_args()
    for name in options.targets:
        if name not in TARGETS:
            parser.error(f"no target {name!r}")
    failed = False
    for name in options.targets or TARGETS:
        row = run_target(name, options.seconds)
        add_row(options.results, row)
        failed = failed or row.found > 0
        print(row, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
