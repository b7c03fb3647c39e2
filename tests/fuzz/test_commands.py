"""Every command line gives a result or a message, never a traceback or a hang."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given

from tests.fuzz.generators import COMMANDS, HUGE, command_lines
from tests.fuzz.harness import (
    HangError,
    copy_into_working_directory,
    empty_folder,
    fuzz_settings,
    run_command,
    time_limit,
    write_files,
)

ENDLESS = ("reproduce", "plugins check")
SLOW = ("run", "compare", "sweep", "robustness", *ENDLESS)


@pytest.fixture(scope="module")
def folder_with_files() -> Iterator[Path]:
    with empty_folder() as folder:
        yield write_files(folder)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_a_command_gives_a_result_or_a_message(folder_with_files: Path, name: tuple[str, ...]) -> None:
    command = " ".join(name)

    @(fuzz_settings(2, share=0.2) if command in SLOW else fuzz_settings(3))
    @given(words=command_lines(name))
    def check(words: list[str]) -> None:
        has_limit = command not in ENDLESS and not any(number in word for word in words for number in HUGE)
        with empty_folder():
            copy_into_working_directory(folder_with_files)
            user_files = {path: path.read_bytes() for path in Path().glob("folder/*")}
            run_command(*words, interrupt_after=None if has_limit else 3.0)
            assert all(path.read_bytes() == content for path, content in user_files.items()), (
                "a user's file was changed"
            )

    check()


def keep_busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def ignore_exceptions(caught: type[BaseException]) -> None:
    """Keep busy forever, ignoring an exception."""
    while True:
        try:
            keep_busy(5.0)
        except caught:
            continue


def test_the_time_limit_raises() -> None:
    with pytest.raises(HangError, match="still busy after"), time_limit(0.1):
        ignore_exceptions(Exception)


def test_an_interrupt_is_sent_first() -> None:
    with pytest.raises(KeyboardInterrupt), time_limit(5.0, interrupt_after=0.1):
        keep_busy(5.0)


def test_an_ignored_interrupt_is_a_hang() -> None:
    with pytest.raises(HangError), time_limit(0.35, interrupt_after=0.1):
        ignore_exceptions(KeyboardInterrupt)
