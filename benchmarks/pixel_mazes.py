"""Where the time goes in the pixel mazes (drawing, network, mutation), and how fast frames are drawn.

    python -m benchmarks.pixel_mazes

Milliseconds per genome on one core, measured in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import environment

AGENTS, FRAMES = 20, 400
GENOMES = 4


def main() -> None:
    """Measure, and print two tables."""
    environment.use_one_core()
    from rich.console import Console

    from benchmarks.measure import Effort, compute_rate, interleave, require_timing
    from benchmarks.results import BenchmarkTable, format_cell, print_table
    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    from tfsm_domains.pixel_maze.first_person import FirstPersonMaze
    from tfsm_domains.pixel_maze.topdown import TopdownMaze

    console, effort = Console(width=120), Effort(False, 5, 0.5, 6.0)
    frames = interleave({"frames": make_drawing_call(FirstPersonMaze())}, effort)
    rate = compute_rate(require_timing(frames, "frames").seconds, float(AGENTS * FRAMES))
    console.print(f"frames drawn per second, {AGENTS} agents: {format_cell(rate)}\n", highlight=False)
    table = BenchmarkTable("pixels", "milliseconds per genome")
    for name, maze in {"topdown-maze": TopdownMaze(), "first-person-maze": FirstPersonMaze()}.items():
        candidates = make_maze_calls(maze)
        results = interleave(candidates, effort)
        for call in candidates:
            milliseconds = compute_rate(
                [1.0 / s for s in require_timing(results, call).seconds], 1000.0 / (1 if "child" in call else GENOMES)
            )
            table.rows.append(
                {"maze": name, "what": call, "ms": milliseconds, "first call s": require_timing(results, call).first}
            )
    print_table(table, console)
    counts = count_distinct_poses(FirstPersonMaze())
    console.print(f"\ndistinct poses in the episodes of {len(counts)} initial agents: {', '.join(map(str, counts))}")


def count_distinct_poses(maze: Any, agents: int = 40) -> list[int]:
    """Return the number of distinct poses among the decisions of each of some initial agents, sorted."""
    import numpy as np
    import tensorflow as tf

    from tfsm.evolution.initialization import Initializer
    from tfsm.kernels.random import fold_in, root_seed
    from tfsm.models.network import Network

    network = Network(maze.network())
    genomes = Initializer().genomes(network, fold_in(root_seed(0), 0, tf.range(agents)))
    episode = tf.function(lambda: maze.evaluate(network, genomes, None).experience, autograph=False)
    return sorted(len(np.unique(poses, axis=0)) for poses in episode().numpy())


def make_drawing_call(maze: Any) -> Callable[[], object]:
    """Return an episode of agents that walk at random, in which every frame is drawn."""
    import tensorflow as tf

    from tfsm_domains.pixel_maze.raycast import move, start_poses, view

    actions = tf.random.stateless_uniform([FRAMES, AGENTS], [1, 2], 0, 5, tf.int32)

    def episode() -> Any:
        def frame(t: Any, pose: Any, total: Any) -> Any:
            image = view(maze.walls, None, pose.position, pose.heading)
            return t + 1, move(maze.walls, pose, actions[t]), total + image

        start = tf.constant(0), start_poses(maze.layout, AGENTS), tf.zeros([AGENTS, 64, 64])
        return tf.while_loop(lambda t, *_: t < FRAMES, frame, start)[2]

    compiled = tf.function(episode, jit_compile=True, autograph=False)
    return lambda: compiled().numpy()


def make_maze_calls(maze: Any) -> dict[str, Callable[[], object]]:
    """Return an episode, one without a network, drawing its observations again, and a child by each operator."""
    import tensorflow as tf

    from tfsm.evolution.initialization import Initializer
    from tfsm.kernels.experience import to_dense
    from tfsm.kernels.random import fold_in, root_seed
    from tfsm.models.network import Network
    from tfsm_plugins.mutations.gradient import SafeMutationSecondOrder, SafeMutationSum
    from tfsm_plugins.mutations.gradient_free import Control

    network = Network(maze.network())
    genomes = Initializer().genomes(network, fold_in(root_seed(0), 0, tf.range(GENOMES)))
    seeds = fold_in(root_seed(1), 0, tf.range(1))

    def compile_call(function: Callable[..., Any]) -> Callable[..., Any]:
        call = tf.function(function, autograph=False)
        return lambda *arguments: tf.nest.map_structure(lambda x: x.numpy(), call(*arguments))

    episode = tf.function(lambda batch: maze.evaluate(network, batch, None), autograph=False)
    experience = episode(genomes).experience
    without = compile_call(lambda: maze.simulate(AbsentNetwork(), genomes))
    draw = compile_call(lambda experience: to_dense(maze.observe(experience)))
    candidates = {
        "episode": lambda: episode(genomes).fitness.numpy(),
        "episode without network": without,
        "drawing again what was seen": lambda: draw(experience),
    }
    operators = {"control": Control(), "sm-g-sum": SafeMutationSum(), "sm-g-so": SafeMutationSecondOrder()}
    for name, operator in operators.items():

        def make_child(parent: Any, experience: Any, operator: Any = operator) -> Any:
            # As in a run, where parents are taken one by one.
            observe = getattr(maze, "observe_distinct", maze.observe)
            return operator(network, parent, observe(experience), 0.01, seeds)

        make = compile_call(make_child)
        candidates[f"child by {name}"] = lambda make=make: make(genomes[:1], experience[:1])
    return candidates


class AbsentNetwork:
    """Stands in for a network, and always goes ahead."""

    start: tuple[()] = ()
    lanes = GENOMES

    def stepper(self, *_: Any, **__: Any) -> AbsentNetwork:
        """Return itself."""
        return self

    def __call__(self, observation: Any, state: Any) -> Any:
        """Return the same outputs for all observations, which are still computed."""
        import tensorflow as tf

        zero = 0.0 * tf.reduce_sum(tf.cast(observation, tf.float32))
        return tf.one_hot(tf.zeros([GENOMES], tf.int32), 5) + zero, state


if __name__ == "__main__":
    main()
