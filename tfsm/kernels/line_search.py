"""Line search: finds the magnitude along a direction that gives a target divergence.

`line_search` knows the divergence of each trial alone, and is the search of SM-R. `search_outputs` also knows the
outputs, predicts them at other magnitudes, and needs fewer trials.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfsm.interfaces import Tensor
from tfsm.kernels.sensitivity import divergence

MAX_MAGNITUDE = 1e6
"""Magnitudes stop here; a target that is not reached by then is out of reach."""

REACH = 30.0
"""The largest factor between two trials while the target is above, or below, all trials."""
BISECTIONS = 14
"""Halvings of the interval in which predicted outputs have the target divergence; they cost no forward pass."""
GROWTH = (1.0, 2.0)
"""Limits of the power of the magnitude with which outputs are taken to move."""
FAR_OFF = 0.4
"""A divergence whose logarithm is further than this from the target's calls for trials on part of the experience."""
PART_STEPS = 6
PART_TOLERANCE = 0.03
"""The end of a search on part of the experience."""

SEARCH_DIAGNOSTICS = ("search_steps", "unreached")
"""What a search reports about itself: its trials in forward passes, and whether the target was out of reach."""


class LineSearchResult(NamedTuple):
    """The end of a line search; all fields are `[B]`."""

    magnitude: Tensor
    value: Tensor
    reached: Tensor
    steps: Tensor


class OutputSearchResult(NamedTuple):
    """The end of a search by outputs; all fields are `[B]`."""

    magnitude: Tensor
    value: Tensor
    reached: Tensor
    steps: Tensor
    """Trials on all of the experience."""
    part_steps: Tensor
    """Trials on part of the experience."""
    growth: Tensor
    """The power of the magnitude with which the outputs moved between the last two trials; 1 if there was only one."""


class PartialOutputs(NamedTuple):
    """The outputs for some of the experiences, which cost less than those for all of them."""

    rows: Callable[[Tensor, Tensor], Tensor]
    """From magnitudes `[B]` and numbers of experiences `[B, n]` to their output rows `[B, J, K]`."""
    experiences: int
    """The number of experiences; each has equally many rows."""
    size: int
    """n"""


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
    state = _Bracket(
        *tf.while_loop(
            lambda s: (s.step < max_steps) & ~tf.reduce_all(s.done),
            lambda s: (_advance(s, measure(s.trial), target, tolerance),),
            (_begin(start, nothing),),
            maximum_iterations=max_steps,
        )[0]
    )
    return _finish(state, target, nothing, tolerance)


def search_magnitude(
    measure: Callable[[Tensor], Tensor], parent: Tensor, target: Tensor, *, tolerance: float, max_steps: int
) -> LineSearchResult:
    """Search for magnitudes `[B]` for parents `[B, P]` at which `measure` is `target`, a scalar or `[B, 1]`."""
    targets = tf.broadcast_to(tf.reshape(tf.cast(target, parent.dtype), [-1]), tf.shape(parent)[:1])
    return line_search(measure, targets, tf.sqrt(targets), tolerance=tolerance, max_steps=max_steps)


class _OutputSearch(NamedTuple):
    bracket: _Bracket
    last: Tensor  # the trial before, 0 before the first
    last_rows: Tensor  # its outputs `[B, I, K]`
    growth: Tensor
    part_steps: Tensor


@tf.autograph.experimental.do_not_convert
def search_outputs(
    outputs: Callable[[Tensor], Tensor],
    before: Tensor,
    target: Tensor,
    start: Tensor,
    *,
    tolerance: float,
    max_steps: int,
    growth: Tensor | None = None,
    part: PartialOutputs | None = None,
) -> OutputSearchResult:
    """Find magnitudes `[B]` at which the outputs are within `tolerance` of a target divergence from `before`.

    Outputs hardly bend over a step, even where the divergence is far from the square law. After the first trial each
    output is predicted by a line through its value at 0, or by the same power of the magnitude for all if one is known,
    and later by a parabola that also fits the trial before. The next trial is where the predicted outputs have the
    target divergence. Probabilities are predicted by their logits: those of a confident classifier do not move at
    first, and then all at once, while its logits move steadily.

    A trial that misses the target by far shows at least which experiences matter: in a confident classifier one or two
    of them account for the divergence. With `part`, the next trial is then searched for on those that are predicted to
    move most, while the others stay as predicted.

    Args:
        outputs: from magnitudes `[B]` to output rows `[B, I, K]`, continuous, and `before` at 0.
        before: `[B, I, K]`.
        target: the target divergence `[B]`.
        start: the first magnitudes to try, `[B]`.
        tolerance: the relative error that ends the search.
        max_steps: maximum number of trials.
        growth: the power of the magnitude `[B]` with which outputs move, from an earlier search; 1 if None.
        part: the outputs for some of the experiences; None to use trials on all of them alone.
    """
    nothing = target <= 0
    state = _OutputSearch(
        bracket=_begin(start, nothing),
        last=tf.zeros_like(start),
        last_rows=before,
        growth=tf.ones_like(start) if growth is None else growth,
        part_steps=tf.zeros_like(start, tf.int32),
    )
    end = _continue_search(state, outputs, before, target, tolerance, max_steps, part)
    found = _finish(end.bracket, target, nothing, tolerance)
    return OutputSearchResult(*found, end.part_steps, end.growth)


def search_diagnostics(
    result: LineSearchResult | OutputSearchResult, passes: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the diagnostics `[B]` of a line search, for the log.

    Args:
        result: the end of the search.
        passes: its trials `[B]` in forward passes; their number if None.
    """
    passes = tf.cast(result.steps, tf.float32) if passes is None else passes
    values = (passes, tf.cast(~result.reached, tf.float32))
    return dict(zip(SEARCH_DIAGNOSTICS, values, strict=True))


def _begin(start: Tensor, done: Tensor) -> _Bracket:
    zero = tf.zeros_like(start)
    return _Bracket(
        step=tf.constant(0),
        low=zero,
        low_value=zero,
        high=tf.fill(tf.shape(start), tf.constant(float("inf"), start.dtype)),
        high_value=zero,
        trial=start,
        best=zero,
        best_value=zero,
        steps=tf.zeros_like(start, tf.int32),
        done=done,
    )


def _finish(s: _Bracket, target: Tensor, nothing: Tensor, tolerance: float) -> LineSearchResult:
    reached = nothing | (tf.abs(s.best_value - target) <= tolerance * target)
    return LineSearchResult(s.best, s.best_value, reached, s.steps)


def _advance(s: _Bracket, value: Tensor, target: Tensor, tolerance: float) -> _Bracket:
    narrowed = _narrow(s, value, target, tolerance)
    value = tf.where(tf.math.is_finite(value), value, tf.constant(value.dtype.max, value.dtype))
    return narrowed._replace(trial=_next_trial(s, narrowed, value, target))


def _narrow(s: _Bracket, value: Tensor, target: Tensor, tolerance: float) -> _Bracket:
    """Return the bracket after the value of its trial, without the next trial."""
    # A value that is not finite counts as far too large.
    finite = tf.math.is_finite(value)
    value = tf.where(finite, value, tf.constant(value.dtype.max, value.dtype))
    live = ~s.done
    better = live & finite & (tf.abs(value - target) < tf.abs(s.best_value - target))
    under = live & (value < target)
    over = live & (value >= target)
    high = tf.where(over, s.trial, s.high)
    hit = finite & (tf.abs(value - target) <= tolerance * target)
    out_of_reach = under & tf.math.is_inf(high) & (s.trial >= MAX_MAGNITUDE)
    return _Bracket(
        step=s.step + 1,
        low=tf.where(under, s.trial, s.low),
        low_value=tf.where(under, value, s.low_value),
        high=high,
        high_value=tf.where(over, value, s.high_value),
        trial=s.trial,
        best=tf.where(better, s.trial, s.best),
        best_value=tf.where(better, value, s.best_value),
        steps=s.steps + tf.cast(live, tf.int32),
        done=s.done | hit | out_of_reach,
    )


def _next_trial(s: _Bracket, narrowed: _Bracket, value: Tensor, target: Tensor) -> Tensor:
    low, low_value, high, high_value = narrowed.low, narrowed.low_value, narrowed.high, narrowed.high_value
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


def _continue_search(
    state: _OutputSearch,
    outputs: Callable[[Tensor], Tensor],
    before: Tensor,
    target: Tensor,
    tolerance: float,
    max_steps: int,
    part: PartialOutputs | None,
) -> _OutputSearch:
    def advance(s: _OutputSearch) -> tuple[_OutputSearch]:
        rows = tf.ensure_shape(outputs(s.bracket.trial), before.shape)
        value = divergence(before, rows)
        bracket = _narrow(s.bracket, value, target, tolerance)
        predict, growth = _fit_outputs(s, before, rows)
        bracket = bracket._replace(trial=_predict_trial(s.bracket, bracket, target, before, rows, predict))
        growth = tf.where(s.bracket.done | (s.last <= 0), s.growth, growth)
        following = s._replace(bracket=bracket, last=s.bracket.trial, last_rows=rows, growth=growth)
        return (following if part is None else _refine_trial(following, value, target, before, predict, part),)

    (end,) = tf.while_loop(
        lambda s: (s.bracket.step < max_steps) & ~tf.reduce_all(s.bracket.done),
        advance,
        (state,),
        maximum_iterations=max_steps,
    )
    return _OutputSearch(_Bracket(*end[0]), *end[1:])


def _predict_trial(
    s: _Bracket,
    narrowed: _Bracket,
    target: Tensor,
    before: Tensor,
    rows: Tensor,
    predict: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return the next magnitudes to try: those at which the predicted outputs have the target divergence."""
    low, high = narrowed.low, narrowed.high
    bounded_below, bounded_above = low > 0, ~tf.math.is_inf(high)
    lower = tf.where(bounded_below, low, s.trial / REACH)
    upper = tf.where(bounded_above, high, tf.minimum(s.trial * REACH, tf.constant(MAX_MAGNITUDE, s.trial.dtype)))
    finite = tf.reduce_all(tf.math.is_finite(rows), axis=[1, 2])
    log_low, log_high = tf.math.log(lower), tf.math.log(upper)
    for _ in range(BISECTIONS):
        middle = (log_low + log_high) / 2.0
        under = divergence(before, predict(tf.exp(middle))) < target
        log_low, log_high = tf.where(under, middle, log_low), tf.where(under, log_high, middle)
    span = tf.math.log(upper / lower)
    share = ((log_low + log_high) / 2.0 - tf.math.log(lower)) / tf.where(span > 0, span, tf.ones_like(span))
    bracketed = bounded_below & bounded_above
    share = tf.where(bracketed, tf.clip_by_value(share, 0.03, 0.97), share)
    # From the fifth trial on every other one takes the middle, so that outputs that jump cannot slow the search down.
    middle_next = (s.step >= 4) & tf.equal(s.step % 2, 0)
    half = tf.constant(0.5, share.dtype)
    share = tf.where(bracketed & (middle_next | ~finite), half, share)
    # From then on the others also leave a plateau, by at least a factor of 2, then 4, and so on up to `REACH`.
    leap = tf.minimum(tf.pow(tf.constant(2.0, share.dtype), tf.cast(s.step - 3, share.dtype)), REACH)
    leap = tf.where(s.step >= 4, tf.math.log(leap) / math.log(REACH), tf.zeros_like(leap))
    share = tf.where(bounded_above, share, tf.maximum(share, leap))
    share = tf.where(bounded_below, share, tf.minimum(share, 1.0 - leap))
    # Outputs that are not finite predict nothing.
    share = tf.where(bracketed | finite, share, tf.zeros_like(share))
    trial = lower * tf.exp(share * span)
    return tf.where(bounded_above, trial, tf.minimum(trial, tf.constant(MAX_MAGNITUDE, trial.dtype)))


def _fit_outputs(s: _OutputSearch, before: Tensor, rows: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return what predicts rows `[B, I, K]` from magnitudes `[B]`, and their growth `[B]` since the trial before."""
    now, last = s.bracket.trial, s.last
    rows, last_rows = (tf.where(tf.math.is_finite(x), x, before) for x in (rows, s.last_rows))
    to_logits, from_logits = _choose_scale(before, rows, last_rows)
    origin = to_logits(before)
    move, last_move = to_logits(rows) - origin, to_logits(last_rows) - origin  # [B, I, K]
    slope = _divide(move, now)
    bend = tf.where(_per_row(last > 0), _divide(slope - _divide(last_move, last), now - last), tf.zeros_like(slope))
    straight = slope - bend * _per_row(now)
    power = tf.where(last > 0, tf.zeros_like(now), s.growth - 1.0)

    def predict(magnitude: Tensor) -> Tensor:
        factor = magnitude * tf.pow(tf.math.divide_no_nan(magnitude, now), power)
        return from_logits(origin + (straight + bend * _per_row(magnitude)) * _per_row(factor))

    length, last_length = (tf.sqrt(tf.reduce_sum(tf.square(x), axis=[1, 2])) for x in (move, last_move))
    growth = tf.math.log(length / last_length) / tf.math.log(now / last)
    growth = tf.where(tf.math.is_finite(growth), growth, tf.ones_like(growth))
    return predict, tf.clip_by_value(growth, *GROWTH)


def _refine_trial(
    s: _OutputSearch,
    value: Tensor,
    target: Tensor,
    before: Tensor,
    predict: Callable[[Tensor], Tensor],
    part: PartialOutputs,
) -> _OutputSearch:
    """Return the search with better magnitudes to try where the divergence of the last trial was far off."""
    far = ~s.bracket.done & tf.math.is_finite(value) & (tf.abs(tf.math.log(value / target)) > FAR_OFF)
    lanes, (rows, outputs) = before.shape[0] or tf.shape(before)[0], before.shape[1:]
    grouped = [lanes, part.experiences, rows // part.experiences * outputs]
    moved = tf.square(tf.reshape(predict(s.bracket.trial) - before, grouped))
    _, chosen = tf.math.top_k(tf.reduce_sum(moved, axis=-1), part.size)  # [B, n]
    place = tf.stack([tf.broadcast_to(tf.range(lanes)[:, None], tf.shape(chosen)), chosen], axis=-1)

    def rows_of(magnitude: Tensor) -> Tensor:
        measured = tf.reshape(part.rows(magnitude, chosen), [lanes, part.size, grouped[-1]])
        others = tf.reshape(predict(magnitude), grouped)
        return tf.reshape(tf.tensor_scatter_nd_update(others, place, measured), [lanes, rows, outputs])

    bracket = _begin(s.bracket.trial, ~far)._replace(low=s.bracket.low, high=s.bracket.high)
    start = s._replace(bracket=bracket)
    end = _continue_search(start, rows_of, before, target, PART_TOLERANCE, PART_STEPS, None).bracket
    trial = tf.where(end.best > 0, end.best, s.bracket.trial)
    return s._replace(bracket=s.bracket._replace(trial=trial), part_steps=s.part_steps + end.steps)


def _choose_scale(*rows: Tensor) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return functions from outputs `[B, I, K]` to the scale on which to predict them, and back.

    Logits for probabilities: rows that add up to 1, or numbers between 0 and 1. Anything else is taken as it is. This
    is decided for each genome by all of its rows.
    """
    unit = functools.reduce(tf.logical_and, [tf.reduce_all((x >= 0) & (x <= 1), axis=[1, 2]) for x in rows])
    one = [tf.reduce_all(tf.abs(tf.reduce_sum(x, axis=-1) - 1.0) < 1e-3, axis=1) for x in rows]
    several = rows[0].shape[-1] > 1
    simplex = _per_row(unit & functools.reduce(tf.logical_and, one)) if several else tf.constant(False)
    unit = _per_row(unit)

    def to_logits(x: Tensor) -> Tensor:
        kept = tf.clip_by_value(x, 1e-7, 1.0 - 1e-7)
        logs = tf.math.log(tf.maximum(x, 1e-30))
        return tf.where(simplex, logs, tf.where(unit, tf.math.log(kept / (1.0 - kept)), x))

    def from_logits(u: Tensor) -> Tensor:
        return tf.where(simplex, tf.nn.softmax(u), tf.where(unit, tf.sigmoid(u), u))

    return to_logits, from_logits


def _divide(change: Tensor, magnitude: Tensor) -> Tensor:
    return tf.math.divide_no_nan(change, _per_row(magnitude))


def _per_row(x: Tensor) -> Tensor:
    return x[:, None, None]
