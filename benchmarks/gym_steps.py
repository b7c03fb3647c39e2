"""Steps per second in Gymnasium environments: bare, in EvoTorch's GymNE, and in one run with and without offspring.

python -m benchmarks.gym_steps [--quick] [--env CartPole-v1]

All sides take turns on one core. EvoTorch is left out where it is not installed. Every episode has the same number of
steps, whatever the network does, so that the sides do the same work: an environment is wrapped so that only the step
limit ends an episode.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from benchmarks import environment

ENVIRONMENTS = ("CartPole-v1", "HalfCheetah-v5")
STEPS = 200
"""Steps per episode."""
OFFSPRING = 32
POPULATION = 32


def make_endless(name: str) -> Any:
    """Return an environment without an end of its own; the registered step limit ends its episodes."""
    import gymnasium

    class Endless(gymnasium.Wrapper):  # type: ignore[type-arg, misc]
        def step(self, action: Any) -> Any:
            observation, reward, _, _, info = self.env.step(action)
            return observation, reward, False, False, info

    return Endless(gymnasium.make(name).unwrapped)


def register(name: str) -> str:
    """Register the endless version of an environment, and return its name."""
    import gymnasium

    endless = f"Endless{name}"
    if endless not in gymnasium.registry:
        gymnasium.register(endless, entry_point=lambda: make_endless(name), max_episode_steps=STEPS)
    return endless


def make_bare_call(name: str) -> Callable[[], object]:
    """Return a call that plays one episode with constant actions."""
    import gymnasium

    env = gymnasium.make(name)
    action = env.action_space.sample()

    def play() -> None:
        env.reset(seed=0)
        for _ in range(STEPS):
            env.step(action)

    return play


def make_run_call(name: str, offspring: int | None) -> tuple[Callable[[], object], int]:
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
        overrides={"population": POPULATION, "offspring": offspring, "intensity": 0.01},
        sets=[f"env={name}", "episodes=1", "confirm=0", "stop=budget"],
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
    problem = GymNE(name, " >> ".join([*hidden, f"Linear({sizes[-1]}, act_length)"]), initial_bounds=(-0.5, 0.5))
    batch = problem.generate_batch(OFFSPRING)

    def evaluate() -> None:
        batch.forget_evals()
        problem.evaluate(batch)

    return evaluate, OFFSPRING


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--env", action="append", help=f"the environment  [default: {' and '.join(ENVIRONMENTS)}]")
    arguments = parser.parse_args()
    environment.use_one_core()
    from rich.console import Console

    from benchmarks.measure import Effort, compute_rate, compute_ratio, interleave, require_timing
    from benchmarks.results import BenchmarkTable, print_table
    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    table = BenchmarkTable("gym_steps", f"steps per second, one run, episodes of {STEPS} steps, one core")
    for name in arguments.env or ENVIRONMENTS:
        endless = register(name)
        sides = {"bare": (make_bare_call(endless), 1), "one child": make_run_call(endless, None)}
        sides[f"offspring {OFFSPRING}"] = make_run_call(endless, OFFSPRING)
        if importlib.util.find_spec("evotorch") is not None:
            sides["EvoTorch"] = make_evotorch_call(endless)
        timings = interleave({side: call for side, (call, _) in sides.items()}, Effort.choose(arguments.quick))
        seconds = {side: require_timing(timings, side).seconds for side in sides}
        row: dict[str, object] = {"environment": name}
        for side, (_, children) in sides.items():
            row[side] = compute_rate(seconds[side], float(children * STEPS))
        row["share of bare"] = compute_ratio(seconds["bare"], seconds[f"offspring {OFFSPRING}"], float(OFFSPRING))
        if "EvoTorch" in sides:
            row["x EvoTorch"] = compute_ratio(seconds["EvoTorch"], seconds[f"offspring {OFFSPRING}"])
        table.rows.append(row)
    print_table(table, Console())


if __name__ == "__main__":
    main()
