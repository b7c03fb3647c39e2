"""Guards compared at equal divergence on trained networks: which lower bound should sensitivities have?

python -m benchmarks.guards --only residual     # appends to results/real-networks/guards.csv, and prints a table

Every guard is written out here in NumPy; only the relative one is part of tfsm. Continues where it was interrupted.
Needs scikit-learn: `pip install 'tfsm[study]'`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import environment

SEEN: Final = 64
CHILDREN: Final = 3
DIVERGENCE: Final = 0.01
"""Relative to the variance of the outputs over the experience."""
TOLERANCE: Final = 0.03
COLUMNS: Final = ("network", "operator", "guard", "child", "score_parent", "score", "unseen", "length", "largest")


def root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64)))) or 1.0


def bound_relative(s: np.ndarray, share: float) -> np.ndarray:
    """Bound sensitivities below by a share of their root mean square; zeros become the root mean square."""
    average = root_mean_square(s)
    return np.where(s == 0, average, np.maximum(s, share * average))


def damp(s: np.ndarray, share: float) -> np.ndarray:
    """Damp sensitivities smoothly."""
    average = root_mean_square(s)
    return np.where(s == 0, average, np.sqrt(np.square(s) + (share * average) ** 2))


def bound_by_layer(s: np.ndarray, share: float, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Bound the sensitivities of each layer by a share of its own root mean square."""
    bounded = np.empty_like(s)
    for start, stop in ranges:
        bounded[start:stop] = bound_relative(s[start:stop], share)
    return bounded


def make_guards(ranges: Sequence[tuple[int, int]]) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Return the guards by name."""
    return {
        "paper": lambda s: np.maximum(np.where(s == 0, 1.0, s), 0.01),
        **{f"relative {share:g}": lambda s, share=share: bound_relative(s, share) for share in (1, 0.1, 0.01, 0.001)},
        **{f"smooth {share:g}": lambda s, share=share: damp(s, share) for share in (0.1, 0.01)},
        "per layer 0.01": lambda s: bound_by_layer(s, 0.01, ranges),
    }


def search(measure: Callable[[float], float], target: float, start: float) -> float:
    """Return the magnitude at which an increasing function has a value, by bisection of logarithms."""
    low, high, trial = 0.0, np.inf, start
    for _ in range(40):
        value = measure(trial)
        if abs(value - target) <= TOLERANCE * target:
            break
        low, high = (trial, high) if value < target else (low, trial)
        trial = 2 * low if np.isinf(high) else high / 2 if low == 0 else float(np.sqrt(low * high))
    return trial


def measure_network(name: str, cache: Path, file: Path) -> None:
    """Measure mutants of one network by all guards."""
    import tfsm
    from benchmarks.real_networks import append_rows, read_rows
    from benchmarks.trained_networks import load_case
    from tfsm.models.genome import find_sections

    case, f = load_case(name, cache), tfsm.functional
    model, seen = case.model, case.data.x[:SEEN]
    parent = tfsm.flatten(model)
    before, elsewhere = (f.outputs(model, parent, x) for x in (seen, case.data.x_test))
    target = DIVERGENCE * float(before.var(axis=0).sum())
    guards = make_guards([span for section in find_sections(model) for span in section.ranges])
    done = {(row["network"], row["operator"], row["guard"]) for row in read_rows(file)}
    methods = [("control", "none"), *((operator, guard) for operator in ("sm-g-sum", "sm-g-abs") for guard in guards)]
    sensitivities: dict[str, np.ndarray] = {}
    for operator, guard in methods:
        if (name, operator, guard) in done:
            continue
        if operator not in sensitivities:
            measured = np.ones_like(parent) if operator == "control" else f.sensitivity(model, parent, seen, operator)
            sensitivities[operator] = measured.astype(np.float64)
        s = sensitivities[operator] if guard == "none" else guards[guard](sensitivities[operator])
        rows = []
        for child in range(CHILDREN):
            direction = np.random.default_rng(child).standard_normal(parent.shape) / s
            direction /= np.linalg.norm(direction)

            def diverge(magnitude: float, direction: np.ndarray = direction) -> float:
                outputs = f.outputs(model, (parent + magnitude * direction).astype(np.float32), seen)
                distance = float(np.square(outputs - before).sum(axis=-1).mean())
                return distance if np.isfinite(distance) else np.inf

            change = search(diverge, target, 0.05 * float(np.linalg.norm(parent))) * direction
            after = f.outputs(model, (parent + change).astype(np.float32), case.data.x_test)
            unseen = float(np.square(after - elsewhere).sum(axis=-1).mean()) / target
            scores = [float(case.score(outputs[None])[0]) for outputs in (elsewhere, after)]
            rows.append([name, operator, guard, child, *scores, unseen, np.linalg.norm(change), np.abs(change).max()])
        append_rows(file, rows, COLUMNS)


def tabulate(file: Path) -> list[str]:
    """Return a Markdown table of means over children."""
    from benchmarks.real_networks import mean, read_rows

    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in read_rows(file):
        groups.setdefault((row["network"], row["operator"], row["guard"]), []).append(row)
    lines = [
        "| network | operator | guard | score (parent) | divergence on unseen inputs | length | largest change |",
        "|---|---|---|---|---|---|---|",
    ]
    for (network, operator, guard), rows in groups.items():
        cells = [network, f"`{operator}`", guard, f"{mean(rows, 'score'):.3f} ({mean(rows, 'score_parent'):.3f})"]
        cells += [f"{mean(rows, 'unseen'):.2f}", f"{mean(rows, 'length'):.1f}", f"{mean(rows, 'largest'):.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/real-networks"), help="folder of the table")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "tfsm-study", help="trained weights")
    parser.add_argument("--only", default="residual,regression", help="networks, separated by commas")
    options = parser.parse_args()
    environment.use_one_core()
    for name in options.only.split(","):
        measure_network(name, options.cache, options.out / "guards.csv")
    print("\n".join(tabulate(options.out / "guards.csv")))


if __name__ == "__main__":
    main()
