"""The contract of every pool, whatever its workers are."""

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
from tests.parallel.pools import exits_soon, receive_one, receive_until_done, run_to_end
from tfsm.errors import TfsmError
from tfsm.parallel.pool import Pool


@pytest.mark.sample(2)
def test_yielded_and_returned_values_arrive_in_order(pool: Pool) -> None:
    values = tuple(range(50))
    assert run_to_end(pool, tasks.YieldValues(values, "end")) == [
        *(("event", value) for value in values),
        ("done", "end"),
    ]


def test_a_worker_is_ready_after_its_first_task(pool: Pool) -> None:
    assert run_to_end(pool, tasks.YieldValues()) == [("done", None)]
    assert pool.is_ready(0)
    pool.kill(0)
    assert not pool.is_ready(0)
    assert run_to_end(pool, tasks.YieldValues()) == [("done", None)]
    assert pool.is_ready(0)


def test_a_task_may_yield_nothing(pool: Pool) -> None:
    assert run_to_end(pool, tasks.YieldValues()) == [("done", None)]


def test_an_event_arrives_immediately(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "go"
    pool.submit(0, tasks.WaitForFile(file))
    assert receive_one(pool, 0).kind == "event"
    assert pool.wait(0.2) == []
    file.touch()
    assert [message.content for message in receive_until_done(pool, 0)[0]] == ["late", None]


def test_waiting_ends_at_the_timeout(pool: Pool) -> None:
    begin = time.monotonic()
    assert pool.wait(0.2) == []
    assert 0.15 < time.monotonic() - begin < 2.0
    assert pool.wait(0) == []


def test_workers_run_concurrently_in_different_processes(pool: Pool, tmp_path: Path) -> None:
    for worker in range(2):
        pool.submit(worker, tasks.WaitForFile(tmp_path / f"go{worker}"))
    first = receive_from_both(pool)
    assert first[0] != first[1]
    assert os.getpid() not in first.values()
    for worker in range(2):
        (tmp_path / f"go{worker}").touch()
    assert all(got[-1].kind == "done" for got in receive_until_done(pool, 0, 1).values())


def receive_from_both(pool: Pool) -> dict[int, Any]:
    found: dict[int, Any] = {}
    while len(found) < 2:
        found |= {message.worker: message.content for message in pool.wait(30.0)}
    return found


@pytest.mark.sample(2)
def test_the_cache_of_a_worker_lasts_until_it_is_killed(pool: Pool) -> None:
    pool.kill(0)
    (_, (_, process)), (_, (_, same)) = (run_to_end(pool, tasks.count_tasks) for _ in range(2))
    assert process == same
    assert run_to_end(pool, tasks.count_tasks)[0] == ("event", 3)
    pool.kill(0)
    (_, count), (_, other) = run_to_end(pool, tasks.count_tasks)
    assert count == 1
    assert other != process
    assert exits_soon(process)


def test_a_worker_reports_and_survives_a_failure(pool: Pool) -> None:
    process = run_to_end(pool, tasks.count_tasks)[-1]
    first, (kind, failure) = run_to_end(pool, tasks.Raise(ValueError("odd\nand more")))
    assert first == ("event", "before")
    assert kind == "failed"
    assert (failure.is_user_error, failure.message) == (False, "ValueError: odd")
    assert "and more" in failure.traceback
    assert "tasks.py" in failure.traceback
    assert run_to_end(pool, tasks.count_tasks)[-1] == process


def test_a_user_error_keeps_its_message(pool: Pool) -> None:
    ((kind, failure),) = run_to_end(pool, tasks.raise_user_error)
    assert kind == "failed"
    assert failure.is_user_error
    assert failure.message == "no such thing: take another\nand a second line"


def test_a_task_that_calls_exit_fails(pool: Pool) -> None:
    _, (kind, failure) = run_to_end(pool, tasks.Raise(SystemExit(7)))
    assert (kind, failure.message) == ("failed", "SystemExit: 7")


@pytest.mark.sample(4)
@pytest.mark.parametrize("how", ["kill", "exit", "segfault", "abort"])
def test_a_death_is_reported_and_the_worker_is_replaced(pool: Pool, how: str) -> None:
    (_, process), (kind, reason) = run_to_end(pool, tasks.Die(how))
    assert kind == "died"
    assert "\n" not in reason
    assert reason
    assert run_to_end(pool, tasks.count_tasks)[0] == ("event", 1)
    assert run_to_end(pool, tasks.count_tasks)[-1] != ("done", process)


def test_a_worker_killed_from_outside_is_reported(pool: Pool) -> None:
    pool.submit(1, tasks.sleep)
    os.kill(receive_one(pool, 1).content, signal.SIGKILL)
    assert receive_one(pool, 1).kind == "died"
    assert run_to_end(pool, tasks.YieldValues((1,)), worker=1) == [("event", 1), ("done", None)]


@pytest.mark.sample(2)
def test_running_out_of_memory_is_reported(pool: Pool) -> None:
    kind, content = run_to_end(pool, tasks.run_out_of_memory)[-1]
    assert kind in ("failed", "died")
    if kind == "failed":
        assert "MemoryError" in content.message
    pool.kill(0)
    assert run_to_end(pool, tasks.YieldValues((1,)))[0] == ("event", 1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("task", [tasks.spin, tasks.sleep])
def test_a_hanging_task_can_be_killed(pool: Pool, task: Any) -> None:
    pool.submit(0, task)
    process = receive_one(pool, 0).content
    begin = time.monotonic()
    pool.kill(0)
    assert time.monotonic() - begin < 5.0
    assert exits_soon(process)
    assert pool.wait(0.2) == []
    assert run_to_end(pool, tasks.YieldValues((1,)))[0] == ("event", 1)


@pytest.mark.sample(2)
def test_no_message_arrives_after_a_worker_was_killed(pool: Pool) -> None:
    pool.submit(0, tasks.flood)
    assert pool.wait(30.0)
    time.sleep(0.2)
    pool.kill(0)
    assert pool.wait(0.2) == []
    assert run_to_end(pool, tasks.YieldValues(("fresh",)))[0] == ("event", "fresh")


def test_a_stop_request_only_affects_the_current_task(pool: Pool) -> None:
    for _ in range(2):
        pool.submit(0, tasks.run_until_stopped)
        assert receive_one(pool, 0).content is False
        pool.stop(0)
        pool.stop(0)
        message = receive_one(pool, 0)
        assert (message.kind, message.content) == ("done", "stopped")
        pool.stop(0)  # no effect without a task


def test_workers_ignore_interrupts(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "go"
    pool.submit(0, tasks.WaitForFile(file))
    os.kill(receive_one(pool, 0).content, signal.SIGINT)
    assert pool.wait(0.5) == []
    file.touch()
    assert [message.content for message in receive_until_done(pool, 0)[0]] == ["late", None]


@pytest.mark.sample(2)
def test_large_arrays_can_be_sent_and_received(pool: Pool) -> None:
    array = np.arange(25 * 2**20, dtype=np.float64)
    (kind, doubled), _ = run_to_end(pool, tasks.DoubleArray(array))
    assert kind == "event"
    assert doubled.nbytes == 200 * 2**20
    assert doubled[-1] == 2 * array[-1]


def test_printed_output_is_discarded(pool: Pool, capfd: pytest.CaptureFixture[str]) -> None:
    assert [content for _, content in run_to_end(pool, tasks.print_much)] == [0, 1, 2, None]
    time.sleep(0.1)
    assert capfd.readouterr() == ("", "")


def test_a_result_that_cannot_be_pickled_is_a_failure(pool: Pool) -> None:
    kind, failure = run_to_end(pool, tasks.yield_unsendable)[-1]
    assert kind == "failed"
    assert "pickle" in failure.message
    assert run_to_end(pool, tasks.YieldValues((1,)))[0] == ("event", 1)


def test_a_task_that_cannot_be_pickled_is_refused_with_a_message(pool: Pool) -> None:
    with pytest.raises(TfsmError, match=r"^a task cannot be sent to another process \(.*pickle.*\): define"):
        pool.submit(0, tasks.YieldValues(((number for number in range(3)),)))
    assert run_to_end(pool, tasks.YieldValues((1,)))[0] == ("event", 1)


def test_a_message_that_cannot_be_unpickled_only_affects_its_worker(pool: Pool) -> None:
    kind, content = run_to_end(pool, tasks.send_unloadable)[-1]
    assert kind in ("died", "failed")
    assert "not here" in (content if kind == "died" else content.message)
    if kind == "failed":
        pool.kill(0)
    assert run_to_end(pool, tasks.YieldValues((1,)))[0] == ("event", 1)


def test_a_worker_has_one_task_at_a_time(pool: Pool) -> None:
    pool.submit(0, tasks.sleep)
    assert receive_one(pool, 0).kind == "event"
    with pytest.raises(ValueError, match="has a task"):
        pool.submit(0, tasks.count_tasks)
    pool.kill(0)


@pytest.mark.sample(2)
def test_two_pools_at_once_and_no_process_after_closing(pool: Pool, make: Make) -> None:
    with make(1) as other:
        (_, (_, theirs)), (_, (_, mine)) = run_to_end(other, tasks.count_tasks), run_to_end(pool, tasks.count_tasks)
        assert theirs != mine
        other.submit(0, tasks.spin)
        assert receive_one(other, 0).content == theirs
    assert exits_soon(theirs)
    other.close()
    other.stop(0)
    other.kill(0)
    assert other.wait(0.1) == []
    with pytest.raises(ValueError, match="is closed"):
        other.submit(0, tasks.count_tasks)
    assert run_to_end(pool, tasks.count_tasks)[-1] == ("done", mine)


def test_a_class_defined_in_a_script_can_be_sent_and_returned(pool: Pool) -> None:
    pytest.importorskip("cloudpickle")
    namespace = {"__name__": "__main__"}
    exec(
        "class Pair:\n    def __init__(self, a): self.a = a\n"
        "class Task:\n    def __call__(self, context):\n        yield Pair(7)\n",
        namespace,
    )
    (_, pair), _ = run_to_end(pool, namespace["Task"]())
    assert type(pair) is namespace["Pair"]
    assert pair.a == 7
