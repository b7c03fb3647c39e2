"""Dense layers and what is between them."""

from __future__ import annotations

from keras import layers as kl

from tests.models.architectures.case import Case, sequential

CASES: dict[str, Case] = {
    "dense": sequential((3,), lambda: kl.Dense(5, "tanh"), lambda: kl.Dense(2, "softmax", use_bias=False), ways="nn"),
    "dense on sequences": sequential((6, 3), lambda: kl.Dense(2, "selu"), ways="n"),
    "einsum": sequential(
        (5, 3), lambda: kl.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d"), ways="n", copied=True
    ),
    "einsum, ellipsis": sequential(
        (5, 3), lambda: kl.EinsumDense("...x,xy->...y", 4, bias_axes="y"), ways="n", copied=True
    ),
    "einsum, bias in the middle": sequential(
        (5, 3), lambda: kl.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="d"), ways="n", copied=True
    ),
    "einsum, two weights": sequential((2,), lambda: kl.EinsumDense("bi,i->bi", (2,)), ways="n", copied=True),
    "dropout": sequential((3,), lambda: kl.Dense(5), lambda: kl.Dropout(0.9), lambda: kl.Dense(2), ways="nfn"),
    "noise": sequential((3,), lambda: kl.Dense(5), lambda: kl.GaussianNoise(1.0), ways="nf"),
    "prelu": sequential((3,), lambda: kl.Dense(4), kl.PReLU, lambda: kl.Dense(2), ways="nnn"),
    "prelu, shared": sequential((3, 4), lambda: kl.Dense(2), lambda: kl.PReLU(shared_axes=[1]), ways="nn"),
    "prelu, shared behind": sequential((3, 4), lambda: kl.Dense(2), lambda: kl.PReLU(shared_axes=[2]), ways="nm"),
}
