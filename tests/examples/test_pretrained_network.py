"""A trained network survives safe mutations, as shown in the README's figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples import pretrained_network as example


@pytest.fixture(scope="module")
def mutants() -> example.Mutants:
    return example.Mutants(example.train(epochs=30), example.INTENSITY)


@pytest.mark.slow
def test_safe_mutations_keep_the_accuracy_that_plain_noise_destroys(
    mutants: example.Mutants,
) -> None:
    import tfsm

    parent = tfsm.flatten(mutants.model)
    assert mutants.accuracy(parent[None])[0] > 0.95
    safe, plain = mutants.retained_accuracy()
    assert safe >= 0.95
    assert plain < 0.5  # chance is a third
    lengths = [np.sqrt(((own - parent) ** 2).sum(axis=1).mean()) for own in (mutants.safe, mutants.plain)]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.05)


@pytest.mark.slow
def test_the_figure_is_drawn(mutants: example.Mutants, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    example.draw(mutants.model, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 20_000
