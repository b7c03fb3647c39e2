"""The study of results/real-networks: safe mutations on trained networks of 100,000 to a million weights.

python -m benchmarks.real_networks mutants      # what mutants of trained networks retain, at equal divergence
python -m benchmarks.real_networks evolution    # evolution from trained weights on a shifted task, and from scratch
python -m benchmarks.real_networks figures      # tables and figures from what has been measured so far

Each command continues where it was interrupted. Trained weights and run directories are kept in --cache; tables and
figures are written to --out. Needs scikit-learn and matplotlib: `pip install 'tfsm[study]'`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import environment

OPERATORS: Final = ("sm-g-sum", "sm-g-abs", "sm-g-so", "sm-g-rms")
GUARDS: Final = ("paper", "relative")
DIVERGENCES: Final = ("1%", "10%", "0.01")
"""Shares of the variance of the outputs, and an absolute divergence, measured with the relative guard alone."""
SEEN: Final = 64
"""Training inputs that are the experience."""
UNSEEN: Final = 400
"""Test inputs."""
CHILDREN: Final = 4
COLUMNS: Final = (
    *("network", "weights", "operator", "guard", "divergence", "child"),
    *("target", "reached", "unseen", "score_parent", "score", "length"),
)

TASKS: Final = ("shifted", "scratch")
INTENSITIES: Final = (0.003, 0.01, 0.03, 0.1)
"""Of the control; the best in a sweep is used for the final runs."""
UNTUNED: Final = (
    *(("control", "1%"), ("sm-g-sum", "1%"), ("sm-g-abs", "1%")),
    *(("control", "10%"), ("sm-g-sum", "10%"), ("control", 0.01), ("sm-g-sum", 0.01)),
)
"""Operators and divergences; `control` is then plain noise, rescaled."""
RUNS: Final = 10
SWEEP_RUNS: Final = 3
EVALUATIONS: Final = 1_000
TRAINING: Final = 256


# --- Mutants at equal divergence


def measure_mutants(out: Path, cache: Path, networks: Sequence[str]) -> None:
    """Measure mutants of all networks, and append them to `mutants.csv`."""
    import tfsm
    from benchmarks.trained_networks import load_case

    file = out / "mutants.csv"
    done = {tuple(row[key] for key in COLUMNS[:1] + COLUMNS[2:5]) for row in read_rows(file)}
    methods = list_methods()
    for name in networks:
        missing = [method for method in methods if (name, *method) not in done]
        if not missing:
            continue
        case = load_case(name, cache)
        model, f = case.model, tfsm.functional
        seen, unseen = case.data.x[:SEEN], case.data.x_test[:UNSEEN]
        parent = tfsm.flatten(model)
        parents = np.repeat(parent[None], CHILDREN, axis=0)
        before = f.outputs(model, parent[None], seen)[0]
        variance = float(before.var(axis=0).sum())
        score_parent = float(case.score(f.outputs(model, parent[None], case.data.x_test))[0])
        for operator, guard, divergence in missing:
            options = {} if guard == "none" else {"guard": guard}
            relative = divergence.endswith("%")
            value = divergence if relative else float(divergence)
            children = f.mutate(model, parents, seen, operator, divergence=value, seed=1, **options)
            target = variance * float(divergence.removesuffix("%")) / 100 if relative else float(divergence)
            reached, elsewhere = (f.divergence(model, parents, children, x) / target for x in (seen, unseen))
            scores = case.score(f.outputs(model, children, case.data.x_test))
            lengths = np.linalg.norm(children - parent, axis=1)
            shared = {"network": name, "weights": parent.size, "operator": operator, "guard": guard}
            shared |= {"divergence": divergence, "target": target, "score_parent": score_parent}
            measured = {"reached": reached, "unseen": elsewhere, "score": scores, "length": lengths}
            rows = [
                {**shared, "child": i, **{key: float(column[i]) for key, column in measured.items()}}
                for i in range(CHILDREN)
            ]
            append_rows(file, [[row[key] for key in COLUMNS] for row in rows])
            print(f"{name} {operator} {guard} {divergence}: {scores.mean():.3f} of {score_parent:.3f}", flush=True)


def list_methods() -> list[tuple[str, str, str]]:
    """Return the operator, guard and divergence of each method that is measured."""
    methods = []
    for divergence in DIVERGENCES:
        guards = GUARDS if divergence.endswith("%") else ("relative",)
        methods.append(("control", "none", divergence))
        methods += [(operator, guard, divergence) for operator in OPERATORS for guard in guards]
    return methods


# --- Evolution


def evolve_all(out: Path, cache: Path, tasks: Sequence[str]) -> None:
    """Evolve all methods of all tasks that `runs.csv` does not have, and write the end of each run to it."""
    done = {(row["task"], row["method"]) for row in read_rows(out / "runs.csv")}
    for task in tasks:
        methods: dict[str, dict[str, Any]] = {
            f"sweep-{intensity}": {"intensity": intensity, "runs": SWEEP_RUNS, "seed": 1} for intensity in INTENSITIES
        }
        methods["control-tuned"] = {"runs": RUNS}
        for operator, divergence in UNTUNED:
            settings = {"mutation": operator, "divergence": divergence, "runs": RUNS}
            methods[f"{operator}-{divergence}"] = settings
        for method, settings in methods.items():
            if (task, method) in done:
                continue
            if method == "control-tuned":
                settings["intensity"] = choose_intensity(task, cache)
            evolve(task, method, cache, **settings)
            write_runs(out, cache)


def evolve(task: str, method: str, cache: Path, mutation: str = "control", **settings: Any) -> None:
    """Evolve one method in a directory of the cache, or resume it."""
    import tfsm

    x, y, x_test, y_test = make_task(task)
    result = tfsm.evolve(
        model=make_start(task, cache),
        data=(x, y),
        validation=(x_test, y_test),
        mutation=mutation,
        evaluations=EVALUATIONS,
        population=50,
        log_every=100,
        init="model" if task == "shifted" else "xavier-normal",
        out=cache / "runs" / task / method,
        resume=True,
        **settings,
    )
    best = [run.best_fitness for run in result.runs]
    print(f"{task} {method}: median fitness {np.median(best):.4f} of {len(best)} runs", flush=True)


def make_task(task: str) -> tuple[np.ndarray, ...]:
    """Return training and test data: the digits, moved by one pixel for the shifted task."""
    from benchmarks.trained_networks import digits

    data = digits()
    shift = 1 if task == "shifted" else 0
    x, x_test = (np.pad(part, ((0, 0), (0, 0), (shift, 0), (0, 0)))[:, :, :8] for part in (data.x, data.x_test))
    return x[:TRAINING], data.y[:TRAINING], x_test, data.y_test


def make_start(task: str, cache: Path) -> Any:
    """Return the network, trained on the digits that are not moved if evolution starts from it."""
    import keras

    from benchmarks.trained_networks import digits, train

    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(32, "selu", kernel_initializer="lecun_normal") for _ in range(8)]
    answer = keras.layers.Dense(10, "softmax")
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), *hidden, answer], name="deep")
    file = cache / "deep.weights.h5"
    if task == "shifted":
        if not file.is_file():
            train(model, digits(), epochs=30)
            cache.mkdir(parents=True, exist_ok=True)
            model.save_weights(file)
        model.load_weights(file)
    return model


def choose_intensity(task: str, cache: Path) -> float:
    """Return the control's best intensity in the sweep, by the mean of the best fitness of each run."""
    from tfsm.analysis.results import load_studies

    def score(intensity: float) -> float:
        (study,) = load_studies([cache / "runs" / task / f"sweep-{intensity}"])
        return float(np.mean([outcome.best_fitness or 0.0 for outcome in study.methods[0].outcomes]))

    return max(INTENSITIES, key=score)


def write_runs(out: Path, cache: Path) -> None:
    """Write the end of every run: fitness, and the loss and accuracy of the champion on test data.

    Methods whose run directories are not in the cache keep the rows that they have.
    """
    from tfsm.analysis.results import load_studies

    rows: list[dict[str, Any]] = []
    for folder in sorted((cache / "runs").glob("*/*")):
        if not (folder / "run.json").is_file():
            continue
        (study,) = load_studies([folder], strict=False) or (None,)
        for method in study.methods if study is not None else ():
            last = {line["run"]: line for line in method.metrics}
            for outcome in method.outcomes:
                line = last[outcome.run]
                rows.append(
                    {
                        "task": folder.parent.name,
                        "method": folder.name,
                        "operator": method.settings["mutation"],
                        "strength": method.settings.get("divergence") or method.settings["intensity"],
                        "run": outcome.run,
                        "evaluations": line["evaluations"],
                        "fitness": outcome.best_fitness,
                        "test_loss": line["validation_loss"],
                        "test_accuracy": line["validation_accuracy"],
                    }
                )
    measured = {(row["task"], row["method"]) for row in rows}
    rows = [row for row in read_rows(out / "runs.csv") if (row["task"], row["method"]) not in measured] + rows
    rows.sort(key=lambda row: (row["task"], row["method"]))
    out.mkdir(parents=True, exist_ok=True)
    with (out / "runs.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# --- Tables and figures


def summarize_mutants(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a Markdown table: means over children, next to plain noise at the same divergence."""
    lines = [
        "| network | weights | operator | guard | divergence | score (parent) | score of plain noise | divergence on "
        "unseen inputs / target | plain noise | length / plain noise |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in rows:
        groups.setdefault((row["network"], row["divergence"], row["operator"], row["guard"]), []).append(row)
    for (network, divergence, operator, guard), group in groups.items():
        plain = groups.get((network, divergence, "control", "none"))
        if plain is None or operator == "control":
            continue
        cells = [network, f"{int(group[0]['weights']):,}", f"`{operator}`", guard, divergence]
        cells += [f"{mean(group, 'score'):.3f} ({mean(group, 'score_parent'):.3f})", f"{mean(plain, 'score'):.3f}"]
        cells += [f"{mean(group, 'unseen'):.2f}", f"{mean(plain, 'unseen'):.2f}"]
        cells.append(f"{mean(group, 'length') / mean(plain, 'length'):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def summarize_runs(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a Markdown table: medians over runs, and tests against the tuned control, corrected by Holm's method."""
    from tfsm.analysis import holm, mann_whitney

    lines = [
        "| task | method | runs | fitness | test accuracy | fitness against tuned control | test accuracy against it |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        methods = {row["method"]: [] for row in rows if row["task"] == task and "sweep" not in row["method"]}
        for method in methods:
            methods[method] = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        base = methods.get("control-tuned", [])
        tests = {}
        for key in ("fitness", "test_accuracy"):
            p = [
                mann_whitney(values(group, key), values(base, key)).p if base and name != "control-tuned" else None
                for name, group in methods.items()
            ]
            tests[key] = dict(zip(methods, holm(p), strict=True))
        for name, group in methods.items():
            title = f"{name} ({group[0]['strength']})" if name == "control-tuned" else name
            cells = [task, title, str(len(group))]
            cells += [f"{np.median(values(group, 'fitness')):.3f}", f"{np.median(values(group, 'test_accuracy')):.1%}"]
            cells += ["" if test[name] is None else f"p = {test[name]:.2g}" for test in tests.values()]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def values(rows: Iterable[Mapping[str, str]], key: str) -> list[float]:
    return [float(row[key]) for row in rows]


def mean(rows: Iterable[Mapping[str, str]], key: str) -> float:
    return float(np.mean(values(rows, key)))


def draw_mutants(rows: Sequence[Mapping[str, str]], file: Path) -> None:
    """Draw the score retained against the length of the change, relative to plain noise, one panel per network."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import PercentFormatter

    from tfsm.report.plot_style import OPERATOR_COLORS, house_style, new_figure

    networks = list(dict.fromkeys(row["network"] for row in rows))
    colors = {**OPERATOR_COLORS, "sm-g-rms": "#7a5cc9"}
    with house_style():
        figure = new_figure(7.2, 4.6)
        grid = figure.subplots(2, 3).ravel()
        for axes, network in zip(grid, networks, strict=False):
            own = [row for row in rows if row["network"] == network and row["divergence"] == DIVERGENCES[0]]
            plain = mean([row for row in own if row["operator"] == "control"], "length")
            for row in own:
                marker = {"none": "x", "paper": "^", "relative": "o"}[row["guard"]]
                axes.scatter(
                    float(row["length"]) / plain,
                    float(row["score"]) / float(row["score_parent"]),
                    color=colors[row["operator"]],
                    marker=marker,
                    s=16,
                    alpha=0.8,
                )
            axes.set_xscale("log")
            axes.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
            axes.set_xticks([], minor=True)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            axes.set_title(f"{network}, {int(own[0]['weights']):,} weights")
        for axes in grid[len(networks) :]:
            axes.set_axis_off()
        handles = [
            Line2D([], [], color=color, marker="s", linestyle="", label=name)
            for name, color in colors.items()
            if name != "sm-r"
        ]
        handles += [
            Line2D([], [], color="#24292f", marker=marker, linestyle="", label=name)
            for name, marker in (("paper's guard", "^"), ("relative guard", "o"), ("plain noise", "x"))
        ]
        grid[-1].legend(handles=handles, loc="center")
        figure.supxlabel("length of the change, relative to plain noise")
        figure.supylabel("share of the score retained")
        figure.savefig(file)


def draw_evolution(cache: Path, out: Path) -> None:
    """Draw the fitness over evaluations, one figure per task."""
    from tfsm.analysis.results import Study, load_studies
    from tfsm.report.findings import analyze_study
    from tfsm.report.plots import render_figure

    for task in TASKS:
        folders = [f for f in sorted((cache / "runs" / task).glob("*")) if not f.name.startswith("sweep")]
        methods = []
        for folder in folders:
            for study in load_studies([folder], strict=False):
                methods += [replace_name(method, folder.name) for method in study.methods]
        if any(method.name == "control-tuned" for method in methods):
            findings = analyze_study(Study(task, tuple(methods)))
            (out / f"{task}-fitness.png").write_bytes(render_figure("fitness", findings, format="png"))


def replace_name(method: Any, name: str) -> Any:
    from dataclasses import replace

    return replace(method, name=name)


def draw_figures(out: Path, cache: Path) -> None:
    """Write the tables to `tables.md`, and all figures."""
    mutants, runs = read_rows(out / "mutants.csv"), read_rows(out / "runs.csv")
    parts = [summarize_mutants(mutants) if mutants else [], summarize_runs(runs) if runs else []]
    (out / "tables.md").write_text("\n\n".join("\n".join(part) for part in parts if part) + "\n", encoding="utf-8")
    if mutants:
        draw_mutants(mutants, out / "mutants.png")
    if (cache / "runs").is_dir():
        draw_evolution(cache, out)


# --- Files


def read_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file; none if it does not exist."""
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def append_rows(file: Path, rows: Iterable[Sequence[Any]], columns: Sequence[str] = COLUMNS) -> None:
    """Append rows to a CSV file, with a header if it is new; by default those of mutants."""
    file.parent.mkdir(parents=True, exist_ok=True)
    is_new = not file.is_file()
    with file.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if is_new:
            writer.writerow(columns)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=("mutants", "evolution", "figures"))
    parser.add_argument("--out", type=Path, default=Path("results/real-networks"), help="folder of tables and figures")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "tfsm-study", help="weights and runs")
    parser.add_argument("--only", default="", help="some of the networks or tasks, separated by commas")
    options = parser.parse_args(arguments)
    environment.use_one_core()
    only = [name for name in options.only.split(",") if name]
    if options.command == "mutants":
        from benchmarks.trained_networks import RECIPES

        measure_mutants(options.out, options.cache, only or list(RECIPES))
    elif options.command == "evolution":
        evolve_all(options.out, options.cache, only or TASKS)
    else:
        draw_figures(options.out, options.cache)


if __name__ == "__main__":
    main()
