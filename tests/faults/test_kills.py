"""Kill -9 of a command loses nothing, whenever it comes."""

from __future__ import annotations

import pytest

from tests.faults.bench import Bench
from tests.faults.kills import kills, moments
from tests.faults.lab import Lab
from tests.faults.trial import assert_nothing_lost


def test_one_moment(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(kills(lab, bench, [("evolving", 0.5)], seed=5))


@pytest.mark.slow
def test_fifty_moments(lab: Lab, bench: Bench) -> None:
    assert assert_nothing_lost(kills(lab, bench, moments(50))) == 50
