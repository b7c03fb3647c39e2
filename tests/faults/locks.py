"""Two processes that want one directory."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.bench import Bench
from tests.faults.lab import Lab
from tests.faults.trial import Trial, compared
from tfsm.errors import TfsmError
from tfsm.runs.records import is_locked


def locks(lab: Lab, bench: Bench) -> Iterator[Trial]:
    """Let a second process in while one is at work; then kill the first, whose lock must not hold any longer."""
    out = lab.out()
    first = lab.begin(out)
    first.wait_for(lambda: bool(list(out.glob("checkpoints/*.checkpoint"))))
    problems = [] if is_locked(out) else ["it does not look as if somebody were at work"]
    try:
        bench.run(out)
        problems.append("the second was let in")
    except TfsmError as error:
        if "another process is at work" not in str(error) or "\n" in str(error):
            problems.append(f"the second was told: {error}")
    ended = first.end()
    if ended.code:
        problems.append(f"the first ended with {ended.code}: {ended.err}")
    yield compared("a second process", bench.expected, bench.final(out), problems)

    out = lab.out()
    first = lab.begin(out)
    first.wait_for(lambda: bool(list(out.glob("checkpoints/*.checkpoint"))))
    first.kill()
    problems = ["the lock of a dead process holds"] if is_locked(out) else []
    yield compared("a lock of a dead process", bench.expected, bench.final(out), problems)
