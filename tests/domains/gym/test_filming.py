"""Films show what Gymnasium draws, frame by frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.domains.gym.made import Made, made
from tests.domains.gym.playing import drawn, gym, seeds
from tfsm.errors import TfsmError
from tfsm.interfaces import Film, Filmed
from tfsm.models.network import Network


def filmed(domain: Any) -> Film:
    network = Network(domain.network())
    return domain.film(network, drawn(network, 2), seeds(1, 2))


@pytest.mark.parametrize("hold", [1, 3])
def test_there_is_a_picture_of_the_beginning_and_of_every_step(hold: int) -> None:
    with made():
        domain = gym(hold=hold, vector="async")
        film = filmed(domain)
    assert isinstance(domain, Filmed)
    assert film.rate == 7
    assert [int(film.frame(i).max()) for i in range(len(film))] == [0, 1, 2, 3, 4, 5]
    assert film.frame(0).shape[0] % 2 == film.frame(0).shape[1] % 2 == 0


def test_it_is_the_first_episode_of_the_first_genomes_evaluation() -> None:
    def draws(env: Made) -> np.ndarray:
        return np.full((4, 4, 3), int(250 * env.luck), np.uint8)

    with made(draws=draws, pays=lambda env, action: env.luck, ends=1):
        domain = gym()
        network = Network(domain.network())
        film = domain.film(network, drawn(network, 2), seeds(5, 6))
        expected = int(250 * domain.evaluate(network, drawn(network, 1), seeds(5)).fitness[0])
    assert abs(int(film.frame(0).max()) - expected) <= 1


def broken(env: Made) -> Any:
    raise RuntimeError("pygame is not installed")


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (lambda env: np.zeros((4, 4)), r"it draws arrays of shape \(4, 4\), expected \[height, width, 3\]$"),
        (lambda env: None, r"it draws arrays of shape \(\), expected"),
        (broken, r"RuntimeError: pygame is not installed: pip install 'tfsm\[replay\]'$"),
    ],
)
def test_what_cannot_be_filmed(draws: Any, message: str) -> None:
    with (
        made(draws=draws),
        pytest.raises(TfsmError, match=f"^the environment 'tests/Made-v0' cannot be filmed: {message}"),
    ):
        filmed(gym())


def test_an_environment_without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Made, "metadata", {"render_modes": ["ansi"]})
    with made(), pytest.raises(TfsmError, match=r"cannot be filmed: it has no pictures"):
        filmed(gym())


def test_a_real_one() -> None:
    pytest.importorskip("pygame")
    film = filmed(gym(env="CartPole-v1", steps=5))
    assert 2 <= len(film) <= 6
    picture = film.frame(0)
    assert (picture == 0).all(axis=-1).sum() > 500  # the cart is black
    assert (picture == 255).all(axis=-1).mean() > 0.8  # before a white background
    assert film.still().shape[0] > 4 * 400
