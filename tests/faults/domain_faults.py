"""Faults of a domain: it fails in this process, hangs, or crashes the process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from tests.faults.fragile_domain import KINDS
from tests.faults.lab import SMALL, Bench, FinalState, Lab, Trial, compare
from tfsm.errors import TfsmError

RAISING: Final = ("raise", "exit", "shape", "count", "structure", "type", "memory")
BROKEN: Final = ("nan", "inf")
_ALL: Final = 1 + SMALL["runs"]
"""One call for all individuals of a step, and one for each individual alone."""
FATAL: Final = {"die": 3, "segfault": -11}


def fail_and_resume(bench: Bench, kinds: Sequence[str], calls: Sequence[int]) -> Iterator[Trial]:
    """Let a domain fail once at each of these calls; once it works again, the results must be the same."""
    for kind in kinds:
        for at in calls:
            out, flag, problems = bench.new_out(), bench.break_domain(kind, at), []
            try:
                bench.run(out)
                problems.append("the failure had no effect")
            except TfsmError as error:
                if "\n" in str(error):
                    problems.append(f"more than one line: {error}")
            finally:
                flag.unlink()
            if json.loads((out / "run.json").read_text())["status"] != "failed":
                problems.append("the status in the record is not failed")
            yield compare(f"{KINDS[kind]} at call {at}", bench.expected, bench.finish(out), problems)


def fail_and_continue(bench: Bench, kinds: Sequence[str], calls: Sequence[int]) -> Iterator[Trial]:
    """Let a domain fail where a failure counts as a broken individual: the experiment finishes without help.

    The results differ from those without the fault, as they must, but no piece may be missing.
    """
    for kind in kinds:
        for at in calls:
            problems, out, flag = [], bench.new_out(), bench.break_domain(kind, at, times=_ALL)
            result = bench.run(out)
            flag.unlink()
            found = FinalState.of(out)
            if result.interrupted or len(result.runs) != SMALL["runs"]:
                problems.append("not all runs finished")
            if kind in RAISING and not any("counts as broken" in line for line in bench.messages):
                problems.append(f"no message about the failure: {bench.messages}")
            missing = [name for name in ("status", *bench.expected_runs) if name not in found.pieces]
            details = "; ".join([*problems, *(f"missing: {name}" for name in missing)])
            yield Trial(f"{KINDS[kind]} at call {at}", not problems, len(missing), details)


def fail_once(bench: Bench, kinds: Sequence[str], calls: Sequence[int]) -> Iterator[Trial]:
    """Let a domain fail in one call for a batch, where failures count as broken: single evaluations then succeed."""
    for kind in kinds:
        for at in calls:
            out, flag = bench.new_out(), bench.break_domain(kind, at)
            bench.run(out)
            flag.unlink()
            yield compare(f"{KINDS[kind]} once at call {at}", bench.expected, FinalState.of(out))


def hang(bench: Bench, calls: Sequence[int]) -> Iterator[Trial]:
    """Let a domain hang, with a timeout."""
    yield from fail_and_resume(bench, ["hang"], calls)


def crash_process(lab: Lab, bench: Bench, kinds: Sequence[str], at: int = 70) -> Iterator[Trial]:
    """Let a domain crash its process."""
    for kind in kinds:
        out, flag = lab.new_out(), lab.root / f"{kind}.json"
        flag.write_text(json.dumps({"kind": kind, "at": at}))
        ended = lab.begin(out, FRAGILE=str(flag), FRAGILE_PAUSE="0").wait()
        flag.unlink()
        problems = [] if ended.code == FATAL[kind] else [f"exit code {ended.code}: {ended.err}"]
        yield compare(f"{KINDS[kind]} at call {at}", bench.expected, bench.finish(out), problems)
