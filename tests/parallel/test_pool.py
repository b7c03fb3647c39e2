"""What every pool must do, whatever its workers are."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.parallel import tasks
from tests.parallel.conftest import Make
from tests.parallel.pools import all_of, is_gone, next_of, outcome
from tfsm.errors import TfsmError
from tfsm.parallel.pool import Pool


def test_what_a_task_yields_and_returns_is_told_in_order(pool: Pool) -> None:
    values = tuple(range(50))
    assert outcome(pool, tasks.Says(values, "end")) == [*(("event", value) for value in values), ("done", "end")]


def test_a_worker_that_has_done_something_has_begun(pool: Pool) -> None:
    assert outcome(pool, tasks.Says()) == [("done", None)]
    assert pool.is_ready(0)
    pool.kill(0)
    assert not pool.is_ready(0)
    assert outcome(pool, tasks.Says()) == [("done", None)]
    assert pool.is_ready(0)


def test_a_task_may_yield_nothing(pool: Pool) -> None:
    assert outcome(pool, tasks.Says()) == [("done", None)]


def test_an_event_is_told_at_once(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "go"
    pool.submit(0, tasks.Waits(file))
    assert next_of(pool, 0).kind == "event"
    assert pool.wait(0.2) == []
    file.touch()
    assert [message.content for message in all_of(pool, 0)[0]] == ["late", None]


def test_waiting_ends_with_the_time_out(pool: Pool) -> None:
    begin = time.monotonic()
    assert pool.wait(0.2) == []
    assert 0.15 < time.monotonic() - begin < 2.0
    assert pool.wait(0) == []


def test_workers_work_at_the_same_time_and_keep_their_own_things(pool: Pool, tmp_path: Path) -> None:
    for worker in range(2):
        pool.submit(worker, tasks.Waits(tmp_path / f"go{worker}"))
    first = next_of_both(pool)
    assert first[0] != first[1]
    assert os.getpid() not in first.values()
    for worker in range(2):
        (tmp_path / f"go{worker}").touch()
    assert all(got[-1].kind == "done" for got in all_of(pool, 0, 1).values())


def next_of_both(pool: Pool) -> dict[int, Any]:
    found: dict[int, Any] = {}
    while len(found) < 2:
        found |= {message.worker: message.content for message in pool.wait(30.0)}
    return found


def test_a_desk_is_kept_from_one_task_to_the_next_until_the_worker_is_killed(pool: Pool) -> None:
    pool.kill(0)
    (_, (_, process)), (_, (_, same)) = (outcome(pool, tasks.counts) for _ in range(2))
    assert process == same
    assert outcome(pool, tasks.counts)[0] == ("event", 3)
    pool.kill(0)
    (_, count), (_, other) = outcome(pool, tasks.counts)
    assert count == 1
    assert other != process
    assert is_gone(process)


def test_a_failure_is_told_and_survived(pool: Pool) -> None:
    process = outcome(pool, tasks.counts)[-1]
    first, (kind, failure) = outcome(pool, tasks.Raises(ValueError("odd\nand more")))
    assert first == ("event", "before")
    assert kind == "failed"
    assert (failure.is_user_error, failure.message) == (False, "ValueError: odd")
    assert "and more" in failure.traceback
    assert "tasks.py" in failure.traceback
    assert outcome(pool, tasks.counts)[-1] == process


def test_an_error_of_ours_is_told_in_its_own_words(pool: Pool) -> None:
    ((kind, failure),) = outcome(pool, tasks.ours)
    assert kind == "failed"
    assert failure.is_user_error
    assert failure.message == "no such thing: take another\nand a second line"


def test_a_task_that_would_end_its_process_has_failed(pool: Pool) -> None:
    _, (kind, failure) = outcome(pool, tasks.Raises(SystemExit(7)))
    assert (kind, failure.message) == ("failed", "SystemExit: 7")


@pytest.mark.parametrize("how", ["kill", "exit", "segfault", "abort"])
def test_a_death_is_told_and_another_takes_the_task(pool: Pool, how: str) -> None:
    (_, process), (kind, words) = outcome(pool, tasks.Dies(how))
    assert kind == "died"
    assert "\n" not in words
    assert words
    assert outcome(pool, tasks.counts)[0] == ("event", 1)
    assert outcome(pool, tasks.counts)[-1] != ("done", process)


def test_a_death_from_outside_is_told(pool: Pool) -> None:
    pool.submit(1, tasks.sleeps)
    os.kill(next_of(pool, 1).content, signal.SIGKILL)
    assert next_of(pool, 1).kind == "died"
    assert outcome(pool, tasks.Says((1,)), worker=1) == [("event", 1), ("done", None)]


def test_running_out_of_memory_is_told(pool: Pool) -> None:
    kind, content = outcome(pool, tasks.runs_out_of_memory)[-1]
    assert kind in ("failed", "died")
    if kind == "failed":
        assert "MemoryError" in content.message
    pool.kill(0)
    assert outcome(pool, tasks.Says((1,)))[0] == ("event", 1)


@pytest.mark.parametrize("task", [tasks.spins, tasks.sleeps])
def test_a_task_that_hangs_can_be_killed(pool: Pool, task: Any) -> None:
    pool.submit(0, task)
    process = next_of(pool, 0).content
    begin = time.monotonic()
    pool.kill(0)
    assert time.monotonic() - begin < 5.0
    assert is_gone(process)
    assert pool.wait(0.2) == []
    assert outcome(pool, tasks.Says((1,)))[0] == ("event", 1)


def test_nothing_is_told_of_a_task_after_its_worker_was_killed(pool: Pool) -> None:
    pool.submit(0, tasks.floods)
    assert pool.wait(30.0)
    time.sleep(0.2)
    pool.kill(0)
    assert pool.wait(0.2) == []
    assert outcome(pool, tasks.Says(("fresh",)))[0] == ("event", "fresh")


def test_a_task_can_be_asked_to_stop_and_the_next_is_not(pool: Pool) -> None:
    for _ in range(2):
        pool.submit(0, tasks.until_stopped)
        assert next_of(pool, 0).content is False
        pool.stop(0)
        pool.stop(0)
        message = next_of(pool, 0)
        assert (message.kind, message.content) == ("done", "stopped")
        pool.stop(0)  # there is no task: nothing happens


def test_an_interrupt_is_for_the_driver(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "go"
    pool.submit(0, tasks.Waits(file))
    os.kill(next_of(pool, 0).content, signal.SIGINT)
    assert pool.wait(0.5) == []
    file.touch()
    assert [message.content for message in all_of(pool, 0)[0]] == ["late", None]


def test_a_large_array_goes_both_ways(pool: Pool) -> None:
    array = np.arange(25 * 2**20, dtype=np.float64)
    (kind, twice), _ = outcome(pool, tasks.Doubles(array))
    assert kind == "event"
    assert twice.nbytes == 200 * 2**20
    assert twice[-1] == 2 * array[-1]


def test_what_is_printed_harms_nothing_and_is_not_seen(pool: Pool, capfd: pytest.CaptureFixture[str]) -> None:
    assert [content for _, content in outcome(pool, tasks.prints)] == [0, 1, 2, None]
    time.sleep(0.1)
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_sent_is_a_failure_and_the_worker_lives(pool: Pool) -> None:
    kind, failure = outcome(pool, tasks.unsendable)[-1]
    assert kind == "failed"
    assert "pickle" in failure.message
    assert outcome(pool, tasks.Says((1,)))[0] == ("event", 1)


def test_a_task_that_cannot_be_sent_is_refused_in_words(pool: Pool) -> None:
    with pytest.raises(TfsmError, match=r"^a task cannot be sent to another process \(.*pickle.*\): define"):
        pool.submit(0, tasks.Says(((number for number in range(3)),)))
    assert outcome(pool, tasks.Says((1,)))[0] == ("event", 1)


def test_what_cannot_be_loaded_takes_only_its_worker(pool: Pool) -> None:
    kind, content = outcome(pool, tasks.sends_unloadable)[-1]
    assert kind in ("died", "failed")
    assert "not here" in (content if kind == "died" else content.message)
    if kind == "failed":
        pool.kill(0)
    assert outcome(pool, tasks.Says((1,)))[0] == ("event", 1)


def test_a_worker_has_one_task_at_a_time(pool: Pool) -> None:
    pool.submit(0, tasks.sleeps)
    assert next_of(pool, 0).kind == "event"
    with pytest.raises(ValueError, match="has a task"):
        pool.submit(0, tasks.counts)
    pool.kill(0)


def test_two_pools_at_once_and_no_process_after_closing(pool: Pool, make: Make) -> None:
    with make(1) as other:
        (_, (_, theirs)), (_, (_, mine)) = outcome(other, tasks.counts), outcome(pool, tasks.counts)
        assert theirs != mine
        other.submit(0, tasks.spins)
        assert next_of(other, 0).content == theirs
    assert is_gone(theirs)
    other.close()
    other.stop(0)
    other.kill(0)
    assert other.wait(0.1) == []
    with pytest.raises(ValueError, match="is closed"):
        other.submit(0, tasks.counts)
    assert outcome(pool, tasks.counts)[-1] == ("done", mine)


def test_a_class_of_a_script_can_be_sent_and_comes_back(pool: Pool) -> None:
    pytest.importorskip("cloudpickle")
    spoken = {"__name__": "__main__"}
    exec(
        "class Pair:\n    def __init__(self, a): self.a = a\n"
        "class Asks:\n    def __call__(self, desk):\n        yield Pair(7)\n",
        spoken,
    )
    (_, pair), _ = outcome(pool, spoken["Asks"]())
    assert type(pair) is spoken["Pair"]
    assert pair.a == 7
