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

from tests.domains.gym.made import (
    ConfigurableEnv,
    exit_process,
    fail_late,
    observe_process,
    registered_env,
    reward_luck,
    reward_sum,
)
from tests.domains.gym.playing import compute_fitness, draw_genomes, make_domain, seeds
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.gym.domain import Gym
from tfsm_domains.gym.env_pool import parse_env_options

MODULE = """
import gymnasium
from tests.domains.gym.made import ConfigurableEnv

gymnasium.register("Mine-v0", ConfigurableEnv)
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
def test_an_environment_that_cannot_be_made_is_reported(options: dict[str, Any], message: str) -> None:
    with registered_env(), pytest.raises(TfsmError, match=message) as caught:
        make_domain(**options).network()
    assert "\n" not in str(caught.value)


def test_options_reach_the_environment() -> None:
    assert parse_env_options('{"ends": 3}') == parse_env_options("{'ends': 3}") == {"ends": 3}
    with registered_env():
        assert compute_fitness(make_domain(env_options='{"ends": 3}')) == 3


@pytest.mark.parametrize("normalize", ["none", "sampled"])
def test_a_failure_in_step_is_reported(normalize: str) -> None:
    with (
        registered_env(pays=fail_late),
        pytest.raises(TfsmError, match=r"^the environment 'tests/Made-v0' failed in step\(\): RuntimeError: too late$"),
    ):
        compute_fitness(make_domain(normalize=normalize))


def test_a_failure_in_reset_is_reported() -> None:
    def shows(env: ConfigurableEnv) -> Any:
        raise ValueError("closed today")

    with registered_env(shows=shows), pytest.raises(TfsmError, match=r"failed in reset\(\): ValueError: closed today$"):
        compute_fitness(make_domain())


def test_the_error_without_gymnasium_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert compute_fitness(make_domain(env="my_worlds:Mine-v0")) == 5
    finally:
        sys.modules.pop("my_worlds", None)
        gymnasium.registry.pop("Mine-v0", None)


def test_an_outdated_version_causes_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"The environment CartPole-v0 is out of date"):
        Gym(env="CartPole-v0").network()


def test_environments_of_tfsm_are_found_by_name() -> None:
    assert make_domain(env="tfsm/HardMaze-v0", steps=2).network().input_shape[0] is None


NUMBER = spaces.Box(0.0, np.inf, (1,))


def evaluate(domain: Gym, count: int) -> Any:
    network = Network(domain.network())
    return domain.evaluate(network, draw_genomes(network, count), seeds(*range(count)))


def test_processes_give_the_same_results_bit_for_bit() -> None:
    with registered_env(acts=spaces.Box(-1.0, 1.0, (2,)), pays=reward_sum, ends=6):
        local, remote = (evaluate(make_domain(episodes=2, hold=2, vector=vector), 3) for vector in ("sync", "async"))
    for mine, theirs in zip(local[:4], remote[:4], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_processes_end_with_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfsm_domains.gym.env_pool.count_cores", lambda: 2)
    with registered_env(seen=NUMBER, shows=observe_process, ends=2):
        domain = make_domain(episodes=3, vector="async", remembered=12)
        met = {int(number) for number in np.unique(evaluate(domain, 2).experience)}
    assert len(met) == 2
    assert os.getpid() not in met
    del domain
    gc.collect()
    for number in met:
        assert _exits_soon(number)


@pytest.mark.slow
def test_a_failure_in_a_process_is_one_line_and_the_domain_still_works() -> None:
    with registered_env(pays=fail_late):
        domain = make_domain(vector="async")
        for _ in range(2):
            with pytest.raises(TfsmError, match=r"'tests/Made-v0' failed in step\(\): RuntimeError: too late$"):
                compute_fitness(domain)
        assert compute_fitness(make_domain(vector="async", steps=2)) == 0.0


def test_a_dead_process_is_reported() -> None:
    with (
        registered_env(pays=exit_process),
        pytest.raises(TfsmError, match=r"^the domain 'gym': a process that ran .* has ended \(exit code 7\)$"),
    ):
        compute_fitness(make_domain(vector="async"))


class NotPicklable:
    """Can be copied but not pickled."""

    def __call__(self, env: Any, action: Any) -> float:
        return reward_luck(env, action)

    def __deepcopy__(self, memo: Any) -> NotPicklable:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("rooted")


def test_an_environment_that_cannot_be_sent_is_named() -> None:
    with registered_env(pays=NotPicklable()):
        assert compute_fitness(make_domain()) > 0
        with pytest.raises(TfsmError, match=r"cannot be sent to another process \(.*rooted\): use --set vector=sync$"):
            compute_fitness(make_domain(vector="async"))


def _exits_soon(number: int) -> bool:
    for _ in range(100):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
