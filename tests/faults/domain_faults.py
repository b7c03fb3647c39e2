"""A domain that fails: in this process, where it can be survived, or with the whole process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from tests.faults.fragile_domain import KINDS
from tests.faults.lab import SMALL, Bench, FinalState, Lab, Trial, compared
from tfsm.errors import TfsmError

RAISING: Final = ("raise", "exit", "shape", "count", "structure", "type", "memory")
BROKEN: Final = ("nan", "inf")
_ALL: Final = 1 + SMALL["runs"]
"""One call for all individuals of a step, and one for each of them alone."""
FATAL: Final = {"die": 3, "segfault": -11}


def stopping(bench: Bench, kinds: Sequence[str], calls: Sequence[int]) -> Iterator[Trial]:
    """Let a domain fail once at each of these calls; when it is sound again the result must be the same."""
    for kind in kinds:
        for at in calls:
            out, flag, problems = bench.out(), bench.break_domain(kind, at), []
            try:
                bench.run(out)
                problems.append("it went on as if nothing had happened")
            except TfsmError as error:
                if "\n" in str(error):
                    problems.append(f"more than one line: {error}")
            finally:
                flag.unlink()
            if json.loads((out / "run.json").read_text())["status"] != "failed":
                problems.append("the record does not say that it failed")
            yield compared(f"{KINDS[kind]} at call {at}", bench.expected, bench.final(out), problems)


def surviving(bench: Bench, kinds: Sequence[str], calls: Sequence[int]) -> Iterator[Trial]:
    """Let a domain fail where that counts as a broken individual: the experiment comes to its end by itself.

    What comes of it is other than without the fault, as it must be: but nothing may be missing.
    """
    for kind in kinds:
        for at in calls:
            problems, out, flag = [], bench.out(), bench.break_domain(kind, at, times=_ALL)
            result = bench.run(out)
            flag.unlink()
            found = FinalState.of(out)
            if result.interrupted or len(result.runs) != SMALL["runs"]:
                problems.append("not all runs came to their end")
            if kind in RAISING and not any("counts as broken" in line for line in bench.heard):
                problems.append(f"the user was not told: {bench.heard}")
            missing = [name for name in ("status", *bench.expected_runs) if name not in found.pieces]
            words = "; ".join([*problems, *(f"missing: {name}" for name in missing)])
            yield Trial(f"{KINDS[kind]} at call {at}", not problems, len(missing), words)


def failing_once(bench: Bench, kinds: Sequence[str], calls: Sequence[int]) -> Iterator[Trial]:
    """Let a domain fail at one call for several, where that ends nothing: asked again, it says what it should."""
    for kind in kinds:
        for at in calls:
            out, flag = bench.out(), bench.break_domain(kind, at)
            bench.run(out)
            flag.unlink()
            yield compared(f"{KINDS[kind]} once at call {at}", bench.expected, FinalState.of(out))


def hanging(bench: Bench, calls: Sequence[int]) -> Iterator[Trial]:
    """Let a domain hang, with a time-out."""
    yield from stopping(bench, ["hang"], calls)


def fatal(lab: Lab, bench: Bench, kinds: Sequence[str], at: int = 70) -> Iterator[Trial]:
    """Let a domain take its process with it."""
    for kind in kinds:
        out, flag = lab.out(), lab.root / f"{kind}.json"
        flag.write_text(json.dumps({"kind": kind, "at": at}))
        ended = lab.begin(out, FRAGILE=str(flag), FRAGILE_PAUSE="0").end()
        flag.unlink()
        problems = [] if ended.code == FATAL[kind] else [f"exit code {ended.code}: {ended.err}"]
        yield compared(f"{KINDS[kind]} at call {at}", bench.expected, bench.final(out), problems)
