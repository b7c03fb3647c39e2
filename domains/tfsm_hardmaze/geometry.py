"""Plane geometry of points, segments and rays, as tensor code over leading axes."""

from __future__ import annotations

import tensorflow as tf

from tfsm.contracts import Tensor


def clearance(points: Tensor, walls: Tensor) -> Tensor:
    """Return the distance `[...]` of points `[..., 2]` from the nearest of walls `[W, 4]`."""
    start, along = walls[:, :2], walls[:, 2:] - walls[:, :2]
    away = points[..., None, :] - start  # [..., W, 2]
    fraction = tf.reduce_sum(away * along, axis=-1) / tf.reduce_sum(along * along, axis=-1)
    nearest = away - tf.clip_by_value(fraction, 0.0, 1.0)[..., None] * along
    return tf.sqrt(tf.reduce_min(tf.reduce_sum(nearest * nearest, axis=-1), axis=-1))


def ray_lengths(origins: Tensor, angles: Tensor, walls: Tensor, limit: float) -> Tensor:
    """Return how far rays from `[..., 2]` at angles `[..., R]` (radians) go before walls `[W, 4]`: `[..., R]`."""
    start, along = walls[:, :2] - origins[..., None, :], walls[:, 2:] - walls[:, :2]  # [..., W, 2]
    # Each ray is a line through the origin: x * uy - y * ux tells on which side of it a point lies.
    ux, uy = tf.cos(angles)[..., None], tf.sin(angles)[..., None]  # [..., R, 1]
    slope = ux * along[:, 1] - uy * along[:, 0]  # [..., R, W]
    side = start[..., None, :, 0] * uy - start[..., None, :, 1] * ux
    reach = (start[..., 0] * along[:, 1] - start[..., 1] * along[:, 0])[..., None, :]
    # Divided only once it is known that the ray meets the wall, between its ends and ahead.
    sign = tf.sign(slope)
    meets = (side * sign >= 0) & (side * sign <= slope * sign) & (reach * sign >= 0) & (sign != 0)
    lengths = tf.where(meets, reach / tf.where(meets, slope, 1.0), limit)
    return tf.minimum(tf.reduce_min(lengths, axis=-1), limit)
