"""Nothing that matters goes by the time of day."""

from __future__ import annotations

import pytest

from tests.faults.bench import Bench
from tests.faults.clocks import clocks, clocks_with_cadence
from tests.faults.trial import assert_nothing_lost


@pytest.mark.slow
def test_checkpoints_by_a_clock_that_goes_backwards(bench: Bench) -> None:
    assert_nothing_lost(clocks_with_cadence(bench))


def test_a_clock_that_goes_backwards(bench: Bench) -> None:
    assert_nothing_lost(clocks(bench))
