"""Environments in processes."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.domains.gym.made import (
    NAME,
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
from tfsm_domains.gym.env_pool import RenderedEnv
from tfsm_domains.gym.environment import EnvConfig, make_env
from tfsm_domains.gym.rollout import MIN_DIVIDED, SpreadRecorder

NUMBER = spaces.Box(0.0, np.inf, (1,))


def evaluate(domain: Gym, count: int) -> Any:
    network = Network(domain.network())
    return domain.evaluate(network, draw_genomes(network, count), seeds(*range(count)))


def test_processes_give_the_same_results_bit_for_bit() -> None:
    with registered_env(acts=spaces.Box(-1.0, 1.0, (2,)), pays=reward_sum, ends=6):
        local, remote = (evaluate(make_domain(episodes=2, hold=2, vector=vector), 3) for vector in ("sync", "async"))
    for mine, theirs in zip(local[:4], remote[:4], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_processes_serve_episodes_of_any_length_and_number() -> None:
    domains = [make_domain(env="CartPole-v1", episodes=2, vector=vector) for vector in ("sync", "async")]
    for count in (1, 4, 2):  # more environments need more memory
        local, remote = (evaluate(domain, count) for domain in domains)
        assert count < 4 or len(np.unique(local.behavior[:, 1])) > 1, "episodes differ in length"
        for mine, theirs in zip(local[:4], remote[:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_parts_that_take_turns_give_the_same_results_bit_for_bit(recurrent: str) -> None:
    options = {"env": "CartPole-v1", "episodes": 3, "recurrent": recurrent, "steps": 60}
    local, remote = (evaluate(make_domain(vector=vector, **options), 7) for vector in ("sync", "async"))
    assert MIN_DIVIDED <= 7 * 3
    assert len(np.unique(local.behavior[:, 1])) > 3, "episodes differ in length"
    for mine, theirs in zip(local[:4], remote[:4], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_answers_to_an_interrupted_step_are_not_taken_for_those_of_the_next_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    domain = make_domain(env="CartPole-v1", vector="async")
    expected = evaluate(domain, MIN_DIVIDED)
    with monkeypatch.context() as patched:
        patched.setattr(SpreadRecorder, "record", interrupt)
        with pytest.raises(KeyboardInterrupt):
            evaluate(domain, MIN_DIVIDED)
    for mine, theirs in zip(expected[:4], evaluate(domain, MIN_DIVIDED)[:4], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_no_file_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make_file(*args: Any, **options: Any) -> tuple[int, str]:
        number, file = mkstemp(*args, **options)
        made.append(file)
        return number, file

    mkstemp = tempfile.mkstemp
    monkeypatch.setattr(tempfile, "mkstemp", make_file)
    with registered_env(ends=2):
        compute_fitness(make_domain(vector="async"))
    assert len(made) == 1
    assert not Path(made[0]).exists()


def test_a_rendered_environment_is_the_same_in_a_process_of_its_own() -> None:
    with registered_env(ends=3):
        config = EnvConfig(NAME, {}, None, spec=gymnasium.spec(NAME))
        local, apart = make_env(config, render=True), RenderedEnv(config)
        assert (apart.render_mode, apart.metadata["render_fps"]) == ("rgb_array", 7)
        for env in (local, apart):
            env.seen = [env.reset(seed=3)[0], *(env.step(0)[0] for _ in range(3))]
            env.picture = env.render()
        np.testing.assert_array_equal(local.seen, apart.seen)
        np.testing.assert_array_equal(local.picture, apart.picture)
        with pytest.raises(TfsmError, match=r"^AssertionError: 9$"):
            apart.step(9)
        apart.close()


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
