from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.statistics.cases import Z
from tfsm.analysis import newcombe, wilson


def test_wilson_of_half_the_runs() -> None:
    # Centre (10 + z²/2) / (20 + z²) = 0.5; half width z sqrt(10 · 10 / 20 + z²/4) / (20 + z²)
    # = 1.95996 · sqrt(5.96036) / 23.84146 = 0.20070.
    assert wilson(10, 20) == pytest.approx((0.29930, 0.70070), abs=1e-5)


@pytest.mark.parametrize("runs", [1, 2, 20, 1_000])
def test_wilson_of_none_and_of_all(runs: int) -> None:
    # With k = 0 the centre and half of the width are z²/2 / (n + z²), with k = n it is the mirror image.
    assert wilson(0, runs) == pytest.approx((0, Z**2 / (runs + Z**2)))
    assert wilson(runs, runs) == pytest.approx((runs / (runs + Z**2), 1))


@given(st.integers(1, 200).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))), st.floats(0.01, 0.999))
def test_wilson_contains_the_share(counts: tuple[int, int], confidence: float) -> None:
    low, high = wilson(*counts, confidence)
    assert 0 <= low <= counts[0] / counts[1] <= high <= 1


def test_newcombe_of_all_against_none() -> None:
    # Both Wilson intervals reach z²/(10 + z²) = 3.84146 / 13.84146 = 0.27753 inwards and not at all outwards:
    # 1 - sqrt(2) · 0.27753 = 0.60751.
    difference = newcombe((10, 10), (0, 10))
    assert (difference.value, difference.low, difference.high) == pytest.approx((1, 0.60751, 1), abs=1e-5)


def test_newcombe_of_unequal_numbers_of_runs() -> None:
    # Wilson of 56/70: centre 57.92073 / 73.84146 = 0.78439, half width z sqrt(11.2 + 0.96036) / 73.84146 = 0.09256.
    # Wilson of 48/80: centre 49.92073 / 83.84146 = 0.59542, half width z sqrt(19.2 + 0.96036) / 83.84146 = 0.10496.
    # Limits 0.69183, 0.87695 and 0.49046, 0.70038.
    # 0.2 - sqrt(0.10817² + 0.10038²) = 0.2 - 0.14757, 0.2 + sqrt(0.07695² + 0.10954²) = 0.2 + 0.13387.
    difference = newcombe((56, 70), (48, 80))
    assert (difference.value, difference.low, difference.high) == pytest.approx((0.2, 0.05243, 0.33387), abs=2e-5)


@given(st.integers(0, 9), st.integers(0, 7))
def test_newcombe_turns_round_with_its_methods(first: int, second: int) -> None:
    one, other = newcombe((first, 9), (second, 7)), newcombe((second, 7), (first, 9))
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert -1 <= one.low <= one.value <= one.high <= 1
