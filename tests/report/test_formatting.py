"""Numbers for people, and how fast a count grows."""

from __future__ import annotations

import pytest

from tfsm.report.formatting import RateMeter


class TestRateMeter:
    def test_it_looks_back_for_some_seconds(self) -> None:
        meter = RateMeter(seconds=10)
        assert [meter.add(t, 100 * t) for t in range(3)] == [None, 100, 100]
        for t in range(3, 15):
            meter.add(t, 200 + 50 * (t - 2))
        assert meter.add(15, 850) == 50

    def test_a_slow_count_is_measured_between_its_last_changes(self) -> None:
        meter = RateMeter(seconds=10)
        rates = [meter.add(t, 7 * (t // 100)) for t in range(0, 450, 50)]
        assert rates[0] is None
        assert rates[-1] == pytest.approx(0.07)

    def test_it_starts_again_when_the_count_falls(self) -> None:
        meter = RateMeter()
        meter.add(0, 100)
        meter.add(1, 200)
        assert meter.add(2, 150) is None
        assert meter.add(3, 160) == 10
