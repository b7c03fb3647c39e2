"""Whoever asks a command to end gets everything kept, and told how to go on."""

from __future__ import annotations

import pytest

from tests.faults.bench import Bench
from tests.faults.lab import Lab
from tests.faults.signals import WAYS, signals
from tests.faults.trial import assert_nothing_lost


@pytest.mark.parametrize(
    "way", [way if way == "SIGTERM" else pytest.param(way, marks=pytest.mark.slow) for way in WAYS]
)
def test_a_signal(lab: Lab, bench: Bench, way: str) -> None:
    assert_nothing_lost(signals(lab, bench, [way], by_command=way == "SIGINT"))
