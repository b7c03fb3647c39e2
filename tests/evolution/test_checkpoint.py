"""Checkpoint files are read back bit for bit, and anything else is refused."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.helpers.domains import HostTarget, Target
from tests.helpers.engines import Recorder, make_engine
from tfsm.errors import TfsmError
from tfsm.evolution import checkpoint as checkpoint_module
from tfsm.evolution.batches import LogIntervals
from tfsm.evolution.checkpoint import (
    VERSION,
    Checkpoint,
    DamagedCheckpoint,
    dump,
    load,
    load_file,
    pack_checkpoint,
    unpack_checkpoint,
)
from tfsm.evolution.engine import Engine
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.evolution.state import LazyTable
from tfsm.evolution.variation import Adaptation
from tfsm_plugins.mutations.gradient import SafeMutationSum
from tfsm_plugins.selections.map_elites import MapElites
from tfsm_plugins.selections.novelty import Novelty
from tfsm_plugins.selections.truncation import Truncation

DTYPES = [np.dtype(name) for name in ("<f4", "<f8", ">f4", ">i8", "<i4", "|b1", "|u1", "<f2")]


def make_lazy_table(table: np.ndarray) -> LazyTable:
    return LazyTable(table.dtype, table.shape, lambda index: table[index])


def dump_bytes(header: dict[str, Any], **tables: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    dump(buffer, header, {name: make_lazy_table(table) for name, table in tables.items()})
    return buffer.getvalue()


def add_digest(body: bytes) -> bytes:
    """Append a valid digest to content that may be invalid."""
    return body + hashlib.sha256(body).digest()


SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3)
TABLES = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays.arrays(dtype, SHAPES))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4), st.dictionaries(st.text(max_size=8), TABLES, max_size=4))
def test_written_tables_are_read_back(header: dict[str, Any], tables: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    dump(buffer, header, {name: make_lazy_table(table) for name, table in tables.items()})
    read_header, found = load(buffer.getvalue(), "here")
    assert read_header == header
    assert set(found) == set(tables)
    for name, table in tables.items():
        assert found[name].dtype == table.dtype
        assert found[name].shape == table.shape
        for expected_row, row in zip(table, found[name], strict=True):
            assert row.tobytes() == np.ascontiguousarray(expected_row).tobytes()


def test_any_changed_byte_is_detected() -> None:
    content = dump_bytes({"a": 1}, table=np.arange(5.0), none=np.zeros([0, 3]))
    for index in range(len(content)):
        for change in (1, 0x80):
            changed = bytearray(content)
            changed[index] ^= change
            with pytest.raises(DamagedCheckpoint, match="here"):
                load(bytes(changed), "here")


def test_truncated_or_extended_content_is_refused() -> None:
    content = dump_bytes({"a": 1}, table=np.arange(5.0))
    for length in range(len(content)):
        with pytest.raises(DamagedCheckpoint, match="here"):
            load(content[:length], "here")
    with pytest.raises(DamagedCheckpoint):
        load(content + b"\0", "here")


def test_a_newer_format_is_reported() -> None:
    content = dump_bytes({})
    newer = add_digest(content[:16] + struct.pack("<I", VERSION + 1) + content[20:-32])
    with pytest.raises(DamagedCheckpoint, match=r"written by a newer tfsm .*upgrade"):
        load(newer, "here")


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b'{"header": [], "tables": []}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "|O", "shape": [1], "offset": 0}]}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "<f4", "shape": [-1], "offset": 0}]}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "<f4", "shape": [99999999999], "offset": 0}]}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "<f4", "shape": [1], "offset": -8}]}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "no such", "shape": [1], "offset": 0}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_invalid_content_with_a_valid_digest_is_refused(text: bytes) -> None:
    body = struct.pack("<16sIQ", b"tfsm checkpoint\n", VERSION, len(text)) + text
    with pytest.raises(DamagedCheckpoint, match="not a checkpoint of tfsm"):
        load(add_digest(body), "here")


def test_a_header_longer_than_the_file_is_refused() -> None:
    body = struct.pack("<16sIQ", b"tfsm checkpoint\n", VERSION, 2**40) + b"{}"
    with pytest.raises(DamagedCheckpoint):
        load(add_digest(body), "here")


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    class Malicious:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    for content in (
        pickle.dumps(Malicious()),
        add_digest(struct.pack("<16sIQ", b"tfsm checkpoint\n", 1, 9) + pickle.dumps(Malicious())),
    ):
        with pytest.raises(DamagedCheckpoint):
            load(content, "here")
    assert not (tmp_path / "executed").exists()


def test_a_read_error_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "some").write_bytes(b"x" * 500)
    monkeypatch.setattr(checkpoint_module, "_digest", fail)
    with pytest.raises(DamagedCheckpoint, match="some: cannot be read: Input/output error"):
        load_file(tmp_path / "some")


def test_files_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(DamagedCheckpoint, match="empty"):
        load_file(tmp_path / "empty")
    with pytest.raises(DamagedCheckpoint, match="cannot be read: No such file"):
        load_file(tmp_path / "missing")
    (tmp_path / "good").write_bytes(dump_bytes({"a": 1}, table=np.arange(3)))
    header, tables = load_file(tmp_path / "good")
    assert header == {"a": 1}
    assert [int(row) for row in tables["table"]] == [0, 1, 2]


SLOW = pytest.mark.slow


@dataclass
class KeepCheckpoints:
    """Keeps checkpoints, each with the number of metrics reported before it."""

    recorder: Recorder
    every: int = 1
    only_on_failure: bool = False
    kept: list[tuple[bytes, int]] = field(default_factory=list)

    def next_check(self, evaluations: int) -> int:
        return (evaluations // self.every + 1) * self.every

    def is_due(self, evaluations: int) -> bool:
        return not self.only_on_failure

    def save(self, saved: Checkpoint, *, last: bool = False) -> None:
        self.kept.append((pack_checkpoint(saved, {}), len(self.recorder.metrics)))


def run_loop(engine: Engine, recorder: Recorder, *, evaluations: int, runs: int = 3, **more: Any) -> list[Any]:
    results = LockstepLoop(
        engine, seed=0, runs=runs, evaluations=evaluations, log_every=20, observers=[recorder], **more
    ).run()
    return [
        (r.run, r.solved, r.evaluations, r.best_fitness, r.champion_fitness, r.champion.tobytes())
        for r in sorted(results, key=lambda result: result.run)
    ]


def index_metrics(metrics: list[dict[str, Any]], engine: Engine) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the metrics of a finished log by run and evaluations."""
    intervals = LogIntervals(20, engine.batches)
    ends = {line["run"]: max(m["evaluations"] for m in metrics if m["run"] == line["run"]) for line in metrics}
    return {
        (line["run"], line["evaluations"]): line
        for line in metrics
        if line["evaluations"] in intervals or line["evaluations"] == ends[line["run"]]
    }


CASES: dict[str, Callable[[], Engine]] = {
    "plain": lambda: make_engine(Target(near=0.5), runs=3),
    "host": lambda: make_engine(HostTarget(near=0.5), runs=3),
    "budget": lambda: make_engine(Target(near=4.0), runs=3, stop_when_solved=False),
    "self": lambda: make_engine(runs=3, adaptation=Adaptation("self", 0.2)),
    "divergence": lambda: make_engine(runs=3, adaptation=Adaptation("divergence", 0.2, 0.1)),
    "reuse": lambda: make_engine(mutation=SafeMutationSum(), runs=3),
    "map-elites": lambda: make_engine(
        selection=MapElites(bounds="-4:4,-4:4,-4:4", beginners=5), population=27, runs=3, intensity=1.0
    ),
    "novelty": lambda: make_engine(selection=Novelty(), runs=3),
    "offspring": lambda: make_engine(mutation=SafeMutationSum(), runs=3, offspring=7),
    "generations": lambda: make_engine(selection=Truncation(parents=2), runs=3),
}
DEFAULT = ("offspring",)


@pytest.fixture(scope="module")
def plain() -> Engine:
    return CASES["plain"]()


@pytest.mark.parametrize("name", [name if name in DEFAULT else pytest.param(name, marks=SLOW) for name in CASES])
def test_a_resumed_loop_gives_the_same_results(plain: Engine, name: str) -> None:
    engine, recorder = plain if name == "plain" else CASES[name](), Recorder()
    checkpoints = KeepCheckpoints(recorder)
    expected = run_loop(engine, recorder, evaluations=57, checkpoints=checkpoints)
    assert len(checkpoints.kept) >= 57 // engine.batches.size
    lines = index_metrics(recorder.metrics, engine)
    for content, before in checkpoints.kept[:: 16 if name in DEFAULT else 1]:
        resumed = Recorder()
        found = run_loop(engine, resumed, evaluations=57, saved=[unpack_checkpoint(content)[0]])
        assert found == expected
        assert index_metrics(recorder.metrics[:before] + resumed.metrics, engine) == lines


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shorter", "longer"), [(4, 57), (6, 57), (33, 90)])
def test_a_finished_loop_can_be_extended(plain: Engine, shorter: int, longer: int) -> None:
    extend(plain, shorter, longer)


@pytest.mark.parametrize("name", ["offspring", pytest.param("generations", marks=SLOW)])
def test_a_batch_that_the_budget_cut_off_is_completed_by_a_larger_one(name: str) -> None:
    engine = CASES[name]()
    for shorter in (13, 24, 33):
        extend(engine, shorter, 57)


def extend(plain: Engine, shorter: int, longer: int) -> None:
    uninterrupted, recorder, resumed = Recorder(), Recorder(), Recorder()
    expected = run_loop(plain, uninterrupted, evaluations=longer)
    checkpoints = KeepCheckpoints(recorder, every=1000)
    run_loop(plain, recorder, evaluations=shorter, checkpoints=checkpoints)
    assert (
        run_loop(plain, resumed, evaluations=longer, saved=[unpack_checkpoint(checkpoints.kept[-1][0])[0]]) == expected
    )
    assert index_metrics(recorder.metrics + resumed.metrics, plain) == index_metrics(uninterrupted.metrics, plain)


@pytest.mark.slow
def test_runs_may_be_regrouped_on_resume(plain: Engine) -> None:
    recorder, resumed = Recorder(), Recorder()
    checkpoints = KeepCheckpoints(recorder, every=15)
    expected = run_loop(plain, recorder, evaluations=50, checkpoints=checkpoints)
    content, before = next(item for item in checkpoints.kept if unpack_checkpoint(item[0])[0].evaluations_used == 30)
    narrow = make_engine(Target(near=0.5), runs=3, width=2)
    assert run_loop(narrow, resumed, evaluations=50, saved=[unpack_checkpoint(content)[0]]) == expected
    assert index_metrics(recorder.metrics[:before] + resumed.metrics) == index_metrics(recorder.metrics)
    # Only some of the runs; the others restart.
    saved = unpack_checkpoint(content)[0].select(range(1, 3))
    assert saved.runs == range(1, 3)
    assert run_loop(narrow, Recorder(), evaluations=50, saved=[saved]) == expected


@SLOW
def test_runs_may_be_added_on_resume(plain: Engine) -> None:
    checkpoints = KeepCheckpoints(Recorder(), every=15)
    expected = run_loop(plain, checkpoints.recorder, evaluations=50, checkpoints=checkpoints)
    wider = make_engine(Target(near=0.5), runs=7)
    uninterrupted = run_loop(wider, Recorder(), evaluations=50, runs=7)
    assert uninterrupted[:3] == expected
    for content, _ in checkpoints.kept:
        assert (
            run_loop(wider, Recorder(), evaluations=50, runs=7, saved=[unpack_checkpoint(content)[0]]) == uninterrupted
        )


def test_mismatching_tables_are_refused(plain: Engine) -> None:
    checkpoints = KeepCheckpoints(Recorder())
    run_loop(plain, checkpoints.recorder, evaluations=8, checkpoints=checkpoints)
    tables = dict(unpack_checkpoint(checkpoints.kept[-2][0])[0].tables)
    fitness = tables.pop("fitness")
    with pytest.raises(TfsmError, match="checkpoint mismatch: fitness has nothing"):
        plain.state.restore_tables(tables, range(3))
    for other in (replace(fitness, shape=(3, 7)), replace(fitness, dtype=np.dtype(np.float64))):
        with pytest.raises(TfsmError, match=r"checkpoint mismatch: fitness has .*, expected "):
            plain.state.restore_tables({**tables, "fitness": other}, range(3))
    with pytest.raises(TfsmError, match=r"checkpoint mismatch: strange has .*, expected nothing"):
        plain.state.restore_tables({**tables, "fitness": fitness, "strange": fitness}, range(3))


def test_a_checkpoint_contains_the_whole_state(plain: Engine) -> None:
    checkpoints = KeepCheckpoints(Recorder())
    run_loop(plain, checkpoints.recorder, evaluations=20, checkpoints=checkpoints)
    saved, about = unpack_checkpoint(checkpoints.kept[12][0])
    assert about == {}
    assert saved.active_runs == [0, 1, 2]
    assert set(saved.tables) == set(plain.state.tables())
    before = {name: np.stack(list(rows)).tobytes() for name, rows in saved.tables.items()}
    plain.reset(0)
    plain.state.restore_tables(saved.tables, [0, 1, 2])
    assert {name: table.numpy().tobytes() for name, table in plain.state.tables().items()} == before


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["none", pytest.param("self", marks=SLOW), pytest.param("divergence", marks=SLOW)])
def test_a_failed_evaluation_leaves_the_state_unchanged(mode: Any) -> None:
    """State that is updated before an evaluation succeeds would count it."""
    calls, fail_at = [0], [0]

    class Failing(HostTarget):
        def evaluate(self, network: Any, genomes: Any, seed: Any) -> Any:
            calls[0] += 1
            if calls[0] == fail_at[0]:
                raise ValueError("broken down")
            return super().evaluate(network, genomes, seed)

    engine = make_engine(Failing(near=0.0), runs=3, adaptation=Adaptation(mode, 0.2, 0.1))
    expected = run_loop(engine, Recorder(), evaluations=45)
    for at in (1, 3, 6, 7, 8, 21, 40):
        checkpoints = KeepCheckpoints(Recorder(), every=1000, only_on_failure=True)
        fail_at[0] = calls[0] + at
        with pytest.raises(Exception, match="broken down"):
            run_loop(engine, checkpoints.recorder, evaluations=45, checkpoints=checkpoints)
        saved = [unpack_checkpoint(content)[0] for content, _ in checkpoints.kept]
        assert [group.evaluations_used for group in saved] == ([at - 1] if at > 1 else [])
        assert run_loop(engine, Recorder(), evaluations=45, saved=saved) == expected


def test_names_and_order_of_tables_are_frozen() -> None:
    engine = make_engine(
        Target(near=0.0),
        SafeMutationSum(),
        MapElites(bounds="-4:4,-4:4,-4:4", beginners=5),
        population=27,
        adaptation=Adaptation("self"),
    )
    expected = """
        genomes fitness behavior strength control sensitivity measured champion champion_fitness best_fitness solved
        evaluations solved_at baseline experience.0 memory.0 memory.1 tallies.children tallies.better tallies.neutral
        tallies.broken tallies.intensity
    """
    assert list(engine.state.tables()) == expected.split()


HEADER: dict[str, Any] = {"first": 0, "count": 2, "spent": 9, "results": [], "standing": [], "about": {}}
EVALUATIONS = np.array([4, 5], np.int32)


def test_a_header_of_two_runs_is_valid() -> None:
    checkpoint, _ = unpack_checkpoint(dump_bytes({**HEADER, "apart": [[0, []]]}, evaluations=EVALUATIONS))
    assert checkpoint.evaluations_by_run == {0: 4, 1: 5}


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ({"count": 10**18}, EVALUATIONS),
        ({"count": -2}, EVALUATIONS),
        ({"count": float("inf")}, EVALUATIONS),
        ({"first": float("nan")}, EVALUATIONS),
        ({"results": [[7, 1, True, 1, 0.0, 0.0]]}, EVALUATIONS),
        ({"apart": [[0, []]]}, np.array(["a", "b"])),
        ({"apart": [[0, []]]}, np.zeros((2, 3), np.int32)),
    ],
)
def test_a_nonsensical_header_is_refused(change: dict[str, Any], table: np.ndarray) -> None:
    champions = {"results.champion": np.zeros((1, 2), np.float32)} if "results" in change else {}
    content = dump_bytes({**HEADER, **change}, evaluations=table, **champions)
    with pytest.raises(DamagedCheckpoint, match="not a checkpoint of tfsm"):
        unpack_checkpoint(content)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, value) for key in ("offset", "shape") for value in (10**40, -1, float("inf"))),
        *(("dtype", value) for value in ("<f4,((", "(2,f4", "|O8", "<f99", 3, None)),
    ],
)
def test_a_nonsensical_table_is_refused(key: str, value: Any) -> None:
    content = dump_bytes(HEADER, evaluations=EVALUATIONS)
    _, _, length = struct.unpack("<16sIQ", content[:28])
    described = json.loads(content[28 : 28 + length])
    described["tables"][0][key] = [value] if key == "shape" else value
    text = json.dumps(described).encode()
    changed = struct.pack("<16sIQ", content[:16], VERSION, len(text)) + text + content[28 + length : -32]
    with pytest.raises(DamagedCheckpoint):
        unpack_checkpoint(add_digest(changed))
