"""Environments in processes of their own do what they do here."""

from __future__ import annotations

import gc
import os
import time
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import fails, leaves, luck, made, process, total
from tests.domains.gym.playing import drawn, fitness, gym, seeds
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.gym.domain import Gym

NUMBER = spaces.Box(0.0, np.inf, (1,))


def evaluated(domain: Gym, count: int) -> Any:
    network = Network(domain.network())
    return domain.evaluate(network, drawn(network, count), seeds(*range(count)))


def test_the_results_are_the_same_bit_for_bit() -> None:
    with made(acts=spaces.Box(-1.0, 1.0, (2,)), pays=total, ends=6):
        here, there = (evaluated(gym(episodes=2, hold=2, vector=vector), 3) for vector in ("sync", "async"))
    for mine, theirs in zip(here[:4], there[:4], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_they_are_other_processes_which_end_with_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfsm_domains.gym.env_pool._cores", lambda: 2)
    with made(seen=NUMBER, shows=process, ends=2):
        domain = gym(episodes=3, vector="async", remembered=12)
        met = {int(number) for number in np.unique(evaluated(domain, 2).experience)}
    assert len(met) == 2
    assert os.getpid() not in met
    del domain
    gc.collect()
    for number in met:
        assert _is_gone(number)


def test_a_failure_is_told_in_one_line_and_the_domain_can_go_on() -> None:
    with made(pays=fails):
        domain = gym(vector="async")
        for _ in range(2):
            with pytest.raises(TfsmError, match=r"'tests/Made-v0' failed in step\(\): RuntimeError: too late$"):
                fitness(domain)
        assert fitness(gym(vector="async", steps=2)) == 0.0


def test_a_process_that_ends_is_told_of() -> None:
    with (
        made(pays=leaves),
        pytest.raises(TfsmError, match=r"^the domain 'gym': a process that ran .* has ended \(exit code 7\)$"),
    ):
        fitness(gym(vector="async"))


class Rooted:
    """Cannot be pickled, though it can be copied."""

    def __call__(self, env: Any, action: Any) -> float:
        return luck(env, action)

    def __deepcopy__(self, memo: Any) -> Rooted:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("rooted")


def test_an_environment_that_cannot_be_sent_is_named() -> None:
    with made(pays=Rooted()):
        assert fitness(gym()) > 0
        with pytest.raises(TfsmError, match=r"cannot be sent to another process \(.*rooted\): use --set vector=sync$"):
            fitness(gym(vector="async"))


def _is_gone(number: int) -> bool:
    for _ in range(100):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
