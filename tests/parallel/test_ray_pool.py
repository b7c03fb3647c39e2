"""What is particular to actors of Ray."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.parallel import tasks
from tests.parallel.pools import is_gone, outcome
from tfsm.errors import TfsmError
from tfsm.parallel import ray_pool as connecting
from tfsm.parallel import ray_pool as raying
from tfsm.parallel.pool import THREAD_VARIABLES
from tfsm.parallel.ray_pool import RayPool, join

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def test_what_to_install_is_said_where_ray_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TfsmError, match=r"^a pool of Ray workers needs ray: pip install 'tfsm\[ray\]'$"):
        RayPool(1)


@needs_ray
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:9", "nothing answers there"),
        ("ray://127.0.0.1:9", "nothing answers there"),
        ("ray://127.0.0.1", "nothing answers there|not Ray"),
        ("nonsense", "an address is 'auto', 'host:port' or 'ray://host:port'"),
        ("nohost.invalid:6379", "nothing answers there"),
        ("a..b:6379", "nothing answers there"),
        ("127.0.0.1:99999999999999999999", "nothing answers there"),
        ("127.0.0.1:²", "an address is"),
    ],
)
def test_an_address_that_does_not_answer_is_told(address: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "PATIENCE", 0.2)
    with pytest.raises(TfsmError, match=rf"^Ray at '{address}' cannot be joined: .*({words})"):
        RayPool(1, address)


@needs_ray
def test_something_else_than_ray_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(TfsmError, match="what answers there is not Ray; is the port right"):
            RayPool(1, address)


SCRIPT = """
import os, signal, sys
from tests.parallel import tasks
from tests.parallel.pools import outcome
from tfsm.parallel.ray_pool import RayPool
if __name__ == "__main__":
    with RayPool(1, threads=3) as pool:
        import psutil
        outcome(pool, tasks.prints)
        assert outcome(pool, tasks.Dies("segfault"))[-1][0] == "died"
        environ, imported = outcome(pool, tasks.environment)[0][1]
        assert not imported
        numbers = [process.pid for process in psutil.Process().children(recursive=True)]
        sockets = [entry for entry in psutil.net_connections("tcp") if entry.pid in numbers]
        listening = {{entry.laddr.ip for entry in sockets if entry.status == "LISTEN"}}
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    print(*numbers)
    print(*(environ[name] for name in {counts}))
    print(*listening)
"""


@needs_ray
def test_a_ray_of_our_own_is_quiet_keeps_to_this_machine_and_ends_with_the_pool() -> None:
    pytest.importorskip("psutil")
    path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(counts=THREAD_VARIABLES)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "RAY_ADDRESS": "127.0.0.1:9"},
        timeout=120,
    )
    assert found.stderr == ""
    numbers, threads, listening = found.stdout.splitlines()
    assert len(numbers.split()) > 2
    assert all(is_gone(int(number)) for number in numbers.split())
    assert threads == "3 3 3"
    assert {address.removeprefix("::ffff:") for address in listening.split()} == {"127.0.0.1"}


@needs_ray
@pytest.mark.slow
def test_what_is_waited_for_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raying, "NOTICE", 2.0)
    said: list[str] = []
    joined = join(None, 1)
    try:
        with RayPool(2, notify=said.append) as pool:
            while not said:
                pool.wait(1.0)
            pool.wait(2.0)
            begun = next(number for number in range(2) if pool._hands[number].ready)
            assert outcome(pool, tasks.Says((1,)), begun)[0] == ("event", 1)
    finally:
        joined.leave()
    assert said == ["waiting for 1 of 2 workers to begin: each needs 1 CPU, and Ray has 0 of 1 free"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
