from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import trained_networks
from benchmarks.trained_networks import RECIPES, Case, Data, load_case, majority, recall

WEIGHTS = {"cnn": 769_802, "residual": 210_922, "gru": 163_080, "transformer": 126_000, "regression": 399_873}


@pytest.mark.parametrize("name", RECIPES)
def test_networks_have_100_000_to_5_million_weights(name: str) -> None:
    count = RECIPES[name].build().count_params()
    assert 100_000 <= count <= 5_000_000
    assert count == pytest.approx(WEIGHTS[name], rel=0.02)


def test_generated_sequences_have_the_right_answers() -> None:
    data = recall()
    for x, y in zip(data.x[:50], data.y, strict=False):
        place = list(x).index(0)
        assert x[place + 1] == y
    data = majority()
    for x, y in zip(data.x[:50], data.y, strict=False):
        counts = np.bincount(x, minlength=6)
        assert counts[y] > np.delete(counts, y).max()


def test_scores_are_accuracy_or_explained_variance() -> None:
    x, labels = np.zeros((4, 1)), np.array([0, 1, 1, 0])
    right = np.eye(2)[labels]
    classifier = Case("c", None, Data(x, labels, x, labels))
    np.testing.assert_allclose(classifier.score(np.stack([right, 1 - right, right[::-1]])), [1.0, 0.0, 1.0])
    y = np.array([1.0, 2.0, 3.0, 4.0])
    regression = Case("r", None, Data(x, y, x, y))
    np.testing.assert_allclose(regression.score(np.stack([y[:, None], np.full((4, 1), y.mean())])), [1.0, 0.0])


def test_a_network_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(trained_networks, "train", lambda *arguments, **keywords: calls.append(1))
    monkeypatch.setitem(RECIPES, "gru", trained_networks.Recipe(recall, RECIPES["gru"].build, epochs=1))
    first, again = (load_case("gru", tmp_path) for _ in range(2))
    assert calls == [1]
    for mine, theirs in zip(first.model.get_weights(), again.model.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
