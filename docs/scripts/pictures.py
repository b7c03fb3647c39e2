"""The pictures that explain safe mutations, each computed with tfsm on a small network.

    python -m docs.scripts.pictures                   # all of them, into docs/images (some minutes)
    python -m docs.scripts.pictures divergence        # one of them

Each function draws one picture and prints the numbers that the page beside it quotes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import matplotlib as mpl
import numpy as np

import tfsm
from examples.pretrained_network import spirals, train

mpl.use("agg")
import matplotlib.pyplot as plt

IMAGES = Path(__file__).parents[1] / "images"
PLAIN, SAFE, PARENT = "#6e6e6e", "#d55e00", "#24292f"
mpl.rcParams.update(
    {"font.size": 9, "axes.titlesize": 9, "axes.titlelocation": "left", "axes.spines.top": False}
    | {"axes.spines.right": False, "figure.dpi": 130}
)


def draw_safe_mutations() -> None:
    """Two weights of unequal sensitivity: plain noise, safe noise, and how far each moves the output."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, "tanh", use_bias=False)])
    parent = np.array([0.3, 0.3], np.float32)
    seen = np.random.default_rng(0).normal(size=(100, 2)) * [2.0, 0.2]  # the first input is ten times as large
    parents = np.tile(parent, [300, 1])
    sensitivity = tfsm.functional.sensitivity(model, parent, seen, "sm-g-abs")
    children = {}
    for name, operator in (("plain noise", "control"), ("safe noise", "sm-g-abs")):
        changes = tfsm.functional.mutate(model, parents, seen, operator, intensity=0.05, seed=1) - parent
        children[name] = parent + 0.5 * changes / np.sqrt((changes**2).sum(axis=1).mean())
    grid = np.linspace(-1.1, 1.7, 81, dtype=np.float32)
    places = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    surface = tfsm.functional.divergence(model, places, parent, seen).reshape(81, 81)
    limit = 0.1
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), layout="constrained")
    for axis, (name, genomes), color in zip(axes, children.items(), (PLAIN, SAFE), strict=False):
        axis.contourf(grid, grid, surface, levels=[0, 0.01, 0.03, limit, 0.3, 1, 3], cmap="Blues", vmin=0, vmax=1.4)
        axis.contour(grid, grid, surface, levels=[limit], colors=PARENT, linewidths=1)
        axis.plot(*genomes.T, ".", color=color, markersize=4)
        axis.plot(*parent, "o", color="white", markeredgecolor=PARENT)
        axis.set(title=name, xlabel="sensitive weight", ylabel="insensitive weight", xlim=(-1.1, 1.7), ylim=(-1.1, 1.7))
        moved = tfsm.functional.divergence(model, genomes, parent, seen)
        axes[2].hist(np.log10(moved), bins=np.linspace(-6, 0.5, 40), color=color, alpha=0.7, label=name)
        length = np.sqrt(((genomes - parent) ** 2).sum(axis=1).mean())
        print(f"{name}: length {length:.2f}, {np.mean(moved > limit):.0%} beyond {limit}, mean {moved.mean():.3f}")
    axes[2].axvline(np.log10(limit), color=PARENT, linewidth=1)
    axes[2].set(title="how far the outputs move", xlabel="divergence, power of ten", ylabel="children")
    axes[2].legend(frameon=False)
    print("sensitivities", sensitivity)
    save(figure, "safe-mutations")


def draw_sensitivity() -> None:
    """The sensitivities of a trained network, layer by layer."""
    model = train()
    seen, _ = spirals(200, seed=2)
    sensitivity = tfsm.sensitivity(model, seen, "sm-g-abs")
    values, start = [], 0
    for layer in model.layers:
        values.append(sensitivity[start : start + layer.count_params()])
        start += layer.count_params()
    figure, axis = plt.subplots(figsize=(7.2, 3), layout="constrained")
    rng = np.random.default_rng(0)
    for index, part in enumerate(values):
        above = np.log10(part[part > 0])
        axis.plot(index + rng.uniform(-0.3, 0.3, above.size), above, ".", markersize=2, color="#0072b2", alpha=0.5)
        axis.plot([index - 0.35, index + 0.35], 2 * [np.median(above)], color=PARENT)
    axis.set_xticks(range(len(values)), [layer.name.replace("_", " ") for layer in model.layers])
    axis.set(ylabel="sensitivity, power of ten", title="every dot is a weight; the lines are medians")
    low, high = np.quantile(sensitivity, [0.05, 0.95])
    print(f"{sensitivity.size:,} weights, the middle 90 % from {low:.3g} to {high:.3g}: a factor of {high / low:.0f}")
    print(f"from {sensitivity.min():.2g} to {sensitivity.max():.2g}; medians {[f'{np.median(p):.2g}' for p in values]}")
    save(figure, "sensitivity-by-layer")


def draw_divergence() -> None:
    """Children of a network with one input, at three divergences, by two operators."""
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(32, "tanh") for _ in range(3)]
    model = keras.Sequential([keras.Input((1,)), *hidden, keras.layers.Dense(1)])
    inputs = np.linspace(-1, 1, 200, dtype=np.float32)[:, None]
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    model.fit(inputs, np.sin(4 * inputs), epochs=60, batch_size=50, verbose=0)
    parent, seen = tfsm.flatten(model), inputs[::10]
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 2.8), sharey=True, layout="constrained")
    for axis, divergence in zip(axes, ("0.1%", "1%", "10%"), strict=True):
        for operator, color in (("control", PLAIN), ("sm-g-abs", SAFE)):
            parents = np.tile(parent, [8, 1])
            children = tfsm.functional.mutate(model, parents, seen, operator, divergence=divergence, seed=2)
            outputs = tfsm.functional.outputs(model, children, inputs)[..., 0]
            lines = axis.plot(inputs[:, 0], outputs.T, color=color, linewidth=0.7, alpha=0.8)
            length = np.linalg.norm(children - parent, axis=1).mean()
            lines[0].set_label(f"{operator}: weights move {length:.2g}")
            moved = tfsm.functional.divergence(model, children, parent, seen)
            print(f"{divergence} {operator}: length {length:.3g}, divergence {moved.min():.4g} to {moved.max():.4g}")
        axis.plot(inputs[:, 0], tfsm.functional.outputs(model, parent, inputs)[:, 0], color=PARENT, label="parent")
        axis.plot(seen[:, 0], np.full(len(seen), -1.6), "|", color=PARENT, markersize=5)
        axis.set(title=f"divergence {divergence}", xlabel="input", ylim=(-1.75, 2.3))
        axis.legend(frameon=False, fontsize=7, loc="upper left")
    axes[0].set_ylabel("output")
    save(figure, "divergence")


def draw_lanes() -> None:
    """The fitness of every child, step by step: eight runs in lanes, and one run with eight offspring."""
    bits = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1, "sigmoid")])
    steps: list[np.ndarray] = []

    def score(batch: Any) -> np.ndarray:
        fitness: np.ndarray = -((batch(bits)[..., 0] - [0, 1, 1, 0]) ** 2).mean(axis=1)
        steps.append(fitness)
        return fitness

    task = {"model": model, "fitness": score, "batched": True, "init": "xavier-normal", "mutation": "sm-g-abs"}
    task |= {"divergence": 0.05, "population": 10, "target": -0.02, "seed": 3, "evaluations": 2_000}
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 2.6), sharex=True, layout="constrained")
    for axis, title, shape in (
        (axes[0], "8 runs: a lane is a run of its own", {"runs": 8}),
        (axes[1], "1 run with 8 offspring: a lane is a child of the step", {"offspring": 8}),
    ):
        steps.clear()
        runs = tfsm.evolve(**task, **shape).runs
        calls = steps[1:]  # the first call only finds out what the function does with the network
        table = np.full((8, len(calls)), np.nan)
        for step, fitness in enumerate(calls):
            # A run that is solved leaves its lane; the others move together.
            active = range(len(fitness))
            if "runs" in shape:
                active = [run for run in range(8) if runs[run].evaluations > step]
            assert len(fitness) == len(active)
            table[active, step] = fitness
        shown = axis.imshow(table, aspect="auto", cmap="viridis", vmin=-0.3, vmax=0, interpolation="nearest")
        axis.set(title=title, xlabel="step", ylabel="lane", xlim=(-0.5, 119.5))
        print(f"{title}: {len(calls)} steps, evaluations {[run.evaluations for run in runs]}")
    figure.colorbar(shown, ax=axes, label="fitness of the child", shrink=0.9)
    save(figure, "lanes-and-offspring")


def draw_parity() -> None:
    """The answers of a network that solves parity, and of mutants of it, for all sequences of four bits."""
    model = tfsm.evolve("parity", mutation="sm-g-sum", seed=1).champion()
    sequences = np.array([[int(bit) for bit in f"{number:04b}"] for number in range(16)])
    odd = sequences.sum(axis=1) % 2 == 1
    sequences, odd = sequences[np.argsort(odd, kind="stable")], np.sort(odd)
    inputs, parent = sequences[..., None].astype(np.float32), tfsm.flatten(model)
    names = ["".join(map(str, sequence)) for sequence in sequences]
    champion = tfsm.functional.outputs(model, parent, inputs)[:, 1]
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 2.8), sharey=True, layout="constrained")
    methods = (("control", 0.05, PLAIN), ("sm-g-sum", 0.001, SAFE))  # with the paper's intensities for this task
    for axis, (operator, intensity, color) in zip(axes, methods, strict=True):
        parents = np.tile(parent, [50, 1])
        children = tfsm.functional.mutate(model, parents, inputs, operator, intensity=intensity, seed=1)
        answers = tfsm.functional.outputs(model, children, inputs)[..., 1]  # [50, 16]: the probability of "odd"
        axis.plot(range(16), answers.T, ".", color=color, markersize=4, alpha=0.5)
        axis.plot(range(16), champion, "_", color=PARENT, markersize=14, markeredgewidth=2)
        axis.axhline(0.5, color=PARENT, linewidth=0.8)
        axis.axvline(7.5, color=PARENT, linewidth=0.8)
        axis.set_xticks(range(16), names, rotation=90, fontsize=7)
        axis.set(title=f"{operator}: even on the left, odd on the right", ylim=(0, 1))
        right = ((answers > 0.5) == odd).mean(axis=1)
        print(f"{operator}: {right.mean():.0%} of the answers are right, {np.mean(right == 1):.0%} of the mutants")
    axes[0].set_ylabel('answer "odd", probability')
    save(figure, "parity-mutants")


def save(figure: Any, name: str) -> None:
    """Write a picture."""
    figure.savefig(IMAGES / f"{name}.png")
    plt.close(figure)


PICTURES: dict[str, Callable[[], None]] = {
    "safe-mutations": draw_safe_mutations,
    "sensitivity-by-layer": draw_sensitivity,
    "divergence": draw_divergence,
    "lanes-and-offspring": draw_lanes,
    "parity-mutants": draw_parity,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or PICTURES:
        PICTURES[chosen]()
