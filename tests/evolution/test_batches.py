"""Batches of children and logging intervals, compared with plain counting."""

from __future__ import annotations

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tfsm.evolution.batches import Batches, LogIntervals, plan_batches
from tfsm_plugins.selections.steady_state import Tournament
from tfsm_plugins.selections.truncation import Truncation

SIZES = st.builds(Batches, st.integers(1, 9), st.integers(1, 12), st.none() | st.integers(1, 20))


def list_batches(batches: Batches, budget: int) -> list[range]:
    """Count children into batches, one by one."""
    found: list[list[int]] = []
    for index, number in enumerate(range(batches.initial_population, budget)):
        place = index if batches.generation is None else index % batches.generation
        if place % batches.size == 0:
            found.append([])
        found[-1].append(number)
    return [range(numbers[0], numbers[-1] + 1) for numbers in found]


@given(SIZES, st.integers(0, 60))
def test_batches_agree_with_plain_counting(batches: Batches, extra: int) -> None:
    budget = batches.initial_population + extra
    expected = list_batches(batches, budget + 40)
    assert all(batches.end(number) == batch.stop for batch in expected[:-1] for number in batch)
    numbers = range(batches.initial_population, budget)
    assert batches.ends(tf.constant(list(numbers), tf.int32)).numpy().tolist() == [
        batches.end(number) for number in numbers
    ]
    within = list_batches(batches, budget)
    assert batches.count(batches.initial_population, budget) == len(within)
    for count in range(len(within)):
        assert batches.advance(batches.initial_population, count + 1, budget) == within[count].stop
    if within and batches.generation is None:
        complete = len(within[-1]) == batches.size
        assert batches.cut(budget) == (budget if complete else within[-1].start)


@given(SIZES, st.integers(1, 15), st.integers(0, 60))
def test_an_interval_ends_with_the_batch_that_reaches_a_multiple(batches: Batches, every: int, extra: int) -> None:
    until = batches.initial_population + extra
    intervals = LogIntervals(every, batches)
    expected = set()
    for batch in list_batches(batches, until + 40):
        multiples = [number for number in range(batch.start + 1, batch.stop + 1) if number % every == 0]
        expected |= set(multiples) if batches.generation is not None else {batch.stop} if multiples else set()
    found = list(intervals.until(until))
    assert found == sorted(number for number in expected if number <= until)
    assert [number for number in range(until + 1) if number in intervals] == found
    if found:
        assert intervals.after(found[0] - 1) == found[0]


def test_a_generation_is_one_batch_unless_offspring_are_given() -> None:
    truncation = Truncation(parents=4)
    assert plan_batches(truncation, 20, None) == Batches(16, 20, 16)
    assert plan_batches(truncation, 20, 3) == Batches(3, 20)
    assert plan_batches(Tournament(), 20, None) == Batches(1, 20)
    # Where the intensity changes with every child, a whole generation would not be the same as one by one.
    assert plan_batches(truncation, 20, None, adapts_to_divergence=True) == Batches(1, 20)


def test_a_wide_generation_is_divided_into_equal_portions() -> None:
    assert plan_batches(Truncation(parents=20), 320, None, lanes=4) == Batches(100, 320, 300)
