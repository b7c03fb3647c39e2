"""Making environments by name, preprocessing them, and one-line messages."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import keras
import numpy as np
import pytest
from gymnasium import spaces

import tfsm
from tests.domains.gym.made import NAME, ConfigurableEnv, fail_late, registered_env
from tests.domains.gym.playing import compute_fitness, draw_genomes, make_domain, seeds
from tests.helpers.commands import tfsm as run_tfsm
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm.runs.result import open_run
from tfsm_domains.gym.domain import Gym
from tfsm_domains.gym.environment import PACKAGES, EnvConfig, Preprocessing, make_env, parse_env_options

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


def test_an_outdated_version_causes_a_note() -> None:
    (note,) = Gym(env="CartPole-v0").notes
    assert note.startswith("CartPole-v0: The environment CartPole-v0 is out of date.")


def test_environments_of_tfsm_are_found_by_name() -> None:
    assert make_domain(env="tfsm/HardMaze-v0", steps=2).network().input_shape[0] is None


class RegisteringFinder:
    """Finds one module, which registers an environment when it is imported."""

    def __init__(self, module: str, env: str) -> None:
        self.module, self.env = module, env

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self) if name == self.module else None  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        gymnasium.register(self.env, ConfigurableEnv)


@pytest.mark.parametrize(
    ("env", "module"),
    [
        ("ALE/Made-v5", "ale_py"),
        ("MadeNoFrameskip-v4", "ale_py"),
        ("MiniGrid-Made-v0", "minigrid"),
        ("some_worlds/Made-v0", "some_worlds"),
        ("some-worlds/Made-v0", "some_worlds"),
    ],
)
def test_the_package_of_an_environment_is_imported(env: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [RegisteringFinder(module, env), *sys.meta_path])
    before = dict(gymnasium.registry)
    try:
        assert make_domain(env=env).network().input_shape == (None, 3)
    finally:
        gymnasium.registry.clear()
        gymnasium.registry.update(before)
        del sys.modules[module]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("ALE/Breakout-v5", "ALE/Breakout-v5 needs ale-py: pip install ale-py"),
        ("PongNoFrameskip-v4", "PongNoFrameskip-v4 needs ale-py: pip install ale-py"),
        ("MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-5x5-v0 needs minigrid: pip install minigrid"),
        ("FetchReach-v4", "FetchReach-v4 needs gymnasium-robotics: pip install gymnasium-robotics"),
    ],
)
def test_a_missing_package_is_named(env: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in PACKAGES:
        monkeypatch.setitem(sys.modules, package.module, None)
    monkeypatch.setattr(gymnasium, "registry", {})
    with pytest.raises(TfsmError) as caught:
        make_domain(env=env).network()
    assert str(caught.value) == message


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class BrokenFinder(RegisteringFinder):
        def exec_module(self, module: ModuleType) -> None:
            raise OSError("libX11.so:\nnot found")

    monkeypatch.delitem(sys.modules, "some_worlds", raising=False)
    monkeypatch.setattr(sys, "meta_path", [BrokenFinder("some_worlds", ""), *sys.meta_path])
    message = r"^some_worlds/A-v0 needs some_worlds, which cannot be imported: OSError: libX11.so: not found$"
    with pytest.raises(TfsmError, match=message):
        make_domain(env="some_worlds/A-v0").network()


@pytest.mark.parametrize(
    ("env", "newer"), [("Taxi-v2", r"Taxi-v\d"), ("LunarLander-v1", r"LunarLander-v[3-9]"), ("Ant-v2", r"Ant-v[5-9]")]
)
def test_a_newer_version_is_suggested(env: str, newer: str) -> None:
    with pytest.raises(TfsmError, match=f"cannot be made: .*{newer}") as caught:
        Gym(env=env).network()
    assert len(re.findall(newer, str(caught.value).partition(":")[2])) == 1


def test_what_a_simulator_prints_is_a_note(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def print_warning(env: ConfigurableEnv) -> Any:
        os.write(2, b"WARNING: joints are deprecated\n\nnoise\n")
        return np.zeros(3, np.float32)

    class PrintingEnv(ConfigurableEnv):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            print_warning(self)

    gymnasium.register("tests/Printing-v0", PrintingEnv)
    try:
        domain = make_domain(env="tests/Printing-v0", episodes=3)
        compute_fitness(domain)
    finally:
        del gymnasium.registry["tests/Printing-v0"]
    assert domain.notes == ["tests/Printing-v0: joints are deprecated"]
    assert "deprecated" not in capfd.readouterr().err


COLORS = spaces.Box(0, 255, (8, 6, 3), np.uint8)


def observe(space: spaces.Space[Any], shows: Any = None, **options: Any) -> Any:
    """Return the space and the first two observations of a preprocessed environment."""
    with registered_env(seen=space, shows=shows):
        env = make_env(EnvConfig(NAME, {}, None, preprocessing=Preprocessing(**options)))
        first, _ = env.reset(seed=1)
        second, reward, *_ = env.step(0)
        return env.observation_space, np.asarray(first), np.asarray(second), reward


def show_time(env: ConfigurableEnv) -> np.ndarray:
    return np.full((8, 6, 3), env.time, np.uint8)


def test_images_are_preprocessed_by_the_wrappers_of_gymnasium() -> None:
    assert observe(COLORS, grayscale=True)[0].shape == (8, 6)
    space, first, second, _ = observe(COLORS, show_time, stack=3)
    assert space.shape == (3, 8, 6, 3)
    assert first[:, 0, 0, 0].tolist() == [0, 0, 0]
    assert second[:, 0, 0, 0].tolist() == [0, 0, 1]
    _, _, second, reward = observe(COLORS, show_time, frame_skip=3)
    assert second[0, 0, 0] == 3
    assert reward == 3.0
    assert observe(COLORS, frame_skip=3, clip_reward=0.5)[3] == 0.5


def test_images_are_resized() -> None:
    pytest.importorskip("cv2", reason="resizing needs OpenCV: pip install 'tfsm[atari]'")
    assert observe(COLORS, grayscale=True, resize=4, stack=2)[0].shape == (2, 4, 4)


def test_sticky_actions_repeat_the_previous_one() -> None:
    with registered_env(ends=None):
        env = make_env(EnvConfig(NAME, {}, 50, preprocessing=Preprocessing(sticky=0.5)))
        env.reset(seed=1)
        met = []
        for time in range(40):
            env.step(time % 2)
            met.append(env.unwrapped.last)
    repeated = sum(action != time % 2 for time, action in enumerate(met))
    assert 5 < repeated < 35


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grayscale": True}, "^grayscale=yes does not fit the environment 'tests/Made-v0', .* Box.3,.: "),
        ({"resize": 4}, "^resize=4 (does not fit the environment 'tests/Made-v0', .*|needs OpenCV: .*)"),
    ],
)
def test_a_wrapper_that_does_not_fit_is_one_line(options: dict[str, Any], message: str) -> None:
    with registered_env(), pytest.raises(TfsmError, match=message) as caught:
        make_domain(**options).network()
    assert "\n" not in str(caught.value)


def test_text_beside_stacked_observations_is_dropped() -> None:
    space = spaces.Dict({"mission": spaces.Text(9), "row": spaces.Box(-1.0, 1.0, (3,))})
    with registered_env(seen=space):
        domain = make_domain(stack=2)
        assert domain.network().input_shape == (None, 6)
        assert "mission" in domain.notes[0]


def test_policies_by_name() -> None:
    with registered_env(seen=spaces.Box(0, 255, (4, 84, 84), np.uint8), acts=spaces.Discrete(18)):
        nature = make_domain(policy="nature-cnn").network()
        assert nature.count_params() == 1_693_362
        assert nature.output_shape == (None, 18)
        assert [type(layer).__name__ for layer in make_domain(policy="mlp").network().layers] == [
            "Flatten",
            "Dense",
            "Dense",
        ]
    with registered_env():
        lstm = make_domain(policy="lstm").network()
        assert any(isinstance(layer, keras.layers.LSTM) for layer in lstm.layers)
        with pytest.raises(
            TfsmError, match=r"^policy=nature-cnn: expected images of at least 36x36 pixels, but .* \(3,\)$"
        ):
            make_domain(policy="nature-cnn").network()


@pytest.mark.parametrize("normalize", ["bounds", "sampled", "running"])
def test_a_champion_with_normalization_plays_in_plain_keras(normalize: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"env": "CartPole-v1", "normalize": normalize, "episodes": 1, "confirm": 0, "steps": 60}
    domain = Gym(**options)
    network = Network(domain.network())
    genome = draw_genomes(network, 1)
    network.child(genome[0]).save(tmp_path / "champion.keras")
    champion = keras.models.load_model(tmp_path / "champion.keras")
    (episode,) = domain._seeds(seeds(4), 0, 1)[0]
    env = gymnasium.make("CartPole-v1", max_episode_steps=60)
    observation, _ = env.reset(seed=int(episode))
    total, over = 0.0, False
    while not over:
        outputs = np.asarray(champion(observation[None]))
        observation, reward, terminated, truncated, _ = env.step(int(outputs.argmax()))
        total, over = total + float(reward), terminated or truncated
    assert domain.evaluate(network, genome, seeds(4)).fitness[0] == total
    assert tfsm.flatten(tfsm.load_model(tmp_path / "champion.keras")).size == network.size


@pytest.mark.slow
@pytest.mark.parametrize(("normalize", "layer"), [("sampled", "normalize"), ("running", "running_normalization")])
def test_the_normalization_is_the_same_in_workers_after_a_resume_and_in_a_replay(
    normalize: str, layer: str, tmp_path: Path
) -> None:
    sets = ("env=CartPole-v1", f"normalize={normalize}", "normalize_samples=300", "episodes=1", "confirm=0", "steps=40")
    settings = ["--runs", "2", "--population", "5", "--seed", "3", "--divergence", "10%", "--quiet"]
    settings += [word for one in (*sets, "stop=budget") for word in ("--set", one)]

    def run(*words: str) -> None:
        done = run_tfsm("run", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    run("gym", "--mutation", "sm-g-abs", *settings, "--evaluations", "14", "--out", "whole")
    run("gym", "--mutation", "sm-g-abs", *settings, "--evaluations", "14", "--workers", "2", "--out", "workers")
    run("gym", "--mutation", "sm-g-abs", *settings, "--evaluations", "9", "--out", "parts")
    run("--resume", "parts", "--evaluations", "14", "--quiet")
    champions = [open_run(tmp_path / name).champion(1) for name in ("whole", "workers", "parts")]
    (first, *others) = (champion.get_layer(layer).get_config() for champion in champions)
    assert others == [first] * 2
    for other in champions[1:]:
        np.testing.assert_array_equal(tfsm.flatten(champions[0]), tfsm.flatten(other))
    done = run_tfsm("replay", "whole", "--mutants", "1", "--json", "--save", "film.gif", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (mutants,) = json.loads(done.stdout)["mutants"]
    finished = open_run(tmp_path / "whole")
    best = finished.champion(finished.best())
    played = Gym(**finished.settings.domain_options).evaluate(Network(best), tfsm.flatten(best)[None], seeds_of_zero(1))
    assert mutants["champion_fitness"] == played.fitness[0]


def seeds_of_zero(count: int) -> np.ndarray:
    return np.zeros([count, 2], np.int32)


PIXELS: dict[str, Any] = {"grayscale": True, "resize": 84, "stack": 4, "frame_skip": 4, "policy": "nature-cnn"}


@pytest.mark.parametrize(
    ("env", "modules", "options", "shape"),
    [
        ("ALE/Pong-v5", ("ale_py", "cv2"), PIXELS, (None, 84, 84, 4)),
        ("PongNoFrameskip-v4", ("ale_py",), {"stack": 2}, (None, 210, 160, 6)),
        ("MiniGrid-MemoryS7-v0", ("minigrid",), {"flatten": True, "policy": "lstm"}, (None, 32, 151)),
        ("HalfCheetah-v5", ("mujoco",), {"normalize": "sampled"}, (None, 17)),
    ],
)
def test_real_packages_are_found_and_preprocessed(
    env: str, modules: tuple[str, ...], options: dict[str, Any], shape: tuple[int | None, ...]
) -> None:
    for module in modules:
        pytest.importorskip(module, reason=f"{env} needs {module}: pip install 'tfsm[atari,minigrid,mujoco]'")
    assert make_domain(env=env, **options).network().input_shape == shape


def test_a_warning_of_mujoco_is_one_note_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mujoco = pytest.importorskip("mujoco", reason="pip install 'tfsm[mujoco]'")
    if not hasattr(mujoco, "set_mju_user_warning"):
        pytest.skip("this version of MuJoCo cannot report warnings")
    monkeypatch.chdir(tmp_path)
    domain = make_domain(env="HalfCheetah-v5", episodes=2, steps=2)
    domain.runner._envs.reset([1, 2])
    assert len(domain.notes) <= 1  # some versions have nothing to warn about
    assert all(note.startswith("HalfCheetah-v5: ") for note in domain.notes)
    assert not list(tmp_path.iterdir())
    assert "WARN" not in capfd.readouterr().err


def test_frames_are_not_skipped_twice() -> None:
    pytest.importorskip("ale_py", reason="Atari games need ale-py: pip install ale-py")
    asked = Preprocessing(frame_skip=4, sticky=0.1)
    env = make_env(EnvConfig("ALE/Pong-v5", {}, None, preprocessing=asked))
    assert env.unwrapped._frameskip == 1
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == pytest.approx(0.1)
    env.reset(seed=1)
    env.step(0)
    assert env.unwrapped.ale.getEpisodeFrameNumber() == 4
