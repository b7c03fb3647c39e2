"""Whatever a command line says: a result or a message, and never a traceback or a hang."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.generators import COMMANDS, HUGE, command_lines
from tests.fuzz.harness import HangError, command, copy_of, empty_folder, furnish, fuzzed, within

ENDLESS = ("reproduce", "plugins check")
SLOW = ("run", "compare", "sweep", "robustness", *ENDLESS)


@pytest.fixture(scope="module")
def furnished() -> Iterator[Path]:
    with empty_folder() as folder:
        yield furnish(folder)


def tried(furnished: Path, words: list[str]) -> None:
    name = " ".join(words[:2]) if words[0] in ("plugins", "runs", "config") else words[0]
    patient = name not in ENDLESS and not any(number in word for word in words for number in HUGE)
    with empty_folder():
        copy_of(furnished)
        kept = {path: path.read_bytes() for path in Path().glob("folder/*")}
        command(*words, interrupt_after=None if patient else 3.0)
        assert all(path.read_bytes() == content for path, content in kept.items()), "a user's file was changed"


@pytest.mark.parametrize("name", [name for name in COMMANDS if " ".join(name) not in SLOW], ids=" ".join)
@fuzzed(3)
@given(data=st.data())
def test_quick_commands(furnished: Path, name: tuple[str, ...], data: st.DataObject) -> None:
    tried(furnished, data.draw(command_lines(name)))


@pytest.mark.parametrize("name", [name for name in COMMANDS if " ".join(name) in SLOW], ids=" ".join)
@fuzzed(2, share=0.2)
@given(data=st.data())
def test_commands_that_evolve(furnished: Path, name: tuple[str, ...], data: st.DataObject) -> None:
    tried(furnished, data.draw(command_lines(name)))


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def stubborn(caught: type[BaseException]) -> None:
    """Go on whatever is raised."""
    while True:
        try:
            busy(5.0)
        except caught:
            continue


def test_what_takes_too_long_fails() -> None:
    with pytest.raises(HangError, match="still busy after"), within(0.1):
        stubborn(Exception)


def test_ctrl_c_is_pressed_first() -> None:
    with pytest.raises(KeyboardInterrupt), within(5.0, interrupt_after=0.1):
        busy(5.0)


def test_ctrl_c_that_is_not_heard_is_a_hang() -> None:
    with pytest.raises(HangError), within(0.35, interrupt_after=0.1):
        stubborn(KeyboardInterrupt)
