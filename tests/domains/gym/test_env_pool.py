"""Making environments, one-line error messages, and environments in processes."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import Made, fails, leaves, luck, made, process, total
from tests.domains.gym.playing import drawn, fitness, gym, seeds
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.gym.domain import Gym
from tfsm_domains.gym.env_pool import parse_env_options

MODULE = """
import gymnasium
from tests.domains.gym.made import Made

gymnasium.register("Mine-v0", Made)
"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"env": "CartPol-v1"}, "the environment 'CartPol-v1' cannot be made: .* Did you mean: `CartPole`"),
        ({"env": "CartPole-v9"}, "cannot be made: .*versioned environments"),
        ({"env": "no_such_module:Mine-v0"}, "cannot be made: ModuleNotFoundError: No module named 'no_such_module'"),
        ({"env": ""}, "the environment '' cannot be made: Malformed environment ID"),
        ({"env_options": '{"colour": 1}'}, "cannot be made: TypeError: .*unexpected keyword argument 'colour'"),
        ({"env_options": "8x8"}, 'env_options=8x8: expected keyword arguments as JSON, such as {"map_name": "8x8"}'),
        ({"env_options": "[1]"}, r"env_options=\[1\]: expected keyword arguments"),
    ],
)
def test_what_cannot_be_made(options: dict[str, Any], message: str) -> None:
    with made(), pytest.raises(TfsmError, match=message) as caught:
        gym(**options).network()
    assert "\n" not in str(caught.value)


def test_options_reach_the_environment() -> None:
    assert parse_env_options('{"ends": 3}') == parse_env_options("{'ends': 3}") == {"ends": 3}
    with made():
        assert fitness(gym(env_options='{"ends": 3}')) == 3


@pytest.mark.parametrize("normalize", ["none", "sampled"])
def test_an_environment_that_fails_in_a_step(normalize: str) -> None:
    with (
        made(pays=fails),
        pytest.raises(TfsmError, match=r"^the environment 'tests/Made-v0' failed in step\(\): RuntimeError: too late$"),
    ):
        fitness(gym(normalize=normalize))


def test_an_environment_that_fails_in_reset() -> None:
    def shows(env: Made) -> Any:
        raise ValueError("closed today")

    with made(shows=shows), pytest.raises(TfsmError, match=r"failed in reset\(\): ValueError: closed today$"):
        fitness(gym())


def test_gymnasium_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    domain = Gym(env="CartPole-v1")
    with pytest.raises(TfsmError, match=r"^the domain 'gym' needs gymnasium: pip install 'tfsm\[gym\]'$"):
        domain.network()


def test_a_module_in_the_working_directory_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    (tmp_path / "my_worlds.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        assert fitness(gym(env="my_worlds:Mine-v0")) == 5
    finally:
        sys.modules.pop("my_worlds", None)
        gymnasium.registry.pop("Mine-v0", None)


def test_a_version_that_is_out_of_date_is_told_of() -> None:
    with pytest.warns(UserWarning, match=r"The environment CartPole-v0 is out of date"):
        Gym(env="CartPole-v0").network()


def test_environments_of_tfsm_are_found_by_name() -> None:
    assert gym(env="tfsm/HardMaze-v0", steps=2).network().input_shape[0] is None


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
    monkeypatch.setattr("tfsm_domains.gym.env_pool.count_cores", lambda: 2)
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
