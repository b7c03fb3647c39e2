"""What is fuzzed with feedback from coverage: one target per kind of file, with its seeds.

A target reads a file of any content, which must give a result or a `TfsmError` within limits of time and memory, and
must not touch anything outside of its folder.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from tests.fuzz.generators import ODD, list_places, make_archive, read_members, save_array
from tests.fuzz.harness import get_refusal, write_small_model
from tfsm.errors import TfsmError

STORED: Final = Path(__file__).parents[1] / "golden" / "runs-0.1"
CORPUS: Final = Path(__file__).with_name("corpus")
MEMORY: Final = 2**30
"""Bytes that reading a file may take."""


Change: TypeAlias = Callable[[bytes, Callable[[bytes], bytes], random.Random], bytes]


@dataclass(frozen=True)
class Target:
    """A kind of file.

    Attributes:
        read: reads the content in the working directory, which is empty.
        seeds: returns valid contents to start from.
        longest: the length of the longest content that is tried.
        change: changes a content and keeps its form, which random bytes hardly do; it gets a function that changes
            bytes, and a random number generator. It may raise a `ValueError` for a content that has another form.
    """

    read: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    longest: int = 4096
    change: Change | None = None


_IN_MEMORY: Final = "/dev/shm"


@contextmanager
def watched_folder() -> Iterator[Path]:
    """Work in an empty folder; fail if anything but files directly in it were created."""
    before = Path.cwd()
    outer = Path(tempfile.mkdtemp(prefix="tfsm-fuzz-", dir=_IN_MEMORY if os.path.isdir(_IN_MEMORY) else None))
    inner = outer / "inner"
    inner.mkdir()
    os.chdir(inner)
    try:
        yield inner
        assert [path.name for path in outer.iterdir()] == ["inner"], f"created outside: {list(outer.iterdir())}"
    finally:
        os.chdir(before)
        shutil.rmtree(outer)


_WRITING: Final = {"os.mkdir": 0, "os.rename": 1, "os.remove": 0, "os.rmdir": 0, "os.link": 1, "os.symlink": 1}
_FORBIDDEN: Final = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect")


class OutsideError(BaseException):
    """A file would have been written outside of the folder, or a process or a connection started."""


class Watch:
    """An audit hook that raises an error if, while it is active, something happens outside of the working directory."""

    def __init__(self) -> None:
        self.folder: str | None = None
        sys.addaudithook(self._check)

    def _check(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in _FORBIDDEN:
            raise OutsideError(f"{event} {arguments}")
        is_writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        path = arguments[0] if is_writing else arguments[_WRITING[event]] if event in _WRITING else None
        if isinstance(path, str | bytes | os.PathLike):
            full = os.path.realpath(os.fsdecode(path))
            is_unnamed = is_writing and os.path.isdir(full)  # a temporary file without a name
            if not (full.startswith(self.folder) or full == os.devnull or is_unnamed):
                raise OutsideError(f"{event} {full}")


def read_memory(key: str) -> int:
    """Return a line of /proc/self/status in bytes: `VmRSS`, or `VmHWM`, its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {key}")


def try_content(target: Target, content: bytes, watch: Watch | None = None) -> None:
    """Give a content to a target, and check what must hold for all of them."""
    with watched_folder() as folder:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = read_memory("VmRSS")
        if watch is not None:
            watch.folder = str(folder.parent)
        try:
            target.read(content)
        except TfsmError as error:
            message = str(error)
            assert message.strip(), "an error without a message"
            assert all(line.isprintable() for line in message.splitlines()), f"control characters: {message!r}"
        finally:
            if watch is not None:
                watch.folder = None
        used = read_memory("VmHWM") - before
        assert used < MEMORY, f"{used / 2**20:.0f} MiB"


# --- Changes that keep the form

_VALUES: Final = (
    *ODD,
    *("", "x", "\x1b[2J", "\x00", "../up", "/etc/passwd", "\ud800", "a" * 400, [], {}, [[]], [None, 3], {"": None}),
    *({"class_name": "__lambda__", "config": {"value": "4wEAAAAA"}}, {"module": "os", "class_name": "mkdir"}),
    *({"module": "keras.layers", "class_name": "Dense", "config": {"units": 10**12}}, "Dense", "float16", "relu"),
)


def change_json(content: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """Change a value of a JSON document."""
    value = json.loads(content)
    places = list_places(value)
    if not places:
        return json.dumps(rng.choice(_VALUES)).encode()
    container, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del container[key]
        case 1:
            other, place = rng.choice(places)
            container[key], other[place] = deepcopy(other[place]), deepcopy(container[key])
        case 2 if isinstance(container, list):
            container.append(deepcopy(container[key]))
        case 3 if isinstance(container[key], str):
            container[key] = change(container[key].encode(errors="replace")).decode("latin-1")
        case 4 if isinstance(container[key], int):
            container[key] = int(container[key]) + rng.choice((-1, 1, 2**31, 2**63, -(2**40)))
        case _:
            container[key] = deepcopy(rng.choice(_VALUES))
    return json.dumps(value).encode()


def change_lines(content: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """Change a line of JSON."""
    lines = content.splitlines()
    at = rng.randrange(max(1, len(lines)))
    if at < len(lines):
        lines[at] = change_json(lines[at], change, rng)
    return b"".join(line + b"\n" for line in lines)


def change_member(content: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """Change a member of an archive, whose checksums are right again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise ValueError from error
    if not members:
        raise ValueError("an empty archive")
    name = rng.choice(sorted(members))
    match rng.randrange(5):
        case 0:
            members[rng.choice(("../up", "assets/a", "a.npy", name + "x"))] = members.pop(name)
        case 1:
            members.pop(name)
        case _:
            is_json = name.endswith(".json") and rng.random() < 0.8
            members[name] = change_json(members[name], change, rng) if is_json else change(members[name])
    return make_archive(members, rng.choice((0, 8)))


def change_header(content: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """Change the header of a checkpoint, whose length is right again."""
    preface = struct.Struct("<16sIQ")
    if len(content) < preface.size:
        raise ValueError("too short")
    magic, version, length = preface.unpack(content[: preface.size])
    text = change_json(content[preface.size : preface.size + length], change, rng)
    text += b" " * (-(preface.size + len(text)) % 64)
    return preface.pack(magic, version, len(text)) + text + content[preface.size + length :]


# --- Models


@cache
def _small_model() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return read_members(write_small_model(Path(folder) / "m.keras"))


def _load_model(content: bytes) -> None:
    import keras

    from tfsm.models.loading import load_model

    Path("m.keras").write_bytes(content)
    load_model("m.keras")
    keras.backend.clear_session()  # it keeps names


def _seed_models() -> list[bytes]:
    return [make_archive(_small_model(), compression) for compression in (0, 8)]


def _load_with(member: str) -> Callable[[bytes], None]:
    return lambda content: _load_model(make_archive({**_small_model(), member: content}, compression=0))


def _seed_members(member: str) -> Callable[[], list[bytes]]:
    stored = STORED / "parity" / "champions" / "run-000.keras"
    return lambda: [_small_model()[member], read_members(stored)[member]]


# --- Run directories


@cache
def _study_files() -> dict[str, bytes]:
    folder = STORED / "compare"
    names = [
        "study.json",
        *(f"{name}/{file}" for name in ("control", "sm-r") for file in ("run.json", "metrics.jsonl")),
    ]
    return {name: (folder / name).read_bytes() for name in names}


def _copy_run() -> Path:
    study = Path("study")
    for name in ("control", "sm-r"):
        (study / name).mkdir(parents=True)
    for name, content in _study_files().items():
        (study / name).write_bytes(content)
    return study


def _inspect(study: Path) -> None:
    from tfsm.analysis.results import load_studies
    from tfsm.runs.inventory import find_directories, list_directories

    list_directories(Path())
    for directory in [study, *find_directories(study)]:
        load_studies([directory], strict=False)


def _read_record(content: bytes) -> None:
    study = _copy_run()
    (study / "control" / "run.json").write_bytes(content)
    _inspect(study)


def _read_study(content: bytes) -> None:
    study = _copy_run()
    (study / "study.json").write_bytes(content)
    _inspect(study)


def _read_metrics(content: bytes) -> None:
    study = _copy_run()
    (study / "control" / "metrics.jsonl").write_bytes(content)
    _inspect(study)


def _seed_files(*patterns: str) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for pattern in patterns for path in sorted(STORED.glob(pattern))]


def _read_behavior(content: bytes) -> None:
    from tfsm.runs.behavior_log import read_behavior

    Path("run-000.npz").write_bytes(content)
    read_behavior(Path("run-000.npz"))


# --- Checkpoints and order logs

_DIGEST: Final = 32


def _read_checkpoint(content: bytes) -> None:
    """Read a checkpoint whose digest, which the fuzzer would not find, is right."""
    from tfsm.evolution.checkpoint import read_checkpoint

    file = Path("run-000-000-at-000000120.checkpoint")
    file.write_bytes(content + hashlib.sha256(content).digest())
    checkpoint, _ = read_checkpoint(file)
    for rows in checkpoint.tables.values():
        for row in rows:
            np.array(row)
    assert checkpoint.active_runs is not None
    assert checkpoint.evaluations_by_run is not None


def _seed_checkpoints() -> list[bytes]:
    """Return checkpoints without their digests, and without most of their numbers."""
    from tfsm.evolution.checkpoint import dump, load

    seeds = []
    for file in sorted(STORED.rglob("*.checkpoint")):
        header, tables = load(file.read_bytes(), str(file))
        small = {name: rows for name, rows in tables.items() if np.prod(rows.shape, dtype=object) < 200}
        buffer = io.BytesIO()
        dump(buffer, header, small)
        seeds.append(buffer.getvalue()[:-_DIGEST])
    return seeds


def _read_order(content: bytes) -> None:
    from tfsm.evolution.event_log import EventLog, EventReplay, read_events

    file = Path("order.log")
    file.write_bytes(content)
    with EventLog(file, {0: 3, 1: 5}):
        pass
    file.write_bytes(content)
    replay = EventReplay(read_events(file))
    while replay.next is not None:
        assert replay.position
        if replay.next.kind == ">":
            assert replay.most is None or replay.most > 0
            replay.dispatch()
        else:
            replay.take_broken()


# --- Settings, mazes and experience


@cache
def _plugins() -> Any:
    from tfsm.plugins import load_plugins

    return load_plugins()


def _read_settings(content: bytes) -> None:
    from tfsm.settings import resolve
    from tfsm.settings.resolve import resolve_general

    Path("tfsm.toml").write_bytes(content)
    for read in (
        lambda: resolve_general(_plugins()),
        lambda: resolve(_plugins(), domain="parity", mutation="sm-g-sum"),
        lambda: resolve(_plugins(), domain="hard-maze", mutation="control", profile="published"),
    ):
        message = get_refusal(read, default="")
        assert all(line.isprintable() for line in message.splitlines())


def _seed_settings() -> list[bytes]:
    from tfsm.settings.sources import built_in_path

    lines = built_in_path().read_bytes()
    return [lines, b"[run]\nevaluations = 10\n[mutations.sm-g-sum]\nintensity = 0.1\n[domains.parity]\nruns = 3\n"]


def _read_hard_maze(content: bytes) -> None:
    from tfsm_domains.hard_maze.domain import HardMaze

    Path("my.toml").write_bytes(content)
    HardMaze(maze="my.toml")


def _seed_hard_mazes() -> list[bytes]:
    from tests.domains.hard_maze.mazes import ROOM_FILE
    from tfsm_domains.hard_maze.maze import PAPER

    return [ROOM_FILE.encode(), PAPER.read_bytes()]


def _read_layout(content: bytes) -> None:
    from tfsm_domains.pixel_maze.layout import read_layout

    Path("my.txt").write_bytes(content)
    read_layout("my.txt", 40)


def _seed_layouts() -> list[bytes]:
    from tfsm_domains.pixel_maze.layout import SHIPPED

    return [path.read_bytes() for path in SHIPPED.values()]


def _read_experience(name: str) -> Callable[[bytes], None]:
    def read(content: bytes) -> None:
        from tfsm.models.inputs import read_experience

        Path(name).write_bytes(content)
        read_experience(name)

    return read


def _seed_arrays() -> list[bytes]:
    return [save_array(np.ones((5, 3), dtype)) for dtype in ("<f4", ">f8", "i1", "?")]


def _seed_archives() -> list[bytes]:
    return [
        make_archive({"a.npy": array, "b.npy": array}, compression)
        for array in _seed_arrays()
        for compression in (0, 8)
    ]


TARGETS: Final[Mapping[str, Target]] = {
    "model": Target(
        _load_model, lambda: [make_archive(_small_model(), 0), make_archive(_small_model(), 8)], 40_000, change_member
    ),
    "model-config": Target(_load_with("config.json"), _seed_members("config.json"), 8192, change_json),
    "model-weights": Target(_load_with("model.weights.h5"), _seed_members("model.weights.h5"), 40_000),
    "run-record": Target(_read_record, _seed_files("*/run.json", "compare/*/run.json"), 8192, change_json),
    "study-record": Target(_read_study, _seed_files("*/study.json"), 4096, change_json),
    "metrics": Target(_read_metrics, _seed_files("*/metrics.jsonl", "compare/*/metrics.jsonl"), 4096, change_lines),
    "behavior": Target(_read_behavior, _seed_files("*/behavior/*.npz"), 16_384, change_member),
    "checkpoint": Target(_read_checkpoint, _seed_checkpoints, 16_384, change_header),
    "order-log": Target(_read_order, lambda: [*_seed_files("*/order.log")(), b"> 0 0\n< 0 0\n> 1 4\n! 1 4\n"], 2048),
    "settings": Target(_read_settings, _seed_settings, 16_384),
    "hard-maze": Target(_read_hard_maze, _seed_hard_mazes, 4096),
    "pixel-maze": Target(_read_layout, _seed_layouts, 2048),
    "experience-npy": Target(_read_experience("x.npy"), _seed_arrays, 1024),
    "experience-npz": Target(_read_experience("x.npz"), _seed_archives, 4096, change_member),
}


def read_corpus(name: str) -> list[bytes]:
    """Return the committed contents for a target."""
    folder = CORPUS / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []
