"""Child processes: their messages, their output and their end."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.parallel.pools import exits_soon
from tfsm.parallel.processes import Channel, ChildProcess

TARGET = "tests.parallel.test_processes"


def echo(channel: Channel) -> None:
    print("not a message")
    while True:
        try:
            kind, frames = channel.receive()
        except EOFError:
            return
        channel.send(kind, [*frames, str(os.getpid()).encode()])


def refuse_to_end(channel: Channel) -> None:
    channel.send("ready")
    while True:
        time.sleep(1.0)


def fail(channel: Channel) -> None:
    raise RuntimeError("no luck")


def test_messages_of_any_size_are_separate_from_printed_output(capfd: pytest.CaptureFixture[str]) -> None:
    child = ChildProcess(f"{TARGET}:echo")
    for frames in ([], [b""], [b"x"], [bytes(10), bytes(10**6), b"yz"]):
        child.channel.send("kind", frames)
        kind, answer = child.channel.receive()
        assert (kind, [bytes(frame) for frame in answer[:-1]]) == ("kind", frames)
        assert int(answer[-1]) != os.getpid()
    assert child.close(grace=10.0) == 0
    assert capfd.readouterr() == ("", "not a message\n")


def test_a_child_that_does_not_end_is_killed() -> None:
    child = ChildProcess(f"{TARGET}:refuse_to_end")
    assert child.channel.receive()[0] == "ready"
    assert not child.has_exited()
    assert child.close(grace=0.1) == -signal.SIGKILL
    assert child.close(grace=0.1) == -signal.SIGKILL, "closing again does nothing"


def test_a_death_is_an_eof_with_a_description() -> None:
    child = ChildProcess(f"{TARGET}:fail", quiet=True)
    with pytest.raises(EOFError):
        child.channel.receive()
    assert child.describe_exit(within=10.0) == "exit code 1: RuntimeError: no luck"
    with pytest.raises(OSError):  # noqa: PT011 - any kind of it
        child.channel.send("kind")


def test_a_child_ends_with_its_parent() -> None:
    first = ChildProcess(f"{TARGET}:start_another")
    other = int(first.channel.receive()[1][0])
    first.kill()
    assert exits_soon(other)


def start_another(channel: Channel) -> None:
    other = ChildProcess(f"{TARGET}:echo")
    other.channel.send("kind")
    channel.send("started", [other.channel.receive()[1][-1]])
    channel.receive()
