"""Safe mutations as a pyribs emitter: a repertoire of ways to push a puck to every position on a table.

    pip install 'tfsm[ribs]'
    python examples/pyribs_safe_mutation.py --iterations 30 --seed 1

The emitter `tfsm.integrations.ribs.SafeEmitter` mutates elites, each on its own experience, which the archive stores
with the genome. pyribs' own `GaussianEmitter` is run for comparison; for both, the best of three intensities is
reported. See docs/guides/your-loop.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from ribs.archives import GridArchive
from ribs.emitters import EmitterBase, GaussianEmitter
from ribs.schedulers import Scheduler

import tfsm
from tfsm.integrations.ribs import SafeEmitter

STEPS, BATCH, SEES = 20, 32, 5


def network() -> keras.Model:
    """Return a network that maps the state of a puck to a push."""
    hidden = [keras.layers.Dense(8, "tanh") for _ in range(3)]
    return keras.Sequential([keras.Input((SEES,)), *hidden, keras.layers.Dense(2, "tanh")])


def push_pucks(model: keras.Model, genomes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Let each genome push its puck.

    Returns:
        The negative efforts `[B]`, the final positions `[B, 2]` from -1 to 1, and the experience `[B, T, 5]`.
    """
    place, speed = np.zeros([2, len(genomes), 2])
    effort, seen = np.zeros(len(genomes)), []
    for t in range(STEPS):
        clock = np.full([len(genomes), 1], t / STEPS)
        seen.append(np.concatenate([place, speed, clock], axis=1).astype(np.float32))
        push = tfsm.functional.outputs(model, genomes, seen[-1][:, None], each=True)[:, 0]  # [B, 2]
        effort -= np.square(push).mean(axis=1) / STEPS
        speed = 0.8 * speed + 0.1 * push
        place = np.clip(place + speed * (1.0 - np.square(place)), -1.0, 1.0)  # slower towards the edge
    return effort, place, np.stack(seen, axis=1)


def evolve(model: keras.Model, emitter: Callable[[GridArchive], EmitterBase], iterations: int, seed: int) -> Any:
    """Fill an archive and return its statistics."""
    size = tfsm.flatten(model).size
    archive = GridArchive(
        solution_dim=size,
        dims=[30, 30],
        ranges=[(-1.0, 1.0)] * 2,
        qd_score_offset=-1.0,
        extra_fields={"seen": ((STEPS, SEES), np.float32)},
        seed=seed,
    )
    scheduler = Scheduler(archive, [emitter(archive)])
    for _ in range(iterations):
        effort, place, seen = push_pucks(model, scheduler.ask())
        scheduler.tell(effort, place, seen=seen)
    return archive.stats


def main(arguments: list[str] | None = None) -> None:
    """Fill archives with both emitters, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    keras.utils.set_random_seed(options.seed)
    model = network()
    start = tfsm.functional.initial(model, BATCH, options.seed).astype(np.float64)

    def noise(archive: GridArchive, sigma: float) -> EmitterBase:
        return GaussianEmitter(archive, sigma=sigma, initial_solutions=start, batch_size=BATCH, seed=options.seed)

    def safe(archive: GridArchive, intensity: float) -> EmitterBase:
        return SafeEmitter(
            archive,
            model,
            mutation="sm-g-abs",
            intensity=intensity,
            experience_field="seen",
            initial_solutions=start,
            batch_size=BATCH,
            seed=options.seed,
        )

    for name, emitter in (("GaussianEmitter", noise), ("SafeEmitter", safe)):
        results = {
            i: evolve(model, lambda archive, i=i, e=emitter: e(archive, i), options.iterations, options.seed)  # type: ignore[misc]
            for i in (0.01, 0.03, 0.1)
        }
        best = max(results, key=lambda i: results[i].qd_score)
        print(
            f"{name}, intensity {best:g}: coverage {results[best].coverage:.1%}, QD score {results[best].qd_score:.1f}"
        )


if __name__ == "__main__":
    main()
