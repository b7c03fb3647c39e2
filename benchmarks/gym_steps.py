"""Steps per second in Gymnasium environments: bare, in other libraries, and in one run with and without offspring.

python -m benchmarks.gym_steps [--quick] [--env CartPole-v1] [--cores 2] [--offspring 128] [--markdown FILE]

All sides take turns: on one core the bare environment, Gymnasium's synchronous vector environment, EvoTorch's GymNE and
`tfsm`; with `--cores 2` Gymnasium's asynchronous vector environment, and `tfsm` with vector=sync and vector=async, by
the number of environments that are simulated side by side.
EvoTorch is left out where it is not installed, and for images, which it does not take. Gymnasium's sides have constant
actions and no network. Every episode has the same number of steps, whatever the network does, so that the sides do the
same work: an environment is wrapped so that only the step limit ends an episode. Atari games are preprocessed on all
sides, and a step is one decision, of four frames.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import environment

if TYPE_CHECKING:
    from benchmarks.measure import Effort

ENVIRONMENTS = ("CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5")
STEPS = 200
"""Steps per episode."""
OFFSPRING = 32
BATCHES = (32, 64, 128)
"""Children at once on more cores: the network is called as often for many as for few."""
POPULATION = 32
ATARI = {"grayscale": "yes", "resize": 84, "stack": 4, "frame_skip": 4, "policy": "nature-cnn"}


def is_atari(name: str) -> bool:
    """Return whether an environment is an Atari game."""
    return name.startswith("ALE/")


def make_endless(name: str) -> Any:
    """Return an environment without an end of its own; the registered step limit ends its episodes."""
    import gymnasium

    from tfsm_domains.gym.environment import import_package

    class Endless(gymnasium.Wrapper):  # type: ignore[type-arg, misc]
        def step(self, action: Any) -> Any:
            observation, reward, _, _, info = self.env.step(action)
            return observation, reward, False, False, info

    import_package(name)
    return Endless(gymnasium.make(name, **({"frameskip": 1} if is_atari(name) else {})).unwrapped)


def name_endless(name: str) -> str:
    """Return the name under which the endless version of an environment is registered."""
    return f"Endless{name.replace('/', '')}"


def register_all() -> None:
    """Register the endless versions; importing this module does so, in processes of other libraries, too."""
    import gymnasium

    for name in ENVIRONMENTS:
        frames = 4 if is_atari(name) else 1
        if name_endless(name) not in gymnasium.registry:
            gymnasium.register(name_endless(name), partial(make_endless, name), max_episode_steps=STEPS * frames)


def make_wrapped(name: str) -> Any:
    """Return an endless environment, preprocessed."""
    from tfsm_domains.gym.environment import EnvConfig, Preprocessing, make_env

    register_all()
    wrappers = Preprocessing(frame_skip=4, grayscale=True, resize=84, stack=4) if is_atari(name) else Preprocessing()
    return make_env(EnvConfig(name_endless(name), {}, None, preprocessing=wrappers))


def make_bare_call(name: str) -> Callable[[], object]:
    """Return a call that plays one episode with constant actions."""
    env = make_wrapped(name)
    action = env.action_space.sample()

    def play() -> None:
        env.reset(seed=0)
        for _ in range(STEPS):
            env.step(action)

    return play


def make_vector_call(name: str, kind: str, count: int = OFFSPRING) -> Callable[[], object]:
    """Return a call that plays one episode in each environment of one of Gymnasium's vector environments."""
    import gymnasium

    makers = [partial(make_wrapped, name)] * count
    if kind == "async":
        envs: Any = gymnasium.vector.AsyncVectorEnv(makers, context="spawn")
    else:
        envs = gymnasium.vector.SyncVectorEnv(makers)
    actions = envs.action_space.sample()

    def play() -> None:
        envs.reset(seed=0)
        for _ in range(STEPS):
            envs.step(actions)

    return play


def make_run_call(name: str, offspring: int | None, vector: str = "sync") -> tuple[Callable[[], object], int]:
    """Return a call that takes one step of a run, and its number of children."""
    from benchmarks.engines import make_stepper, start_engine
    from tfsm.plugins import load_plugins
    from tfsm.runs.build import build_engine
    from tfsm.settings import built_in_path, resolve

    plugins = load_plugins()
    settings = resolve(
        plugins,
        domain="gym",
        mutation="control",
        overrides={"population": max(POPULATION, offspring or 1), "offspring": offspring, "intensity": 0.01},
        sets=[
            *(f"env={name_endless(name)}", "episodes=1", "confirm=0", "stop=budget", f"vector={vector}"),
            *(f"{key}={value}" for key, value in (ATARI if is_atari(name) else {}).items()),
        ],
        config=built_in_path(),
    ).settings
    return make_stepper(start_engine(build_engine(plugins, settings)), 1), offspring or 1


def make_evotorch_call(name: str) -> tuple[Callable[[], object], int]:
    """Return a call that evaluates a batch in EvoTorch's GymNE, and its number of solutions."""
    import logging

    import torch
    from evotorch.neuroevolution import GymNE

    from tfsm_domains.gym import GymOptions

    logging.getLogger("evotorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    options = GymOptions(env=name)
    sizes = ["obs_length", *[str(options.units)] * options.layers]
    hidden = [f"Linear({before}, {after}) >> Tanh()" for before, after in pairwise(sizes)]
    problem = GymNE(
        name_endless(name), " >> ".join([*hidden, f"Linear({sizes[-1]}, act_length)"]), initial_bounds=(-0.5, 0.5)
    )
    batch = problem.generate_batch(OFFSPRING)

    def evaluate() -> None:
        batch.forget_evals()
        problem.evaluate(batch)

    return evaluate, OFFSPRING


def measure_one_core(name: str, effort: Effort) -> dict[str, object]:
    """Return a row of the table for one core."""
    from benchmarks.measure import compute_rate, compute_ratio

    sides: dict[str, tuple[Callable[[], object], int]] = {"bare": (make_bare_call(name), 1)}
    sides["Gymnasium, sync"] = make_vector_call(name, "sync"), OFFSPRING
    sides["one child"] = make_run_call(name, None)
    sides[f"offspring {OFFSPRING}"] = make_run_call(name, OFFSPRING)
    if importlib.util.find_spec("evotorch") is not None and not is_atari(name):
        sides["EvoTorch"] = make_evotorch_call(name)
    seconds = time_sides(sides, effort)
    row: dict[str, object] = {"environment": name}
    for side, (_, children) in sides.items():
        row[side] = compute_rate(seconds[side], float(children * STEPS))
    row["share of bare"] = compute_ratio(seconds["bare"], seconds[f"offspring {OFFSPRING}"], float(OFFSPRING))
    if "EvoTorch" in sides:
        row["x EvoTorch"] = compute_ratio(seconds["EvoTorch"], seconds[f"offspring {OFFSPRING}"])
    return row


def measure_more_cores(name: str, effort: Effort, offspring: int) -> dict[str, object]:
    """Return a row of the table for several cores, with that many children at once."""
    from benchmarks.measure import compute_rate, compute_ratio

    sides = {
        "Gymnasium, async": (make_vector_call(name, "async", offspring), offspring),
        "vector=sync": make_run_call(name, offspring),
        "vector=async": make_run_call(name, offspring, "async"),
    }
    seconds = time_sides(sides, effort)
    row: dict[str, object] = {"environment": name, "offspring": offspring}
    for side in sides:
        row[side] = compute_rate(seconds[side], float(offspring * STEPS))
    row["async / sync"] = compute_ratio(seconds["vector=sync"], seconds["vector=async"])
    return row


def time_sides(sides: Mapping[str, tuple[Callable[[], object], int]], effort: Effort) -> dict[str, tuple[float, ...]]:
    """Return the seconds of the calls of all sides, which take turns."""
    from benchmarks.measure import interleave, require_timing

    timings = interleave({side: call for side, (call, _) in sides.items()}, effort)
    return {side: require_timing(timings, side).seconds for side in sides}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--env", action="append", choices=ENVIRONMENTS, help="the environment  [default: all]")
    parser.add_argument("--cores", type=int, default=1, help="1: all on one core; more: vector=async against sync")
    parser.add_argument(
        "--offspring", action="append", type=int, help="with more cores: children at once  [default: 32, 64 and 128]"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table to a Markdown file")
    arguments = parser.parse_args()
    if arguments.cores == 1:
        environment.use_one_core()
    from rich.console import Console

    from benchmarks.markdown import render_grid
    from benchmarks.measure import Effort
    from benchmarks.results import BenchmarkTable, print_table
    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow(threads=1)
    register_all()
    cores = "one core" if arguments.cores == 1 else f"{arguments.cores} cores"
    table = BenchmarkTable("gym_steps", f"steps per second, one run, episodes of {STEPS} steps, {cores}")
    effort = Effort.choose(arguments.quick)
    for name in arguments.env or ENVIRONMENTS:
        if arguments.cores == 1:
            table.rows.append(measure_one_core(name, effort))
        else:
            table.rows += [measure_more_cores(name, effort, count) for count in arguments.offspring or BATCHES]
    print_table(table, Console())
    if arguments.markdown is not None:
        arguments.markdown.write_text(f"{render_grid(table.rows)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
