"""What it costs to reach a divergence, in forward passes over the whole experience. Counts, no times.

    python -m benchmarks.search_passes

For the four networks of `python -m benchmarks --only a`, and for trained classifiers, whose outputs hardly move until
they move all at once. `passes` has the search that predicts outputs, `by divergence alone` the search of SM-R from the
same first step. The outputs of the parent take one more pass. Trained weights are kept in --cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import environment
from benchmarks.real_networks import SEEN, append_rows, read_rows

OPERATORS: Final = ("control", "sm-g-sum", "sm-g-abs", "sm-g-so")
DIVERGENCES: Final = ("1%", "10%", "0.01")
CHILDREN: Final = 4
COLUMNS: Final = (
    *("network", "operator", "divergence", "children"),
    *("passes", "most", "by_divergence_alone", "unreached"),
)


def list_networks(cache: Path) -> Iterator[tuple[str, Callable[[], tuple[Any, np.ndarray, np.ndarray]]]]:
    """Return names, and functions that return a model, its experience and the parents `[B, P]`."""
    import keras

    import tfsm
    from benchmarks import cases
    from benchmarks.real_networks import make_start, make_task
    from benchmarks.trained_networks import RECIPES, build_cnn, digits, load_case

    def from_case(make: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        case = make(genomes=CHILDREN)
        return case.model, case.experience, case.parents.numpy()

    def from_model(model: Any, x: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        return model, x, np.repeat(tfsm.flatten(model)[None], CHILDREN, axis=0)

    def trained(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
        case = load_case(name, cache)
        return from_model(case.model, case.data.x[:SEEN])

    def untrained() -> tuple[Any, np.ndarray, np.ndarray]:
        keras.utils.set_random_seed(0)
        return from_model(build_cnn(), digits().x[:SEEN])

    for make, name in (
        (cases.make_selu_case, "dense"),
        (cases.make_parity_case, "recurrent"),
        (cases.make_convolutional_case, "ConvLSTM2D"),
        (cases.make_million_case, "dense, 10^6 weights"),
    ):
        yield name, lambda make=make: from_case(make)
    yield "cnn, untrained", untrained
    yield "deep, trained", lambda: from_model(make_start("shifted", cache), make_task("shifted")[0][:SEEN])
    for name in RECIPES:
        yield f"{name}, trained", lambda name=name: trained(name)


def count_passes(model: Any, x: np.ndarray, parents: np.ndarray) -> Iterator[list[Any]]:
    """Return the operator, the divergence and counts, for each combination."""
    import tensorflow as tf

    from tfsm.evolution.divergence import FIRST_STEP, DivergenceTarget, perturb, to_unit_length
    from tfsm.functional._batching import build_operator
    from tfsm.kernels.line_search import line_search
    from tfsm.kernels.random import fold_in, root_seed
    from tfsm.kernels.sensitivity import divergence, variance_of
    from tfsm.models.network import Network
    from tfsm.plugins.options import parse_divergence

    network = Network(model)
    seen = tf.constant(x[None])

    def count(parent: Any, change: Any, value: Any, target: DivergenceTarget) -> tuple[Any, Any, Any]:
        diagnostics = target.rescale(network, parent, seen, change, value).diagnostics
        before = network.rows(parent, seen)
        goal = target.to_absolute(network, parent, seen, value)
        along = to_unit_length(change)
        start = FIRST_STEP * tf.norm(parent, axis=-1) * tf.minimum(tf.sqrt(goal / variance_of(before)), 1.0)
        plain = line_search(
            lambda m: divergence(before, network.rows(parent + m[:, None] * along, seen)),
            goal,
            start,
            tolerance=target.tolerance,
            max_steps=target.max_steps,
        )
        return diagnostics["search_steps"], plain.steps, diagnostics["unreached"]

    counters = {
        relative: tf.function(
            lambda p, c, v, relative=relative: count(p, c, v, DivergenceTarget(relative=relative)), autograph=False
        )
        for relative in (True, False)
    }
    for name in OPERATORS:
        operator = build_operator(name, {}, DivergenceTarget())
        change = tf.function(lambda p, s, o=operator: perturb(o, network, p, seen, s), autograph=False)
        changes = [
            change(tf.constant(parents[i : i + 1]), fold_in(root_seed(1), tf.constant([i])))
            for i in range(len(parents))
        ]
        for given in DIVERGENCES:
            parsed = parse_divergence(given if given.endswith("%") else float(given))
            value = tf.constant(parsed.value, network.dtype)
            counts = [
                counters[parsed.relative](tf.constant(parents[i : i + 1]), changes[i], value)
                for i in range(len(parents))
            ]
            passes, plain, unreached = (np.array([float(c[k][0]) for c in counts]) for k in range(3))
            yield [name, given, len(parents), passes.mean(), passes.max(), plain.mean(), int(unreached.sum())]


def summarize(rows: Sequence[dict[str, str]]) -> list[str]:
    """Return a Markdown table: one line per network, means over operators and children, at each divergence."""
    lines = [
        f"| network | {' | '.join(f'{d}: passes' for d in DIVERGENCES)} | "
        f"{' | '.join(f'{d}: by divergence alone' for d in DIVERGENCES)} |",
        "|---|" + "---:|" * (2 * len(DIVERGENCES)),
    ]
    names = list(dict.fromkeys(row["network"] for row in rows))
    for name in [*names, "mean"]:
        cells = []
        for key in ("passes", "by_divergence_alone"):
            for given in DIVERGENCES:
                chosen = [r for r in rows if r["divergence"] == given and (name in (r["network"], "mean"))]
                # Where nothing reaches the target, the search gives up; that says nothing about what reaching it costs.
                chosen = [r for r in chosen if r["unreached"] == "0"]
                cells.append(f"{np.mean([float(r[key]) for r in chosen]):.1f}" if chosen else "")
        lines.append(f"| {' | '.join([name, *cells])} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("results/real-networks"), help="folder of passes.csv")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "tfsm-study", help="trained weights")
    options = parser.parse_args(arguments)
    environment.use_one_core()
    file = options.out / "passes.csv"
    done = {row["network"] for row in read_rows(file)}
    for name, make in list_networks(options.cache):
        if name not in done:
            append_rows(file, [[name, *row] for row in count_passes(*make())], COLUMNS)
    print("\n".join(summarize(read_rows(file))))


if __name__ == "__main__":
    main()
