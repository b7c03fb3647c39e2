"""Line search: finds the magnitude along a direction that gives a target divergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfsm.interfaces import Tensor

MAX_MAGNITUDE = 1e6
"""Magnitudes stop here; a target that is not reached by then is out of reach."""

SEARCH_DIAGNOSTICS = ("search_steps", "unreached")
"""What a search reports about itself: its number of trials, and whether the target was out of reach."""


class LineSearchResult(NamedTuple):
    """The end of a line search; all fields are `[B]`."""

    magnitude: Tensor
    value: Tensor
    reached: Tensor
    steps: Tensor


class _Bracket(NamedTuple):
    step: Tensor
    low: Tensor  # largest magnitude known to give too small a value
    low_value: Tensor
    high: Tensor  # smallest magnitude known to give too large a value; infinite until there is one
    high_value: Tensor
    trial: Tensor
    best: Tensor
    best_value: Tensor
    steps: Tensor
    done: Tensor


@tf.autograph.experimental.do_not_convert
def line_search(
    measure: Callable[[Tensor], Tensor], target: Tensor, start: Tensor, *, tolerance: float, max_steps: int
) -> LineSearchResult:
    """Find magnitudes `[B]` with `measure(magnitude)` within `tolerance` of `target`.

    The divergence grows with the square of a small magnitude, so that one step in log-log coordinates with slope 2
    nearly hits the target. From the first step on, the solution is bracketed as soon as possible. Inside the bracket
    the search tries the log-log secant, or the middle if the secant converges too slowly; by continuity, it converges.

    Args:
        measure: from magnitudes `[B]` to values `[B]`, continuous and 0 at 0.
        target: the target value, a scalar or `[B]`.
        start: the first magnitudes to try, `[B]`.
        tolerance: the relative error that ends the search.
        max_steps: maximum number of measurements.

    Returns:
        The best magnitude, its value, whether that is within the tolerance, and the number of steps.
    """
    target = tf.broadcast_to(tf.cast(target, start.dtype), tf.shape(start))
    # A target of zero means not to move at all.
    nothing = target <= 0
    zero = tf.zeros_like(start)
    state = _Bracket(
        step=tf.constant(0),
        low=zero,
        low_value=zero,
        high=tf.fill(tf.shape(start), tf.constant(float("inf"), start.dtype)),
        high_value=zero,
        trial=start,
        best=zero,
        best_value=zero,
        steps=tf.zeros_like(start, tf.int32),
        done=nothing,
    )
    state = _Bracket(
        *tf.while_loop(
            lambda s: (s.step < max_steps) & ~tf.reduce_all(s.done),
            lambda s: (_advance(s, measure(s.trial), target, tolerance),),
            (state,),
            maximum_iterations=max_steps,
        )[0]
    )
    reached = nothing | (tf.abs(state.best_value - target) <= tolerance * target)
    return LineSearchResult(state.best, state.best_value, reached, state.steps)


def search_magnitude(
    measure: Callable[[Tensor], Tensor], parent: Tensor, target: Tensor, *, tolerance: float, max_steps: int
) -> LineSearchResult:
    """Search for magnitudes `[B]` for parents `[B, P]` at which `measure` is `target`, a scalar or `[B, 1]`."""
    targets = tf.broadcast_to(tf.reshape(tf.cast(target, parent.dtype), [-1]), tf.shape(parent)[:1])
    return line_search(measure, targets, tf.sqrt(targets), tolerance=tolerance, max_steps=max_steps)


def search_diagnostics(result: LineSearchResult) -> dict[str, Tensor]:
    """Return the diagnostics `[B]` of a line search, for the log."""
    values = (tf.cast(result.steps, tf.float32), tf.cast(~result.reached, tf.float32))
    return dict(zip(SEARCH_DIAGNOSTICS, values, strict=True))


def _advance(s: _Bracket, value: Tensor, target: Tensor, tolerance: float) -> _Bracket:
    # A value that is not finite counts as far too large.
    finite = tf.math.is_finite(value)
    value = tf.where(finite, value, tf.constant(value.dtype.max, value.dtype))
    live = ~s.done
    better = live & finite & (tf.abs(value - target) < tf.abs(s.best_value - target))
    best, best_value = tf.where(better, s.trial, s.best), tf.where(better, value, s.best_value)
    under = live & (value < target)
    over = live & (value >= target)
    low, low_value = tf.where(under, s.trial, s.low), tf.where(under, value, s.low_value)
    high, high_value = tf.where(over, s.trial, s.high), tf.where(over, value, s.high_value)
    hit = finite & (tf.abs(value - target) <= tolerance * target)
    out_of_reach = under & tf.math.is_inf(high) & (s.trial >= MAX_MAGNITUDE)
    return _Bracket(
        step=s.step + 1,
        low=low,
        low_value=low_value,
        high=high,
        high_value=high_value,
        trial=_next_trial(s, value, target, low, low_value, high, high_value),
        best=best,
        best_value=best_value,
        steps=s.steps + tf.cast(live, tf.int32),
        done=s.done | hit | out_of_reach,
    )


def _next_trial(
    s: _Bracket, value: Tensor, target: Tensor, low: Tensor, low_value: Tensor, high: Tensor, high_value: Tensor
) -> Tensor:
    tiny = tf.constant(1e-30, value.dtype)
    ratio = tf.sqrt(target / tf.maximum(value, tiny))
    unbracketed = tf.math.is_inf(high)
    # Follow the square law twice, then at least double or halve, so that a flat curve does not slow the search down.
    least = tf.where(s.step < 2, tf.constant(1.0, value.dtype), tf.constant(2.0, value.dtype))
    grown = tf.minimum(s.trial * tf.clip_by_value(ratio, least, 1e3), tf.constant(MAX_MAGNITUDE, value.dtype))
    shrunk = s.trial * tf.clip_by_value(ratio, 1e-3, 1.0 / least)
    slope = tf.math.log(tf.maximum(high_value, tiny) / tf.maximum(low_value, tiny))
    share = tf.math.log(target / tf.maximum(low_value, tiny)) / tf.where(slope > 0, slope, tf.ones_like(slope))
    # Every third step takes the middle, so that an irregular curve cannot slow the secant down.
    middle = tf.equal(s.step % 3, 2)
    share = tf.where(middle, tf.constant(0.5, value.dtype), tf.clip_by_value(share, 0.02, 0.98))
    span = tf.math.log(tf.maximum(high, tiny) / tf.maximum(low, tiny))
    inside = low * tf.exp(share * tf.where(unbracketed | (low <= 0), tf.zeros_like(span), span))
    return tf.where(unbracketed, grown, tf.where(low <= 0, shrunk, inside))
