"""The state of a group of runs, and its file format.

Nothing in a file is ever executed: there is no pickle. Files that are cut off, changed, or written by something else
are recognized before any of their content is used. Names of tables and header keys are frozen; the attributes of
`Checkpoint` have other names.

    magic 16 bytes | version u32 | length of the header u64 | header, JSON | tables, each at a multiple of 64 | SHA-256
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, Protocol

import numpy as np

from tfsm.errors import TfsmError
from tfsm.evolution.observers import RunResult
from tfsm.evolution.state import LazyTable
from tfsm.utils.files import atomic_write


@dataclass(frozen=True)
class AsyncRunState:
    """What a checkpoint holds of a run that is evolved child by child, besides its tables."""

    in_flight: tuple[int, ...] = ()
    """The numbers of the individuals in flight: to be dispatched again."""
    children: int = 0
    """Children evaluated in the current logging interval; the following are of this interval, too."""
    staleness_sum: int = 0
    """Sum of their staleness."""
    staleness_max: int = 0
    """Maximum of their staleness."""
    failed: int = 0
    """Number of individuals that could not be made."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a group of runs between two steps."""

    first_run: int
    """The run in lane 0."""
    count: int
    """Number of runs."""
    evaluations_used: int
    """Evaluations of each active run; of the one with the most, where they are evolved child by child."""
    results: tuple[RunResult, ...] = ()
    """How the ended runs ended."""
    reported_champions: Mapping[int, tuple[bool, float]] = field(default_factory=dict)
    """The last reported champion of each run: whether it solves the task, and its fitness."""
    tables: Mapping[str, LazyTable] = field(default_factory=dict, repr=False)
    """The state of the active runs, by table name: `[L, ...]`, in the order of `active_runs`."""
    async_runs: Mapping[int, AsyncRunState] = field(default_factory=dict)
    """More state of each active run, where they are evolved child by child."""
    event_count: int = 0
    """Number of events before it, where these are logged."""

    @property
    def runs(self) -> range:
        """The numbers of the runs."""
        return range(self.first_run, self.first_run + self.count)

    @property
    def number(self) -> int:
        """A number that only grows as these runs continue."""
        return self.event_count or self.evaluations_used

    @property
    def active_runs(self) -> list[int]:
        """The runs that have not ended."""
        ended = {result.run for result in self.results}
        return [run for run in self.runs if run not in ended]

    @property
    def evaluations_by_run(self) -> dict[int, int]:
        """Evaluations of each active run."""
        table = self.tables.get("evaluations") if self.async_runs else None
        return {
            run: self.evaluations_used if table is None else int(table.row(index))
            for index, run in enumerate(self.active_runs)
        }

    def select(self, runs: range) -> Checkpoint:
        """Return the checkpoint of some of the runs."""
        indices = [index for index, run in enumerate(self.active_runs) if run in runs]
        return replace(
            self,
            first_run=runs.start,
            count=len(runs),
            results=tuple(result for result in self.results if result.run in runs),
            reported_champions={run: champion for run, champion in self.reported_champions.items() if run in runs},
            tables={name: table.take(indices) for name, table in self.tables.items()},
            async_runs={run: state for run, state in self.async_runs.items() if run in runs},
        )


def split_into_ranges(runs: Iterable[int], longest: int | None = None) -> list[range]:
    """Split ascending runs into ranges of consecutive ones.

    Args:
        runs: the numbers of the runs, ascending.
        longest: maximum length of a range; None: no maximum.

    >>> split_into_ranges([0, 1, 2, 3, 7], longest=3)
    [range(0, 3), range(3, 4), range(7, 8)]
    """
    ranges: list[range] = []
    for run in runs:
        if ranges and ranges[-1].stop == run and len(ranges[-1]) != longest:
            ranges[-1] = range(ranges[-1].start, run + 1)
        else:
            ranges.append(range(run, run + 1))
    return ranges


class CheckpointWriter(Protocol):
    """Decides when checkpoints are due, and saves them."""

    def next_check(self, used: int) -> int:
        """Return the number of evaluations, above `used`, at which to check again at the latest."""
        ...

    def is_due(self, used: int) -> bool:
        """Return whether a checkpoint is due after that many evaluations."""
        ...

    def save(self, checkpoint: Checkpoint, *, last: bool = False) -> None:
        """Save a checkpoint, `last` where the group has ended; a failure must not end the run."""
        ...


VERSION: Final = 1
_MAGIC: Final = b"tfsm checkpoint\n"
_PREFACE: Final = struct.Struct("<16sIQ")
_DIGEST: Final = 32
_ALIGNED: Final = 64
_LARGEST_HEADER: Final = 2**28
_MOST_RUNS: Final = 2**24
_DTYPE: Final = re.compile(r"[<>|=][a-zA-Z]\d{1,9}")


class DamagedCheckpoint(TfsmError):
    """The content of a file is not, or no longer, a whole checkpoint."""


def dump(file: IO[bytes], header: Mapping[str, Any], tables: Mapping[str, LazyTable]) -> None:
    """Write a header and tables.

    Args:
        file: the file, opened for bytes.
        header: JSON values.
        tables: written row by row, so that only one row at a time takes memory.
    """
    listed, offset = [], 0
    for name, rows in tables.items():
        listed.append({"name": name, "dtype": rows.dtype.str, "shape": list(rows.shape), "offset": offset})
        offset = _aligned(offset + _size(rows))
    text = json.dumps({"header": header, "tables": listed}).encode()
    text += b" " * (_aligned(_PREFACE.size + len(text)) - _PREFACE.size - len(text))
    digest = hashlib.sha256()

    def write(chunk: Any) -> None:
        digest.update(chunk)
        file.write(chunk)

    write(_PREFACE.pack(_MAGIC, VERSION, len(text)))
    write(text)
    for rows in tables.values():
        for row in rows:
            if row.size:
                write(np.ascontiguousarray(row, rows.dtype).data.cast("B"))
        write(b"\0" * (_aligned(_size(rows)) - _size(rows)))
    file.write(digest.digest())


def load(buffer: Any, where: str, digest: bytes | None = None) -> tuple[dict[str, Any], dict[str, LazyTable]]:
    """Return header and tables of a buffer; raise `DamagedCheckpoint` if it is not whole.

    Args:
        buffer: bytes, or a file that is mapped into memory.
        where: its name in messages.
        digest: the digest of all but the digest at its end, if known.
    """
    view = memoryview(buffer)
    if len(view) < _PREFACE.size + _DIGEST:
        raise DamagedCheckpoint(f"{where}: cut off after {len(view)} bytes")
    magic, version, length = _PREFACE.unpack(view[: _PREFACE.size])
    if magic != _MAGIC:
        raise DamagedCheckpoint(f"{where}: not a checkpoint of tfsm")
    if version > VERSION:
        raise DamagedCheckpoint(
            f"{where}: written by a newer tfsm (format {version}, this one reads up to {VERSION}): upgrade tfsm"
        )
    body = len(view) - _DIGEST
    if (digest or hashlib.sha256(view[:body]).digest()) != view[body:]:
        raise DamagedCheckpoint(f"{where}: damaged or cut off, its digest does not fit")
    # From here on the file is as it was written, which may still be nonsense.
    try:
        if length > min(_LARGEST_HEADER, body - _PREFACE.size):
            raise ValueError("its header is longer than the file")
        text = json.loads(bytes(view[_PREFACE.size : _PREFACE.size + length]))
        tables = dict(_read_tables(view[_PREFACE.size + length : body], text["tables"]))
        header = text["header"]
        if not isinstance(header, dict):
            raise ValueError("its header is not an object")
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DamagedCheckpoint(f"{where}: not a checkpoint of tfsm: {error}") from None
    return header, tables


def load_file(file: Path) -> tuple[dict[str, Any], dict[str, LazyTable]]:
    """Return header and tables of a file; only the rows that are read take memory."""
    try:
        with file.open("rb") as opened:
            # Read before it is mapped: a disk that cannot read a mapped page kills the process.
            digest = _digest(opened)
            content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise DamagedCheckpoint(f"{file}: empty") from None
    except OSError as error:
        raise DamagedCheckpoint(f"{file}: cannot be read: {error.strerror}") from None
    return load(content, str(file), digest)


def _digest(file: IO[bytes]) -> bytes:
    left = max(0, file.seek(0, 2) - _DIGEST)
    file.seek(0)
    digest = hashlib.sha256()
    while left and (chunk := file.read(min(left, 2**20))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.digest()


def _read_tables(view: memoryview, listed: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, LazyTable]]:
    for entry in listed:
        if not _DTYPE.fullmatch(entry["dtype"]):  # NumPy parses others as Python, and fails in many ways
            raise ValueError(f"{entry['dtype']!r} is not a type of numbers")
        dtype, shape = np.dtype(entry["dtype"]), tuple(int(n) for n in entry["shape"])
        if dtype.hasobject or any(n < 0 for n in shape):
            raise ValueError("a table of objects")
        count = int(np.prod(shape, dtype=object))
        table = np.frombuffer(view, dtype, count, int(entry["offset"])).reshape(shape)
        yield str(entry["name"]), LazyTable(dtype, shape, lambda place, table=table: table[place])  # type: ignore[misc]


def _size(rows: LazyTable) -> int:
    return int(np.prod(rows.shape, dtype=object)) * rows.dtype.itemsize


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNED) * _ALIGNED


_CHAMPIONS = "results.champion"


def write_checkpoint(file: Path, checkpoint: Checkpoint, about: Mapping[str, Any]) -> None:
    """Write a checkpoint to a file, atomically.

    Args:
        file: the file.
        checkpoint: the checkpoint.
        about: more of the header, such as the experiment that it belongs to.
    """
    with atomic_write(file) as temporary, temporary.open("wb") as opened:
        dump(opened, _header(checkpoint, about), _tables(checkpoint))


def read_checkpoint(file: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """Return the checkpoint in a file, and the rest of its header; raise `DamagedCheckpoint` if it is not whole."""
    return _unpack(*load_file(file), str(file))


def pack_checkpoint(checkpoint: Checkpoint, about: Mapping[str, Any]) -> bytes:
    """Return a checkpoint as bytes, to be sent."""
    buffer = io.BytesIO()
    dump(buffer, _header(checkpoint, about), _tables(checkpoint))
    return buffer.getvalue()


def write_packed_checkpoint(file: Path, content: bytes) -> None:
    """Write a packed checkpoint to a file as it is, atomically; raise `DamagedCheckpoint` if its digest is wrong."""
    view = memoryview(content)
    if hashlib.sha256(view[:-_DIGEST]).digest() != view[-_DIGEST:]:
        raise DamagedCheckpoint(f"{file}: the checkpoint that was sent is damaged")
    with atomic_write(file) as temporary:
        temporary.write_bytes(content)


def unpack_checkpoint(content: bytes) -> tuple[Checkpoint, dict[str, Any]]:
    """Return a checkpoint that was sent, and the rest of its header."""
    return _unpack(*load(content, "a checkpoint that was sent"), "a checkpoint that was sent")


def _header(checkpoint: Checkpoint, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "about": about,
        "first": checkpoint.first_run,
        "count": checkpoint.count,
        "spent": checkpoint.evaluations_used,
        # Not the summary of a result, which has no infinities.
        "results": [
            [r.run, r.seed, r.solved, r.evaluations, r.best_fitness, r.champion_fitness] for r in checkpoint.results
        ],
        "standing": [[run, solved, fitness] for run, (solved, fitness) in checkpoint.reported_champions.items()],
        "apart": [[run, *astuple(state)] for run, state in checkpoint.async_runs.items()],
        "events": checkpoint.event_count,
    }


def _read_async_run(in_flight: Iterable[Any], *counts: Any) -> AsyncRunState:
    return AsyncRunState(tuple(int(number) for number in in_flight), *(int(count) for count in counts))


def _tables(checkpoint: Checkpoint) -> dict[str, LazyTable]:
    champions = [result.champion for result in checkpoint.results]
    if not champions:
        return dict(checkpoint.tables)
    first = champions[0]
    return {
        **checkpoint.tables,
        _CHAMPIONS: LazyTable(first.dtype, (len(champions), *first.shape), lambda i: champions[i]),
    }


def _unpack(header: dict[str, Any], tables: dict[str, LazyTable], where: str) -> tuple[Checkpoint, dict[str, Any]]:
    try:
        champions = [np.array(row) for row in tables.pop(_CHAMPIONS, ())]
        results = [
            RunResult(int(run), int(seed), bool(solved), int(evaluations), float(best), float(own), champion)
            for (run, seed, solved, evaluations, best, own), champion in zip(header["results"], champions, strict=True)
        ]
        checkpoint = Checkpoint(
            first_run=int(header["first"]),
            count=int(header["count"]),
            evaluations_used=int(header["spent"]),
            results=tuple(results),
            reported_champions={
                int(run): (bool(solved), float(fitness)) for run, solved, fitness in header["standing"]
            },
            tables=tables,
            # Older files have neither of these.
            async_runs={int(run): _read_async_run(*state) for run, *state in header.get("apart", ())},
            event_count=int(header.get("events", 0)),
        )
        # Counted without a list of all runs, of which a damaged header may claim any number.
        active = checkpoint.count - len({result.run for result in results})
        if not 0 <= checkpoint.count <= _MOST_RUNS:
            raise ValueError(f"{checkpoint.count} runs")
        began = active and checkpoint.evaluations_used  # a search that was saved before that has no tables
        if any(rows.shape[:1] != (active,) for rows in tables.values()) or (began and not tables):
            raise ValueError("tables of other runs")
        if any(result.run not in checkpoint.runs for result in results):
            raise ValueError("results of other runs")
        checkpoint.evaluations_by_run  # noqa: B018  # raises if they are not numbers
        return checkpoint, dict(header["about"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedCheckpoint(f"{where}: not a checkpoint of tfsm: {error}") from None
