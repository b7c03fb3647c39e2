"""Pools of processes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.parallel import tasks
from tests.parallel.pools import exits_soon, receive_one, run_to_end
from tfsm.errors import TfsmError
from tfsm.parallel import processes, worker
from tfsm.parallel.pool import THREAD_VARIABLES
from tfsm.parallel.process_pool import ProcessPool
from tfsm.parallel.processes import count_cores
from tfsm.parallel.worker import WorkerContext


@pytest.fixture
def pool() -> Iterator[ProcessPool]:
    with ProcessPool(1) as process_pool:
        yield process_pool


@pytest.mark.parametrize(
    ("how", "description"),
    [
        ("kill", "killed by signal 9 (SIGKILL), as the system does when memory runs out"),
        ("exit", "exit code 3"),
        ("segfault", "killed by signal 11 (SIGSEGV): Fatal Python error: Segmentation fault, File "),
        ("abort", "killed by signal 6 (SIGABRT): Fatal Python error: Aborted, File "),
    ],
)
def test_the_cause_of_a_death_is_described(pool: ProcessPool, how: str, description: str) -> None:
    assert run_to_end(pool, tasks.Die(how))[-1][1].startswith(description)


def test_subprocesses_of_a_worker_end_with_it(pool: ProcessPool) -> None:
    for end in (lambda: pool.kill(0), pool.close):
        pool.submit(0, tasks.start_subprocess)
        other = receive_one(pool, 0).content
        end()
        assert exits_soon(other)


def fork_and_die(context: WorkerContext) -> Iterator[Any]:
    child = os.fork()
    if child == 0:
        os.setsid()
        time.sleep(30)
        os._exit(0)
    yield child
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_death_is_detected_while_another_process_holds_the_channel(pool: ProcessPool) -> None:
    (_, child), (kind, _) = run_to_end(pool, fork_and_die)
    os.kill(child, signal.SIGKILL)
    assert kind == "died"


def test_a_worker_that_cannot_start_is_not_restarted_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PROGRAM", "raise SystemExit('no luck')")
    with ProcessPool(1) as pool:
        for _ in range(2):
            assert receive_one(pool, 0)[1:] == ("died", "exit code 1: no luck")
        with pytest.raises(TfsmError, match=r"^worker processes do not start: exit code 1: no luck$"):
            pool.wait(30.0)


def test_the_error_suggests_cloudpickle(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_find_cloudpickle", lambda: None)
    with pytest.raises(TfsmError, match=r"in a module that can be imported, or pip install cloudpickle$"):
        pool.submit(0, lambda context: iter(()))


def test_thread_variables_are_set_before_tensorflow_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    with ProcessPool(1) as pool:
        (_, (environ, imported)), _ = run_to_end(pool, tasks.yield_environment)
    assert not imported
    assert [environ[name] for name in THREAD_VARIABLES] == [str(count_cores()), str(count_cores()), "5"]
    assert environ["KERAS_BACKEND"] == "tensorflow"
    with ProcessPool(1, threads=3) as pool:
        (_, (environ, _)), _ = run_to_end(pool, tasks.yield_environment)
        assert [environ[name] for name in THREAD_VARIABLES] == ["3", "3", "3"]


@pytest.mark.slow
def test_tensorflow_starts_no_more_threads_than_its_share() -> None:
    few, many = (count_threads(share) for share in (1, 6))
    assert many - few >= 5


def count_threads(share: int) -> int:
    with ProcessPool(1, threads=share) as pool:
        return int(run_to_end(pool, tasks.count_tensorflow_threads)[0][1])


DRIVER = """
import sys, time
from tests.parallel import tasks
from tests.parallel.pools import receive_one, run_to_end
from tfsm.parallel.{module} import {pool}
if __name__ == "__main__":
    pool = {pool}(2)
    pool.submit(0, tasks.spin)
    print(receive_one(pool, 0).content, run_to_end(pool, tasks.count_tasks, worker=1)[-1][1], flush=True)
    time.sleep(3600)
"""


@pytest.mark.parametrize(
    ("module", "pool"), [("process_pool", "ProcessPool"), pytest.param("ray_pool", "RayPool", marks=pytest.mark.slow)]
)
def test_no_worker_outlives_a_killed_driver(module: str, pool: str) -> None:
    command = [sys.executable, "-c", DRIVER.format(module=module, pool=pool)]
    path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path}) as driver:
        assert driver.stdout is not None
        workers = [int(word) for word in driver.stdout.readline().split()]
        driver.kill()
    assert len(workers) == 2
    assert all(exits_soon(worker) for worker in workers)


def test_pools_import_neither_tensorflow_nor_ray() -> None:
    modules = "pool, process_pool, processes, ray_pool, worker"
    heavy = "{'tensorflow', 'ray', 'numpy'} & {*sys.modules}"
    code = f"from tfsm.parallel import {modules}; import sys; print({heavy})"
    path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert found.stdout == "set()\n"
