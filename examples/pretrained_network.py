"""How much of a trained network survives mutation: safe mutations against plain noise of the same size in weight space.

Trains a deep network to classify three spirals, mutates it by SM-G-ABS and by noise that moves the weights equally far,
and draws the result: decision maps of some mutants, and the accuracy of many against the size of the change.

This is a case where it works well, at the intensity where the two differ most; the curve shows the others. The outputs
are logits: after a saturated softmax nearly all sensitivities lie below the operator's floor, and SM-G-ABS is then
hardly better than noise. On tabular features in very different units it did not help much either.

    python examples/pretrained_network.py --out pretrained.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import keras
import matplotlib
import numpy as np

import tfsm

CLASSES, SEEN, MUTANTS = 3, 200, 40
INTENSITY = 0.03
"""The intensity of the mutants on the left of the figure."""
COLOURS = ("#4477aa", "#ddaa33", "#bb5566")


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points `[count, 2]` on three noisy spirals, and the spiral of each."""
    random = np.random.default_rng(seed)
    which, along = random.integers(0, CLASSES, count), np.sqrt(random.random(count))
    angle = 2 * np.pi * (which / CLASSES + 0.8 * along)
    places = 2 * along[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return (places + 0.08 * random.standard_normal((count, 2))).astype(np.float32), which


def train(epochs: int = 60, layers: int = 6, units: int = 24) -> keras.Model:
    """Return a network trained on spirals; its outputs are logits."""
    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(units, "tanh", name=f"hidden_{i + 1}") for i in range(layers)]
    model = keras.Sequential([keras.Input((2,)), *hidden, keras.layers.Dense(CLASSES, name="logits")])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*spirals(3_000, seed=0), epochs=epochs, batch_size=64, verbose=0)
    return model


class Mutants:
    """Mutants of a model by two operators, with changes of the same size.

    Args:
        model: the parent.
        intensity: the intensity of SM-G-ABS.
        count: mutants per operator.
    """

    def __init__(self, model: keras.Model, intensity: float, count: int = MUTANTS) -> None:
        self.model, parent = model, tfsm.flatten(model)
        parents = np.repeat(parent[None], count, axis=0)
        seen, _ = spirals(SEEN, seed=2)
        self.safe = tfsm.functional.mutate(model, parents, seen, "sm-g-abs", intensity=intensity, seed=1)
        self.size = float(np.sqrt(((self.safe - parent) ** 2).sum(axis=1).mean()))
        """The root mean square of the changes' lengths."""
        spread = self.size / np.sqrt(parent.size)
        self.plain = tfsm.functional.mutate(model, parents, seen, "control", intensity=spread, seed=2)

    def accuracy(self, genomes: np.ndarray) -> np.ndarray:
        """Return the accuracy `[B]` of genomes `[B, P]` on test points."""
        places, which = spirals(2_000, seed=1)
        answers: np.ndarray = tfsm.functional.outputs(self.model, genomes, places).argmax(axis=-1)
        return (answers == which).mean(axis=1)

    def retained_accuracy(self) -> tuple[float, float]:
        """Return the mean accuracy of safe and plain mutants, as a share of the parent's."""
        parent = self.accuracy(tfsm.flatten(self.model)[None])[0]
        return float(self.accuracy(self.safe).mean() / parent), float(self.accuracy(self.plain).mean() / parent)


def draw(model: keras.Model, file: Path) -> None:
    """Draw decision maps, and accuracy against the size of the change."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    matplotlib.rcParams["font.size"] = 8
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    grid = figure.add_gridspec(2, 5, width_ratios=[1, 1, 1, 1, 2.2])
    drawn = Mutants(model, INTENSITY)
    parent = tfsm.flatten(model)
    for row, (title, genomes) in enumerate((("sm-g-abs", drawn.safe), ("plain noise", drawn.plain))):
        for column, genome in enumerate([parent, *genomes[:3]]):
            axes = figure.add_subplot(grid[row, column])
            _map(axes, model, genome, ListedColormap(COLOURS))
            right = drawn.accuracy(genome[None])[0]
            axes.set_title(f"{'parent' if column == 0 else title}: {right:.0%}", fontsize=8)
    axes = figure.add_subplot(grid[:, 4])
    sizes, safe, plain = [], [], []
    for intensity in np.geomspace(0.002, 0.2, 9):
        mutants = Mutants(model, float(intensity))
        sizes.append(mutants.size)
        safe.append(mutants.accuracy(mutants.safe))
        plain.append(mutants.accuracy(mutants.plain))
    for label, accuracies, colour in (("sm-g-abs", safe, COLOURS[0]), ("plain noise", plain, COLOURS[2])):
        low, middle, high = np.quantile(accuracies, [0.25, 0.5, 0.75], axis=1)
        axes.fill_between(sizes, low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(sizes, middle, color=colour, marker="o", markersize=3, label=label)
    axes.axhline(1 / CLASSES, color="#888888", linewidth=0.8, linestyle=":")
    axes.text(sizes[0], 1 / CLASSES - 0.035, "chance", color="#666666", fontsize=7)
    axes.axvline(drawn.size, color="#888888", linewidth=0.8)
    axes.text(drawn.size * 1.05, 0.55, "drawn\non the left", color="#666666", fontsize=7)
    axes.set_xscale("log")
    axes.set_ylim(0.25, 1.02)
    axes.set_xlabel("length of the change in weight space")
    axes.set_ylabel("accuracy of mutants: median, middle half")
    axes.legend(frameon=False, loc="upper right")
    figure.savefig(file, dpi=150)


def _map(axes: Any, model: keras.Model, genome: np.ndarray, colours: Any) -> None:
    ends, count = 2.4, 90
    line = np.linspace(-ends, ends, count, dtype=np.float32)
    places = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    answers = tfsm.functional.outputs(model, genome, places).argmax(axis=-1).reshape(count, count)
    axes.imshow(answers, origin="lower", extent=(-ends, ends, -ends, ends), cmap=colours, vmin=0, vmax=2, alpha=0.45)
    seen, which = spirals(300, seed=1)
    axes.scatter(*seen.T, c=which, cmap=colours, s=2, vmin=0, vmax=2)
    axes.set_xticks([])
    axes.set_yticks([])


def main(arguments: list[str] | None = None) -> None:
    """Train, print the result, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("pretrained.png"), help="output file")
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args(arguments)
    model = train(options.epochs)
    mutants = Mutants(model, INTENSITY)
    safe, plain = mutants.retained_accuracy()
    print(f"the parent is right on {mutants.accuracy(tfsm.flatten(model)[None])[0]:.1%} of new points")
    print(
        f"changes of length {mutants.size:.1f}: sm-g-abs keeps {safe:.1%} of that on average, plain noise {plain:.1%}"
    )
    draw(model, options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
