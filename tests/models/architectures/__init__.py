"""Models of all kinds with inputs, and how each layer must run; one file per family."""

from __future__ import annotations

from tests.models.architectures import (
    attention,
    convolutional_lstm,
    convolutions,
    custom,
    dense,
    embeddings,
    frozen,
    graphs,
    masks,
    normalization,
    precision,
    preprocessing,
    recurrent,
    stairs,
)
from tests.models.architectures.case import Case, N
from tests.models.architectures.custom import Subclassed, subclassed

__all__ = ["CASES", "FAMILIES", "QUICK", "Case", "N", "Subclassed", "subclassed"]

FAMILIES: dict[str, dict[str, Case]] = {
    "Dense": dense.CASES,
    "Convolutions": convolutions.CASES,
    "Recurrent": recurrent.CASES,
    "Convolutional LSTMs": convolutional_lstm.CASES,
    "Embeddings": embeddings.CASES,
    "Normalization": normalization.CASES,
    "Attention": attention.CASES,
    "Graphs of layers": graphs.CASES,
    "Your own classes": custom.CASES,
    "Masks": masks.CASES,
    "Partly frozen": frozen.CASES,
    "Precision": precision.CASES,
    "Preprocessing": preprocessing.CASES,
    "No gradient": stairs.CASES,
}

CASES: dict[str, Case] = {name: case for cases in FAMILIES.values() for name, case in cases.items()}

QUICK = (
    "dense",
    "conv1d",
    "conv2d, pooled",
    "simple rnn",
    "stateful simple rnn",
    "conv lstm",
    "embedding",
    "batch normalization",
    "attention without weights",
    "two inputs",
    "two outputs",
    "shared layer",
    "nested",
    "subclassed",
    "custom layer",
    "custom layer that counts",
    "frozen layers",
    "mixed_float16",
    "hashing",
    "rounded",
)
"""Those on which every test run holds all operators: some of each family; the slow tests hold them on all."""
