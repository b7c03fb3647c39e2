"""Convolutions."""

from __future__ import annotations

import keras
from keras import layers as kl

from tests.models.architectures.case import Case, N, in_policy, sequential
from tests.models.plain import drawn


def channels_first() -> keras.Model:
    return keras.Sequential([keras.Input((2, 5, 5)), kl.Conv2D(2, 2, data_format="channels_first")])


def channels_last() -> keras.Model:
    return keras.Sequential([keras.Input((2, 5, 5)), kl.Permute((2, 3, 1)), kl.Conv2D(2, 2), kl.Permute((3, 1, 2))])


CASES: dict[str, Case] = {
    "conv1d": sequential((9, 3), lambda: kl.Conv1D(4, 3, strides=2, activation="relu"), ways="n"),
    "conv1d, same": sequential((9, 3), lambda: kl.Conv1D(4, 4, padding="same", strides=3), ways="n"),
    "conv1d, causal": sequential((9, 3), lambda: kl.Conv1D(4, 3, padding="causal", dilation_rate=2), ways="n"),
    "conv1d, causal and strided": sequential((9, 3), lambda: kl.Conv1D(4, 3, padding="causal", strides=2), ways="n"),
    "conv1d, grouped": sequential((9, 4), lambda: kl.Conv1D(4, 3, groups=2), ways="n", copied=True),
    "conv2d": sequential((7, 6, 2), lambda: kl.Conv2D(3, 3), lambda: kl.Flatten(), lambda: kl.Dense(2), ways="nfn"),
    "conv2d, same, strided": sequential((7, 6, 2), lambda: kl.Conv2D(3, (5, 2), (2, 3), padding="same"), ways="n"),
    "conv2d, even window": sequential((6, 6, 2), lambda: kl.Conv2D(3, 2, padding="same"), ways="n"),
    "conv2d, dilated": sequential((8, 7, 2), lambda: kl.Conv2D(3, 2, dilation_rate=(3, 2)), ways="n"),
    "conv2d, dilated, same": sequential(
        (8, 7, 2), lambda: kl.Conv2D(3, 3, dilation_rate=2, padding="same", use_bias=False), ways="n"
    ),
    "conv2d, stride beyond window": sequential((9, 9, 1), lambda: kl.Conv2D(2, 2, 3, padding="same"), ways="n"),
    "conv2d, pooled": sequential(
        (8, 8, 1), lambda: kl.Conv2D(3, 3), lambda: kl.MaxPooling2D(), lambda: kl.GlobalAveragePooling2D(), ways="nff"
    ),
    "conv3d": sequential((4, 5, 4, 2), lambda: kl.Conv3D(2, 2, strides=(1, 2, 1), padding="same"), ways="n"),
    "depthwise": sequential((6, 6, 2), lambda: kl.DepthwiseConv2D(3), ways="m"),
    "conv2d, grouped": sequential((5, 5, 4), lambda: kl.Conv2D(4, 3, groups=2), ways="n", copied=True),
    # Keras itself convolves these in float32 only on a processor.
    "conv2d, channels first": Case(
        in_policy("float32", channels_first), [drawn(N, 2, 5, 5)], "n", exact=channels_last, tolerance=1e-4
    ),
    "depthwise, several filters": sequential(
        (5, 6, 2),
        lambda: kl.DepthwiseConv2D((3, 2), strides=2, padding="same", depth_multiplier=2, activation="relu"),
        ways="m",
    ),
    "depthwise 1d": sequential((8, 3), lambda: kl.DepthwiseConv1D(3, dilation_rate=2, use_bias=False), ways="m"),
    "separable 1d": sequential((8, 3), lambda: kl.SeparableConv1D(4, 3), ways="m"),
    "separable 2d": sequential(
        (5, 5, 2), lambda: kl.SeparableConv2D(3, 2, activation="tanh"), kl.GlobalAveragePooling2D, ways="mf"
    ),
    "transposed 1d": sequential((4, 3), lambda: kl.Conv1DTranspose(2, 3, strides=2), ways="m"),
    "transposed 2d": sequential((3, 3, 2), lambda: kl.Conv2DTranspose(2, 3, strides=2), ways="m"),
    "transposed 3d": sequential((2, 3, 2, 2), lambda: kl.Conv3DTranspose(2, 2), ways="m"),
}
