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


def naming(key: str, assignments: Sequence[Assignment], others: Sequence[str]) -> Assignment | None:
    """Return the one that names parts, `selection` or `observers`, which must be known before their options are.

    Args:
        key: the run's setting that names them
        assignments: all of them
        others: the domain's and the operator's options: one of them may be called the same
    """
    names = {f"run.{key}"} if key in others else {f"run.{key}", key}
    return next((assignment for assignment in assignments if assignment.key in names), None)


def part_of(assignment: Assignment, known: Mapping[str, Sequence[str]], unused: Sequence[str] = ()) -> tuple[str, str]:
    """Return the part and the key that are meant.

    Args:
        assignment: with a bare key, or one that begins with its part: `domain.bits`, `tensorboard.histograms`
        known: the keys of each of `PARTS`, and of each observer
        unused: observers that the run does not have
    """
    prefix = _prefix(assignment, known)
    if prefix:
        rest = assignment.key.removeprefix(f"{prefix}.")
        if rest in known[prefix]:
            return prefix, rest
        raise _unknown(assignment, rest, known[prefix], known, prefix)
    for name in unused:
        if assignment.key.startswith(f"{name}."):
            raise TfsmError(
                f"--set {assignment.text}: {name!r} is an observer that is not used, give --observer {name}"
            )
    owners = [part for part in PARTS if assignment.key in known[part]]
    if len(owners) > 1:
        forms = " or ".join(f"--set {part}.{assignment.key}={assignment.value}" for part in owners)
        raise TfsmError(f"--set {assignment.text}: {assignment.key!r} is ambiguous, give {forms}")
    if owners:
        return owners[0], assignment.key
    bare = [key if part in PARTS else f"{part}.{key}" for part, keys in known.items() for key in keys]
    raise _unknown(assignment, assignment.key, bare, known, "")


def _prefix(assignment: Assignment, known: Mapping[str, Sequence[str]]) -> str:
    """Return the part that a key begins with; an observer's name may have dots in it, and be another's beginning."""
    first, _, rest = assignment.key.partition(".")
    if rest and first in PARTS:
        return first
    observers = [name for name in known if name not in PARTS and assignment.key.startswith(f"{name}.")]
    return max(observers, key=len, default="")


def _unknown(
    assignment: Assignment, key: str, candidates: Sequence[str], known: Mapping[str, Sequence[str]], prefix: str
) -> TfsmError:
    near = get_close_matches(key, candidates, n=1, cutoff=0.6)
    hint = f", did you mean {'.'.join(filter(None, (prefix, near[0])))!r}?" if near else ""
    listing = "\n".join(f"  {part}: {', '.join(keys) or 'none'}" for part, keys in known.items())
    return TfsmError(f"--set {assignment.text}: unknown key {assignment.key!r}{hint}\nknown keys:\n{listing}")
