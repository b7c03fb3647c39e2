"""Where the time goes in the pixel mazes: drawing, network, mutation; and how fast frames are drawn.

    python -m benchmarks.pixel_mazes

Milliseconds of one genome, all on one core, in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import environment

AGENTS, FRAMES = 20, 400
GENOMES = 4


def main() -> None:
    """Measure, and print two tables."""
    environment.one_core()
    from rich.console import Console

    from benchmarks.arithmetic import rate
    from benchmarks.measure import Effort, interleave, needed
    from benchmarks.results import Table, show, text
    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    from tfsm_domains.pixel_maze.first_person import FirstPersonMaze
    from tfsm_domains.pixel_maze.topdown import TopdownMaze

    console, effort = Console(width=120), Effort(False, 5, 0.5, 6.0)
    frames = interleave({"frames": drawing(FirstPersonMaze())}, effort)
    drawn = rate(needed(frames, "frames").seconds, float(AGENTS * FRAMES))
    console.print(f"frames drawn a second, {AGENTS} agents: {text(drawn)}\n", highlight=False)
    table = Table("pixels", "milliseconds of one genome")
    for name, maze in {"topdown-maze": TopdownMaze(), "first-person-maze": FirstPersonMaze()}.items():
        sides = parts(maze)
        found = interleave(sides, effort)
        for side in sides:
            taken = rate([1.0 / s for s in needed(found, side).seconds], 1000.0 / (1 if "child" in side else GENOMES))
            table.rows.append({"maze": name, "what": side, "ms": taken, "first call s": needed(found, side).first})
    show(table, console)


def drawing(maze: Any) -> Callable[[], object]:
    """Return a whole episode of agents that walk about at random: every frame is drawn and moved on."""
    import tensorflow as tf

    from tfsm_domains.pixel_maze.raycast import begin, move, view

    actions = tf.random.stateless_uniform([FRAMES, AGENTS], [1, 2], 0, 5, tf.int32)

    def episode() -> Any:
        def frame(t: Any, pose: Any, total: Any) -> Any:
            seen = view(maze.walls, None, pose.position, pose.heading)
            return t + 1, move(maze.walls, pose, actions[t]), total + seen

        start = tf.constant(0), begin(maze.layout, AGENTS), tf.zeros([AGENTS, 64, 64])
        return tf.while_loop(lambda t, *_: t < FRAMES, frame, start)[2]

    compiled = tf.function(episode, jit_compile=True, autograph=False)
    return lambda: compiled().numpy()


def parts(maze: Any) -> dict[str, Callable[[], object]]:
    """Return an episode, an episode without a network, what was seen drawn again, and a child by each operator."""
    import tensorflow as tf

    from tfsm.evolution.initialization import Initializer
    from tfsm.kernels.experience import to_dense
    from tfsm.kernels.random import fold_in, root_seed
    from tfsm.models.network import Network
    from tfsm_plugins.mutations.gaussian import Control
    from tfsm_plugins.mutations.gradient import SafeMutationSecondOrder, SafeMutationSum

    network = Network(maze.network())
    genomes = Initializer().genomes(network, fold_in(root_seed(0), 0, tf.range(GENOMES)))
    seeds = fold_in(root_seed(1), 0, tf.range(1))

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        call = tf.function(function, autograph=False)
        return lambda *given: tf.nest.map_structure(lambda x: x.numpy(), call(*given))

    episode = tf.function(lambda own: maze.evaluate(network, own, None), autograph=False)
    lived = episode(genomes).experience
    without, see = (
        compiled(lambda: maze.simulate(Absent(), genomes)),
        compiled(lambda past: to_dense(maze.observe(past))),
    )
    sides = {
        "episode": lambda: episode(genomes).fitness.numpy(),
        "episode without network": without,
        "drawing again what was seen": lambda: see(lived),
    }
    operators = {"control": Control(), "sm-g-sum": SafeMutationSum(), "sm-g-so": SafeMutationSecondOrder()}
    for name, operator in operators.items():

        def child(own: Any, past: Any, operator: Any = operator) -> Any:
            return operator(network, own, maze.observe(past), 0.01, seeds)

        make = compiled(child)
        sides[f"child by {name}"] = lambda make=make: make(genomes[:1], lived[:1])
    return sides


class Absent:
    """Stands in for a network: goes ahead all the time."""

    start: tuple[()] = ()
    lanes = GENOMES

    def stepper(self, *_: Any, **__: Any) -> Absent:
        """Return itself."""
        return self

    def __call__(self, seen: Any, state: Any) -> Any:
        """Return outputs that say the same for everything seen; what is seen is still made."""
        import tensorflow as tf

        used = 0.0 * tf.reduce_sum(tf.cast(seen, tf.float32))
        return tf.one_hot(tf.zeros([GENOMES], tf.int32), 5) + used, state


if __name__ == "__main__":
    main()
