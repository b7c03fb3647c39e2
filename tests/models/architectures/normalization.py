"""Normalization."""

from __future__ import annotations

from keras import layers as kl

from tests.models.architectures.case import Case, sequential

CASES: dict[str, Case] = {
    "batch normalization": sequential((3,), lambda: kl.Dense(4), lambda: kl.BatchNormalization(), ways="nn"),
    "layer normalization": sequential((3,), lambda: kl.Dense(4), lambda: kl.LayerNormalization(), ways="nn"),
    "batch normalization of pictures": sequential(
        (4, 4, 2), lambda: kl.Conv2D(3, 2), kl.BatchNormalization, kl.Flatten, lambda: kl.Dense(2), ways="nnfn"
    ),
    "batch normalization, no scale": sequential(
        (3,), lambda: kl.Dense(4), lambda: kl.BatchNormalization(scale=False), lambda: kl.Dense(2), ways="nnn"
    ),
    "layer normalization over two axes": sequential(
        (4, 3), lambda: kl.Dense(3), lambda: kl.LayerNormalization(axis=(1, 2), center=False), ways="nn"
    ),
    "group normalization": sequential(
        (4, 4, 2),
        lambda: kl.Conv2D(4, 2),
        lambda: kl.GroupNormalization(2),
        kl.Flatten,
        lambda: kl.Dense(2),
        ways="nnfn",
    ),
    "root mean square normalization": sequential((3,), lambda: kl.Dense(4), kl.RMSNormalization, ways="nn"),
    "unit normalization": sequential((3,), lambda: kl.Dense(4), kl.UnitNormalization, ways="nf"),
    "spectral normalization": sequential(
        (3,), lambda: kl.Dense(3), lambda: kl.SpectralNormalization(kl.Dense(4, "tanh")), ways="nm"
    ),
    "batch normalization of another axis": sequential(
        (3, 2), lambda: kl.Dense(2), lambda: kl.BatchNormalization(axis=1), ways="nm"
    ),
}
