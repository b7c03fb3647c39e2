"""Pools of Ray actors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.parallel import tasks
from tests.parallel.pools import exits_soon, run_to_end
from tfsm.errors import TfsmError
from tfsm.parallel import ray_pool
from tfsm.parallel.pool import THREAD_VARIABLES
from tfsm.parallel.ray_pool import RayPool, connect

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def test_the_error_without_ray_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TfsmError, match=r"^a pool of Ray workers needs ray: pip install 'tfsm\[ray\]'$"):
        RayPool(1)


@needs_ray
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("nonsense", "Invalid address format: nonsense"),
        ("127.0.0.1:²", "Unable to parse port number"),
        pytest.param(
            "127.0.0.1:9",
            "Failed to connect to Ray cluster.*nothing answers there; if the cluster uses TLS",
            marks=pytest.mark.slow,
        ),
        pytest.param("ray://127.0.0.1:9", "ray client connection timeout", marks=pytest.mark.slow),
        pytest.param("nohost.invalid:6379", "Failed to connect to Ray cluster", marks=pytest.mark.slow),
        pytest.param("127.0.0.1:99999999999999999999", "Failed to connect to Ray cluster", marks=pytest.mark.slow),
    ],
)
def test_an_address_without_ray_is_reported_in_one_line(address: str, reason: str) -> None:
    with pytest.raises(TfsmError, match=rf"^cannot connect to Ray at '{address}': .*{reason}") as caught:
        RayPool(1, address)
    assert "\n" not in str(caught.value)


@needs_ray
def test_no_ray_on_this_machine_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(TfsmError, match=r"^cannot connect to Ray at 'auto': Could not find any running Ray instance"):
        RayPool(1, "auto")


@needs_ray
@pytest.mark.slow
def test_a_server_that_is_not_ray_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(TfsmError, match=f"^cannot connect to Ray at '{address}': Failed to connect"):
            RayPool(1, address)


JOIN = """
import sys
from tfsm.errors import TfsmError
from tfsm.parallel.ray_pool import connect
try:
    connect(sys.argv[1], 1)
except TfsmError as error:
    sys.exit(str(error))
"""
SCRIPT = f"""
JOIN = {JOIN!r}
import os, signal, subprocess, sys
from tests.parallel import tasks
from tests.parallel.pools import run_to_end
from tfsm.parallel.ray_pool import RayPool
if __name__ == "__main__":
    with RayPool(1, threads=3) as pool:
        import psutil
        run_to_end(pool, tasks.print_much)
        assert run_to_end(pool, tasks.Die("segfault"))[-1][0] == "died"
        environ, imported = run_to_end(pool, tasks.yield_environment)[0][1]
        assert not imported
        numbers = [process.pid for process in psutil.Process().children(recursive=True)]
        sockets = [entry for entry in psutil.net_connections("tcp") if entry.pid in numbers]
        listening = {{entry.laddr.ip for entry in sockets if entry.status == "LISTEN"}}
        import ray
        niceness = [psutil.Process(number).nice() for number in numbers]
        assert set(niceness) == {{psutil.Process().nice()}}, niceness
        for change in ({{}}, {{"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "guessed"}}):
            refused = subprocess.run(
                [sys.executable, "-c", JOIN, ray.get_runtime_context().gcs_address],
                capture_output=True, text=True, env=os.environ | {{"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}} | change,
            )
            assert "it requires a token" in refused.stderr, refused
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    print(*numbers)
    print(*(environ[name] for name in {THREAD_VARIABLES}))
    print(*listening)
"""


@needs_ray
def test_a_private_ray_is_quiet_local_and_ends_with_the_pool() -> None:
    pytest.importorskip("psutil")
    path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "RAY_ADDRESS": "127.0.0.1:9", "RAY_AUTH_MODE": "disabled"},
        timeout=120,
    )
    assert found.stderr == ""
    numbers, threads, listening = found.stdout.splitlines()
    assert len(numbers.split()) > 2
    assert all(exits_soon(int(number)) for number in numbers.split())
    assert threads == "3 3 3"
    assert {address.removeprefix("::ffff:") for address in listening.split()} == {"127.0.0.1"}


@needs_ray
@pytest.mark.slow
def test_waiting_for_workers_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "NOTICE_SECONDS", 2.0)
    messages: list[str] = []
    connection = connect(None, 1)
    try:
        with RayPool(2, notify=messages.append) as pool:
            while not messages:
                pool.wait(1.0)
            pool.wait(2.0)
            started = next(number for number in range(2) if pool.is_ready(number))
            assert run_to_end(pool, tasks.YieldValues((1,)), started)[0] == ("event", 1)
    finally:
        connection.close()
    assert messages == ["waiting for 1 of 2 workers to start: each needs 1 CPU, and Ray has 0 of 1 free"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
