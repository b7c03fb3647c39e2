"""Attention."""

from __future__ import annotations

from typing import Any

from keras import layers as kl

from tests.models.architectures.case import Case, functional


def transformer(x: Any) -> Any:
    x = kl.LayerNormalization()(x + kl.MultiHeadAttention(2, 2)(x, x))
    x = kl.LayerNormalization()(x + kl.Dense(4)(kl.Dense(5, "gelu")(x)))
    return kl.Dense(2)(kl.GlobalAveragePooling1D()(x))


CASES: dict[str, Case] = {
    "attention by keywords": functional((5, 3), ways="m")(lambda x: kl.MultiHeadAttention(2, 3)(query=x, value=x)),
    "multi-head attention": functional((4, 3), ways="m")(lambda x: kl.MultiHeadAttention(2, 2, dropout=0.5)(x, x)),
    "multi-head attention, causal": functional((4, 3), ways="m")(
        lambda x: kl.MultiHeadAttention(2, 2)(x, x, use_causal_mask=True)
    ),
    "multi-head attention to another input": functional((4, 3), (3, 2), ways="m")(
        lambda x, y: kl.MultiHeadAttention(2, 2)(x, y)
    ),
    "attention scores as output": functional((4, 3), ways="mfn")(
        lambda x: kl.Dense(2)(kl.Flatten()(kl.MultiHeadAttention(1, 2)(x, x, return_attention_scores=True)[1]))
    ),
    "grouped query attention": functional((4, 3), ways="m")(lambda x: kl.GroupQueryAttention(2, 4, 2)(x, x)),
    "attention without weights": functional((4, 3), ways="nnf")(
        lambda x: kl.Attention()([kl.Dense(3)(x), kl.Dense(3)(x)])
    ),
    "attention with a scale": functional((4, 3), ways="nnm")(
        lambda x: kl.Attention(use_scale=True)([kl.Dense(3)(x), kl.Dense(3)(x)])
    ),
    "additive attention": functional((4, 3), ways="nnm")(
        lambda x: kl.AdditiveAttention()([kl.Dense(3)(x), kl.Dense(3)(x)])
    ),
    "transformer": functional((4, 4), ways="mfnnnfnfn")(transformer),
}
