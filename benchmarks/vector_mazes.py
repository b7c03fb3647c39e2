"""A step of the mazes as Gymnasium vector environments: simulated all at once, and one environment after another.

    python benchmarks/vector_mazes.py

Random actions; a table of milliseconds a step for all agents together, on one core. Needs gymnasium.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import tensorflow as tf
from timing import milliseconds, one_core, table

import tfsm_domains.envs

COUNTS = (1, 4, 16)


def main() -> None:
    one_core()
    gymnasium.register_envs(tfsm_domains.envs)
    done = tf.constant(0)

    def steps(name: str, count: int, mode: str) -> Any:
        envs = gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode)
        envs.reset(seed=0)
        envs.action_space.seed(0)
        actions = envs.action_space.sample()
        return lambda: (envs.step(actions), done)[1]

    rows: dict[str, list[float | None]] = {}
    for name in ("HardMaze", "TopdownMaze", "FirstPersonMaze"):
        modes = {"one by one": "sync", "at once": "vector_entry_point"}
        found = [
            milliseconds({title: steps(f"tfsm/{name}-v0", count, mode) for title, mode in modes.items()})
            for count in COUNTS
        ]
        for title in modes:
            rows[f"{name}, {title}"] = [times[title] for times in found]
    table("a step of all agents", [str(count) for count in COUNTS], rows)


if __name__ == "__main__":
    main()
