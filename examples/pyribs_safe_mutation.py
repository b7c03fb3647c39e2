"""Safe mutations as an emitter of pyribs: a repertoire of ways to push a puck to all places of a table.

    pip install ribs
    python examples/pyribs_safe_mutation.py --iterations 30 --seed 1

The emitter varies elites by `tfsm.functional.mutate`, each by what it saw itself: the archive keeps that beside the
genome. pyribs' own `GaussianEmitter` runs beside it; of both, the best of three intensities is told. See
docs/functional.md.
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

STEPS, BATCH, SEES = 20, 32, 5


class SafeEmitter(EmitterBase):
    """Emits safe mutations of elites.

    Args:
        archive: where the elites are, each with what it saw.
        model: the network that genomes belong to.
        intensity: how much to mutate.
        start: `[B, P]`, what to emit first.
        seed: what all is drawn from.
    """

    def __init__(
        self, archive: GridArchive, model: keras.Model, intensity: float, start: np.ndarray, seed: int
    ) -> None:
        super().__init__(archive, solution_dim=archive.solution_dim, bounds=None, lower_bounds=None, upper_bounds=None)
        self._model, self._intensity, self._start = model, intensity, start
        self._generator = np.random.default_rng(seed)

    def ask(self) -> np.ndarray:
        """Return children of elites, or what there is to start with."""
        if self.archive.empty:
            return self._start
        elites = self.archive.sample_elites(len(self._start))
        seed = int(self._generator.integers(2**62))
        return tfsm.functional.mutate(
            self._model, elites["solution"], elites["seen"], "sm-g-abs", self._intensity, seed, each=True
        )


def network() -> keras.Model:
    """Return a network from what a puck's driver sees to a push."""
    hidden = [keras.layers.Dense(8, "tanh") for _ in range(3)]
    return keras.Sequential([keras.Input((SEES,)), *hidden, keras.layers.Dense(2, "tanh")])


def pushed(model: keras.Model, genomes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Let each genome push its puck.

    Returns:
        The efforts `[B]`, negative; where the pucks end `[B, 2]`, from -1 to 1; and what was seen `[B, T, 5]`.
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
    """Fill an archive; return its statistics."""
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
        effort, place, seen = pushed(model, scheduler.ask())
        scheduler.tell(effort, place, seen=seen)
    return archive.stats


def main(arguments: list[str] | None = None) -> None:
    """Fill archives by both emitters, and tell how they did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    keras.utils.set_random_seed(given.seed)
    model = network()
    start = tfsm.functional.initial(model, BATCH, given.seed).astype(np.float64)

    def noise(archive: GridArchive, sigma: float) -> EmitterBase:
        return GaussianEmitter(archive, sigma=sigma, initial_solutions=start, batch_size=BATCH, seed=given.seed)

    def safe(archive: GridArchive, intensity: float) -> EmitterBase:
        return SafeEmitter(archive, model, intensity, start, given.seed)

    for name, emitter in (("GaussianEmitter", noise), ("SafeEmitter", safe)):
        found = {
            i: evolve(model, lambda archive, i=i, e=emitter: e(archive, i), given.iterations, given.seed)  # type: ignore[misc]
            for i in (0.01, 0.03, 0.1)
        }
        best = max(found, key=lambda i: found[i].qd_score)
        print(f"{name}, intensity {best:g}: coverage {found[best].coverage:.1%}, QD score {found[best].qd_score:.1f}")


if __name__ == "__main__":
    main()
