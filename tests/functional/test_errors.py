"""What is wrong is said in one message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest

import tfsm
from tests.functional.networks import linear, normal, stairs, two_inputs
from tfsm import functional as f

X, G = normal(6, 3), normal(2, 6)


@dataclass
class Unhashable:
    seen: list[int] = field(default_factory=list)

    def __call__(self, *arguments: Any) -> Any: ...


NAN, HUGE = G.copy(), G.astype(np.float64)
NAN[1, 3], HUGE[0, 0] = np.nan, 1e300

WRONG: dict[str, tuple[Callable[[keras.Model], Any], str]] = {
    "no model": (lambda m: f.mutate("model", G, X), "expected a Keras model, got str"),  # type: ignore[arg-type]
    "unbuilt": (lambda m: f.mutate(keras.Sequential([keras.layers.Dense(2)]), G, X), "is not built"),
    "width": (lambda m: f.mutate(m, G[:, :5], X), "genomes: expected [B, 6] or [6], got an array of [2, 5]"),
    "rank": (lambda m: f.outputs(m, G[None], X), "genomes: expected [B, 6] or [6], got an array of [1, 2, 6]"),
    "whole numbers": (lambda m: f.mutate(m, [[1] * 6], X), "genomes: expected floating-point numbers, got an array of"),
    "ragged": (lambda m: f.mutate(m, [[1.0], [1.0, 2.0]], X), "genomes: not an array"),
    "nan": (lambda m: f.mutate(m, NAN, X), "genomes: number 1 has NaN or infinite values"),
    "nan alone": (lambda m: f.mutate(m, NAN[1], X), "genomes: the one given has NaN or infinite values"),
    "too large": (lambda m: f.mutate(m, HUGE, X), "genomes: number 0 has NaN or infinite values, or too large ones"),
    "inputs": (lambda m: f.mutate(m, G, X[:, :2]), "takes [N, 3], the experience has [6, 2]"),
    "no inputs": (lambda m: f.outputs(m, G, X[:0]), "the experience is empty"),
    "no axis": (lambda m: f.mutate(m, G, X, each=True), "an axis for the genomes, [2, N, ...]: got [6, 3]"),
    "wrong axis": (lambda m: f.outputs(m, G, np.stack([X] * 3), each=True), "[2, N, ...]: got [3, 6, 3]"),
    "ragged each": (lambda m: f.mutate(m, G, [[1.0], [1.0, 2.0]], each=True), "the experience is not an array"),
    "one of two": (lambda m: f.outputs(two_inputs(), normal(12), normal(4, 2)), "the model takes 2 inputs"),
    "name": (lambda m: f.mutate(m, G, X, "sm-gsum"), "no mutation named 'sm-gsum', did you mean 'sm-g-sum'?"),
    "option": (lambda m: f.mutate(m, G, X, flor=1), "flor: no such option, did you mean 'floor'?"),
    "value": (lambda m: f.mutate(m, G, X, floor=-1.0), "floor=-1.0: expected a number > 0"),
    "no operator": (lambda m: f.mutate(m, G, X, 3), "mutation: expected an operator's name, or an operator, got 3"),  # type: ignore[arg-type]
    "a class": (lambda m: f.mutate(m, G, X, Unhashable), "expected an operator's name, or an operator, got <class"),  # type: ignore[arg-type]
    "unhashable": (lambda m: f.mutate(m, G, X, Unhashable()), "the operator Unhashable is not hashable"),
    "twofold": (lambda m: f.mutate(m, G, X, len, floor=1.0), "floor: options go with an operator's name"),  # type: ignore[arg-type]
    "intensity": (lambda m: f.mutate(m, G, X, intensity=-1.0), "intensity: expected a number >= 0, got -1.0"),
    "intensity in words": (lambda m: f.mutate(m, G, X, intensity="much"), "intensity: expected a number >= 0"),  # type: ignore[arg-type]
    "intensity nan": (lambda m: f.mutate(m, G, X, intensity=np.nan), "intensity: expected a number >= 0, got nan"),
    "intensities": (
        lambda m: f.mutate(m, G, X, intensity=np.ones(2)),
        "one number for all genomes, got an array",
    ),  # type: ignore[arg-type]
    "seed": (lambda m: f.mutate(m, G, X, seed=-1), "seed: expected a whole number from 0 to 2**63 - 1, got -1"),
    "broken seed": (lambda m: f.mutate(m, G, X, seed=0.5), "seed: expected a whole number from 0"),
    "seed of bool": (lambda m: f.mutate(m, G, X, seed=True), "seed: expected a whole number from 0"),
    "seeds of one": (lambda m: f.mutate(m, G[0], X, seed=[1]), "seed: expected a whole number from 0"),
    "seeds": (lambda m: f.mutate(m, G, X, seed=[1, 2, 3]), "an array of 2 of them, got an array of shape (3,)"),
    "broken seeds": (lambda m: f.mutate(m, G, X, seed=[1.0, 2.0]), "an array of 2 of them, got an array of float64"),
    "negative seeds": (lambda m: f.mutate(m, G, X, seed=[1, -2]), "seed: expected whole numbers from 0 to 2**63 - 1"),
    "large seeds": (lambda m: f.mutate(m, G, X, seed=np.array([1, 2**63], np.uint64)), "from 0 to 2**63 - 1 only"),
    "ragged seeds": (lambda m: f.mutate(m, G, X, seed=[[1], [1, 2]]), "an array of 2 of them, one for each genome"),
    "insensitive": (lambda m: f.sensitivity(m, G, X, "sm-r"), "'sm-r' measures no sensitivity: use sm-g-sum"),
    "direction": (lambda m: f.sensitivity(m, G, X, direction=np.ones(3)), "direction: expected [B, 6] or [6]"),
    "directions": (lambda m: f.sensitivity(m, G, X, direction=np.ones([3, 6])), "one for each of 2 genomes, or one"),
    "pairs": (lambda m: f.divergence(m, G, np.stack([G[0]] * 3), X), "got 2 genomes and 3 others"),
    "others": (lambda m: f.divergence(m, G, G[:, :2], X), "others: expected [B, 6] or [6], got an array of [2, 2]"),
    "scheme": (lambda m: f.initial(m, 2, scheme="xavier"), "no scheme named 'xavier'"),  # type: ignore[arg-type]
    "scale": (lambda m: f.initial(m, 2, scale=-1.0), "scale: expected a number >= 0, got -1.0"),
    "scale in words": (lambda m: f.initial(m, 2, scale="wide"), "scale: expected a number >= 0, got 'wide'"),  # type: ignore[arg-type]
    "count": (lambda m: f.initial(m, -2), "count: expected a whole number >= 0, got -2"),
    "broken count": (lambda m: f.streams(0, 2.0), "count: expected a whole number >= 0, got 2.0"),  # type: ignore[arg-type]
    "stairs": (lambda m: f.mutate(stairs(), normal(2, 8), normal(99, 3)), "the model 'stairs' is not differentiable"),
}


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return linear(2)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str, model: keras.Model) -> None:
    call, message = WRONG[name]
    with pytest.raises(tfsm.TfsmError) as caught:
        call(model)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_gradient_there_is_sm_r() -> None:
    model, x = stairs(), normal(999, 3)  # many, so that the divergence moves by small steps
    genomes = f.initial(model, 2)
    with pytest.raises(tfsm.TfsmError, match="use the mutation 'sm-r'"):
        f.sensitivity(model, genomes, x)
    children = f.mutate(model, genomes, x, "sm-r", 0.5)
    assert (f.divergence(model, genomes, children, x) > 0).all()
