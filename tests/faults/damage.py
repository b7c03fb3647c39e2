"""Files that are not as they were written: torn, changed, swapped, left behind."""

from __future__ import annotations

import hashlib
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from tests.faults.bench import Bench
from tests.faults.trial import Trial, compared
from tfsm.evolution.checkpoint import pack_checkpoint, read_checkpoint

Change: TypeAlias = Callable[[bytes], bytes]
LEFT: Final = 80
"""Evaluations after whose checkpoint an experiment is left."""


def left_experiment(bench: Bench) -> Path:
    """Return an experiment that was killed half-way: two checkpoints, a log, and snapshots in parts."""
    out = bench.out()

    class Killed(BaseException):
        pass

    def stop() -> bool:
        if any(f"-at-{LEFT:09d}" in file.name for file in checkpoints(out)):
            # What a process leaves that is killed now is what is there at this moment.
            shutil.copytree(out, out.with_suffix(".left"))
            raise Killed
        return False

    try:
        bench.run(out, stop=stop)
    except Killed:
        return out.with_suffix(".left")
    raise AssertionError("it ended before")


def changes(content: bytes, count: int, *, flips: bool = True) -> dict[str, Change]:
    """Return ways to damage a file, at so many places of it each; single bits only where there is a digest."""
    places = sorted({len(content) * k // count for k in range(count)} | {len(content) - 1})
    found: dict[str, Change] = {"emptied": lambda old: b"", "with bytes appended": lambda old: old + b"\0" * 100}
    for place in places:
        if flips:
            found[f"with a bit flipped at {place}"] = lambda old, at=place: _flipped(old, at)
        found[f"with zeros from {place}"] = lambda old, at=place: _zeroed(old, at)
        found[f"cut off at {place}"] = lambda old, at=place: old[:at]
    return found


def damaged_checkpoints(bench: Bench, left: Path, count: int) -> Iterator[Trial]:
    """Damage the newest checkpoint in many ways, each time going on from the one before.

    Args:
        bench: where.
        left: an experiment to go on with.
        count: of places in the file.
    """
    newest = checkpoints(left)[-1].name
    ways = changes((left / "checkpoints" / newest).read_bytes(), count)
    foreign = _foreign(checkpoints(left)[-1])
    ways |= {"of another experiment": lambda old: foreign, "of a newer format": newer}
    for what, change in ways.items():
        out = _copied(bench, left)
        file = out / "checkpoints" / newest
        content = change(file.read_bytes())
        if content == file.read_bytes():
            continue  # zeros that were zeros
        file.write_bytes(content)
        found = bench.final(out)
        heard = [line for line in bench.heard if newest in line]
        problems = [] if len(heard) == 1 else [f"{len(heard)} warnings: {bench.heard}"]
        kept = [path for path in (out / "checkpoints").iterdir() if path.read_bytes() == content]
        yield compared(what, bench.expected, found, problems + ([] if kept else ["the damaged file is gone"]))
    yield _renamed(bench, left)


def _renamed(bench: Bench, left: Path) -> Trial:
    """Let both checkpoints say that they are of other runs."""
    out = _copied(bench, left)
    for file in checkpoints(out):
        file.rename(file.with_name(file.name.replace("run-000-002", "run-000-001")))
    found = bench.final(out)
    problems = [] if any("renamed" in line for line in bench.heard) else [f"not told: {bench.heard}"]
    return compared("renamed to other runs", bench.expected, found, problems)


def all_damaged(bench: Bench, left: Path) -> Trial:
    """Damage all checkpoints: it begins again."""
    out = _copied(bench, left)
    for file in checkpoints(out):
        file.write_bytes(file.read_bytes()[:-1])
    return compared("all of them cut off", bench.expected, bench.final(out))


def damaged_logs(bench: Bench, left: Path, count: int) -> Iterator[Trial]:
    """Damage the log in many ways."""
    ways = changes((left / "metrics.jsonl").read_bytes(), count, flips=False)
    ways["followed by zeros that were never written"] = lambda old: old + b"\0" * 4096
    ways["with a torn last line"] = lambda old: old[:-20]
    ways["without its first line"] = lambda old: old[old.index(b"\n") + 1 :]
    ways["with a torn line among the others"] = lambda old: old[:40] + old[90:]
    ways["with a line twice"] = lambda old: old + old[: old.index(b"\n") + 1]
    for what, change in ways.items():
        out = _copied(bench, left)
        log = out / "metrics.jsonl"
        log.write_bytes(change(log.read_bytes()))
        yield compared(f"the log {what}", bench.expected, bench.final(out))


def damaged_snapshots(bench: Bench, left: Path, count: int) -> Iterator[Trial]:
    """Damage the file of snapshots of a run that has not ended."""
    parts = sorted(left.glob("behavior/.run-*.parts"))[-1]
    for what, change in changes(parts.read_bytes(), count).items():
        out = _copied(bench, left)
        file = out / parts.relative_to(left)
        file.write_bytes(change(file.read_bytes()))
        yield compared(f"snapshots {what}", bench.expected, bench.final(out))


def left_drafts(bench: Bench, left: Path) -> Iterator[Trial]:
    """Leave drafts behind, as somebody does who is killed while writing."""
    names = (
        ".run.json.part.json",
        ".metrics.jsonl.part.jsonl",
        "champions/.run-000.keras.part.keras",
        "behavior/.run-000.npz.part.npz",
        "checkpoints/.run-000-002-at-000000083.checkpoint.part.checkpoint",
    )
    for name in names:
        out = _copied(bench, left)
        (out / name).write_text('{"half": ')
        yield compared(f"a draft {name}", bench.expected, bench.final(out))


def checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints of a directory, the newest last."""
    return sorted((directory / "checkpoints").glob("*.checkpoint"))


def newer(content: bytes) -> bytes:
    """Return a checkpoint that says that it is of a newer format, with the right digest."""
    body = content[:16] + struct.pack("<I", 99) + content[20:-32]
    return body + hashlib.sha256(body).digest()


def _foreign(file: Path) -> bytes:
    """Return what another experiment, with other settings, would have written."""
    saved, about = read_checkpoint(file)
    return pack_checkpoint(saved, about | {"experiment": "another"})


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _zeroed(content: bytes, at: int) -> bytes:
    length = min(64, len(content) - at)
    return content[:at] + b"\0" * length + content[at + length :]


def _copied(bench: Bench, left: Path) -> Path:
    out = bench.out()
    shutil.copytree(left, out)
    return out
