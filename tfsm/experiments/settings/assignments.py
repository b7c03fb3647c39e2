"""`--set key=value`: which part a key belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from tfsm.errors import TfsmError

PARTS: Final = ("domain", "mutation", "selection", "run", "engine")


class Assignment(NamedTuple):
    """One `--set`, taken apart."""

    key: str
    value: str
    text: str


def parse(sets: Sequence[str]) -> list[Assignment]:
    """Take the arguments of `--set` apart."""
    assignments = []
    for text in sets:
        key, equals, value = (piece.strip() for piece in text.partition("="))
        if not equals or not key:
            raise TfsmError(f"--set {text}: expected key=value, such as --set population=100")
        assignments.append(Assignment(key, value, text))
    return assignments


def chosen_selection(assignments: Sequence[Assignment], others: Sequence[str]) -> Assignment | None:
    """Return the one that names the selection scheme, which must be known before its options are.

    Args:
        assignments: all of them
        others: the domain's and the operator's options: one of them may be called `selection`, too
    """
    names = {"run.selection"} if "selection" in others else {"run.selection", "selection"}
    return next((assignment for assignment in assignments if assignment.key in names), None)


def part_of(assignment: Assignment, known: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return the part and the key that are meant.

    Args:
        assignment: with a bare key, or one that begins with its part: `domain.bits`
        known: the keys of each of `PARTS`
    """
    prefix, _, rest = assignment.key.partition(".")
    if rest and prefix in PARTS:
        if rest in known[prefix]:
            return prefix, rest
        raise _unknown(assignment, rest, known[prefix], known, prefix)
    owners = [part for part in PARTS if assignment.key in known[part]]
    if len(owners) > 1:
        forms = " or ".join(f"--set {part}.{assignment.key}={assignment.value}" for part in owners)
        raise TfsmError(f"--set {assignment.text}: {assignment.key!r} is ambiguous, give {forms}")
    if owners:
        return owners[0], assignment.key
    raise _unknown(assignment, assignment.key, [key for part in PARTS for key in known[part]], known, "")


def _unknown(
    assignment: Assignment, key: str, candidates: Sequence[str], known: Mapping[str, Sequence[str]], prefix: str
) -> TfsmError:
    near = get_close_matches(key, candidates, n=1, cutoff=0.6)
    hint = f", did you mean {'.'.join(filter(None, (prefix, near[0])))!r}?" if near else ""
    listing = "\n".join(f"  {part}: {', '.join(known[part]) or 'none'}" for part in PARTS)
    return TfsmError(f"--set {assignment.text}: unknown key {assignment.key!r}{hint}\nknown keys:\n{listing}")
