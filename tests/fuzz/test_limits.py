"""The limits themselves: a hang is noticed, whatever it catches."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.limits import HangError, within


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
