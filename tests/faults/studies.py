"""Studies that are killed, or of which one member fails, and that are started again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.faults.final import Final as FinalState
from tests.faults.lab import Lab, Process, flags
from tests.faults.trial import Trial, compared

MEMBERS: Final = ("control", "sm-r")
_SECOND: Final = 200
"""A call within the second member: the first makes fewer."""


def start(lab: Lab, out: Path, *more: str, **variables: str) -> Process:
    """Start a comparison, or go on with it."""
    return lab.start(
        "compare", "fragile", "--mutation", ",".join(MEMBERS), *flags(), "--out", str(out), *more, **variables
    )


def studies(lab: Lab, *more: str) -> Iterator[Trial]:
    """Kill a study in the midst of its second member, then let a member of another fail; start both again."""
    whole = lab.out()
    problems = start(lab, whole, FRAGILE_PAUSE="0").end().problems
    expected = FinalState.of(whole)
    assert expected.pieces["the study's status"] == "finished"

    out = lab.out()
    process = start(lab, out, *more)
    process.wait_for(lambda: bool(list((out / MEMBERS[1]).glob("checkpoints/*.checkpoint"))))
    process.kill()
    yield _again(lab, out, expected, "killed in the second member", problems, *more)

    out, flag = lab.out(), lab.root / "study.json"
    flag.write_text(json.dumps({"kind": "raise", "at": _SECOND if not more else 60}))
    ended = start(lab, out, *more, FRAGILE=str(flag), FRAGILE_PAUSE="0").end()
    flag.unlink()
    problems = list(ended.problems)
    if ended.code != 2 or "the simulator broke down" not in ended.err:
        problems.append(f"exit code {ended.code}: {ended.err}")
    yield _again(lab, out, expected, "a member fails", problems, *more)


def _again(lab: Lab, out: Path, expected: FinalState, what: str, problems: list[str], *more: str) -> Trial:
    ended = start(lab, out, *more, FRAGILE_PAUSE="0").end()
    wrong = ended.problems + ([f"exit code {ended.code}: {ended.err}"] if ended.code else [])
    return compared(what, expected, FinalState.of(out), [*problems, *wrong])
