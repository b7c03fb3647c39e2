"""Snapshot of a group of runs and its file format.

Nothing in a file is ever run: there is no pickle. What was cut off, changed, or written by something else is told from
what is whole before any of it is used.

    magic 16 bytes | version u32 | length of the header u64 | header, JSON | tables, each at a multiple of 64 | SHA-256
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, Protocol

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.observers import RunResult
from tfsm.evolution.state import State
from tfsm.utils.atomic import atomic_write


@dataclass(frozen=True)
class LazyTable:
    """A table of which a row is looked at when it is needed: a state may be as large as the memory."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    """`[L, ...]`, of `L` lanes."""
    row: Callable[[int], np.ndarray]
    """From a place among the lanes to its row."""

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self.row(place) for place in range(self.shape[0]))

    def take(self, places: Sequence[int]) -> LazyTable:
        """Return some of the rows."""
        return LazyTable(self.dtype, (len(places), *self.shape[1:]), lambda place: self.row(places[place]))


@dataclass(frozen=True)
class AsyncRunState:
    """What else there is to know of a run that is not in step with the others."""

    in_flight: tuple[int, ...] = ()
    """The numbers of those who were on their way: to be handed out again."""
    children: int = 0
    """Settled in the logging interval that has begun."""
    staleness_sum: int = 0
    """The sum of their staleness."""
    staleness_max: int = 0
    """The greatest of it."""
    failed: int = 0
    """How many could not be made."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a group of runs stands, between two steps."""

    first: int
    """The run in lane 0."""
    count: int
    """How many runs."""
    evaluations_used: int
    """Evaluations of each run that has not ended; of the one with the most, where they are not in step."""
    results: tuple[RunResult, ...] = ()
    """How those ended that have."""
    reported_champions: Mapping[int, tuple[bool, float]] = field(default_factory=dict)
    """What was last told of each run's champion."""
    tables: Mapping[str, LazyTable] = field(default_factory=dict, repr=False)
    """What the others remember, by name: `[L, ...]`, in the order of `going`."""
    async_runs: Mapping[int, AsyncRunState] = field(default_factory=dict)
    """What else there is to know of each of those, where they are not in step."""
    events: int = 0
    """How many events there were before, where these are logged."""

    @property
    def runs(self) -> range:
        """The numbers of the runs."""
        return range(self.first, self.first + self.count)

    @property
    def number(self) -> int:
        """A number that only ever grows as these runs go on."""
        return self.events or self.evaluations_used

    @property
    def active_runs(self) -> list[int]:
        """The runs that have not ended."""
        ended = {result.run for result in self.results}
        return [run for run in self.runs if run not in ended]

    @property
    def evaluated(self) -> dict[int, int]:
        """Evaluations of each run that has not ended."""
        own = self.tables.get("evaluations") if self.async_runs else None
        return {
            run: self.evaluations_used if own is None else int(own.row(place))
            for place, run in enumerate(self.active_runs)
        }

    def part(self, runs: range) -> Checkpoint:
        """Return what it says of some of the runs, which follow one another."""
        places = [place for place, run in enumerate(self.active_runs) if run in runs]
        return replace(
            self,
            first=runs.start,
            count=len(runs),
            results=tuple(result for result in self.results if result.run in runs),
            reported_champions={run: told for run, told in self.reported_champions.items() if run in runs},
            tables={name: rows.take(places) for name, rows in self.tables.items()},
            async_runs={run: own for run, own in self.async_runs.items() if run in runs},
        )


class CheckpointWriter(Protocol):
    """Who is given what is worth keeping, when it is time."""

    def bound(self, spent: int) -> int:
        """Return the number of evaluations, above `spent`, at which to look again at the latest."""
        ...

    def is_due(self, spent: int) -> bool:
        """Say whether it is time."""
        ...

    def keep(self, saved: Checkpoint, *, last: bool = False) -> None:
        """Keep it, `last` where the group has come to its end; what fails here must not cost the run."""
        ...


def read_tables(state: State, lanes: Sequence[int]) -> dict[str, LazyTable]:
    """Return what a state remembers of some lanes; valid until the next step."""

    def rows(table: tf.Variable) -> LazyTable:
        shape = (len(lanes), *table.shape[1:])
        return LazyTable(
            np.dtype(table.dtype.as_numpy_dtype), shape, lambda place: table.gather_nd([[lanes[place]]]).numpy()[0]
        )

    return {name: rows(table) for name, table in state.tables().items()}


def restore_tables(state: State, tables: Mapping[str, LazyTable], lanes: Sequence[int]) -> None:
    """Let lanes of a state, cleared before, remember what was saved; what does not fit is an error."""
    own = state.tables()
    for name in {*own, *tables}:
        had = (tables[name].dtype, tables[name].shape[1:]) if name in tables else "nothing"
        wants = (np.dtype(own[name].dtype.as_numpy_dtype), tuple(own[name].shape[1:])) if name in own else "nothing"
        if had != wants:
            raise TfsmError(f"what was saved does not fit: of {name} there is {had}, and {wants} is needed")
    for name, rows in tables.items():
        for lane, row in zip(lanes, rows, strict=True):
            own[name].scatter_nd_update([[lane]], row[None])


VERSION: Final = 1
_MAGIC: Final = b"tfsm checkpoint\n"
_PREFACE: Final = struct.Struct("<16sIQ")
_DIGEST: Final = 32
_ALIGNED: Final = 64
_LARGEST_HEADER: Final = 2**28


class DamagedCheckpoint(TfsmError):
    """What is in a file is not, or not any more, what was once written."""


def dump(file: IO[bytes], header: Mapping[str, Any], tables: Mapping[str, LazyTable]) -> None:
    """Write a header and tables.

    Args:
        file: where to, opened for bytes.
        header: what JSON can say.
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
    """Return header and tables of a buffer of bytes; a `Damaged` error if it is not whole.

    Args:
        buffer: bytes, or a file that is mapped into memory.
        where: what to call it in a message.
        digest: that of all of it but the digest at its end, if it is known.
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
    # From here on it is as somebody wrote it; whoever that was may have written nonsense all the same.
    try:
        if length > min(_LARGEST_HEADER, body - _PREFACE.size):
            raise ValueError("its header is longer than the file")
        text = json.loads(bytes(view[_PREFACE.size : _PREFACE.size + length]))
        tables = dict(_read_tables(view[_PREFACE.size + length : body], text["tables"]))
        header = text["header"]
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedCheckpoint(f"{where}: not a checkpoint of tfsm: {error}") from None
    return header, tables


def load_file(file: Path) -> tuple[dict[str, Any], dict[str, LazyTable]]:
    """Return header and tables of a file, of which only what is looked at takes memory."""
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
    found = hashlib.sha256()
    while left and (chunk := file.read(min(left, 2**20))):
        found.update(chunk)
        left -= len(chunk)
    return found.digest()


def _read_tables(view: memoryview, listed: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, LazyTable]]:
    for entry in listed:
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


def write_checkpoint(file: Path, saved: Checkpoint, about: Mapping[str, Any]) -> None:
    """Write it to a file, as a whole or not at all.

    Args:
        file: the file.
        saved: where a group stands.
        about: what else the header says, such as which experiment it belongs to.
    """
    with atomic_write(file) as draft, draft.open("wb") as opened:
        dump(opened, _header(saved, about), _tables(saved))


def read_checkpoint(file: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """Return what is in a file, and what else its header says; `Damaged` if it is not whole."""
    return _unpack(*load_file(file), str(file))


def pack_checkpoint(saved: Checkpoint, about: Mapping[str, Any]) -> bytes:
    """Return it as bytes, to be sent."""
    buffer = io.BytesIO()
    dump(buffer, _header(saved, about), _tables(saved))
    return buffer.getvalue()


def unpack_checkpoint(content: bytes) -> tuple[Checkpoint, dict[str, Any]]:
    """Return what was sent."""
    return _unpack(*load(content, "what was sent"), "what was sent")


def _header(saved: Checkpoint, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "about": about,
        "first": saved.first,
        "count": saved.count,
        "spent": saved.evaluations_used,
        # Not the summary, which has no infinities.
        "results": [
            [r.run, r.seed, r.solved, r.evaluations, r.best_fitness, r.champion_fitness] for r in saved.results
        ],
        "standing": [[run, solved, fitness] for run, (solved, fitness) in saved.reported_champions.items()],
        "apart": [[run, *astuple(own)] for run, own in saved.async_runs.items()],
        "events": saved.events,
    }


def _read_async_run(away: Iterable[Any], *counts: Any) -> AsyncRunState:
    return AsyncRunState(tuple(int(number) for number in away), *(int(count) for count in counts))


def _tables(saved: Checkpoint) -> dict[str, LazyTable]:
    champions = [result.champion for result in saved.results]
    if not champions:
        return dict(saved.tables)
    first = champions[0]
    return {**saved.tables, _CHAMPIONS: LazyTable(first.dtype, (len(champions), *first.shape), lambda i: champions[i])}


def _unpack(header: dict[str, Any], tables: dict[str, LazyTable], where: str) -> tuple[Checkpoint, dict[str, Any]]:
    try:
        champions = [np.array(row) for row in tables.pop(_CHAMPIONS, ())]
        results = [
            RunResult(int(run), int(seed), bool(solved), int(spent), float(best), float(own), champion)
            for (run, seed, solved, spent, best, own), champion in zip(header["results"], champions, strict=True)
        ]
        saved = Checkpoint(
            first=int(header["first"]),
            count=int(header["count"]),
            evaluations_used=int(header["spent"]),
            results=tuple(results),
            reported_champions={
                int(run): (bool(solved), float(fitness)) for run, solved, fitness in header["standing"]
            },
            tables=tables,
            # Older files have neither.
            async_runs={int(run): _read_async_run(*own) for run, *own in header.get("apart", ())},
            events=int(header.get("events", 0)),
        )
        if any(rows.shape[0] != len(saved.active_runs) for rows in tables.values()):
            raise ValueError("tables of other runs")
        return saved, dict(header["about"])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpoint(f"{where}: not a checkpoint of tfsm: {error}") from None
