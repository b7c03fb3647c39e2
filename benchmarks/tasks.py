"""A study of safe mutations on real tasks: a tuned control against operators at the untuned default divergence.

python -m benchmarks.tasks run CartPole [--quick]   # one task; after Ctrl-C the same command resumes it. Tables of what
                                                    # is finished are in the directory of the runs
python -m benchmarks.tasks report [--films]         # tables, CSV files and figures in results/tasks

Every method has ten runs with the same budget of evaluations. The control has the best of five intensities, from a
sweep that costs as many evaluations as its ten runs: two runs for each. The operators have a divergence of 10%, the
default for runs from random weights, which is not tuned. The operator with the best champions then plays with a deep
network, against a control that is tuned on that network by another such sweep. Champions are compared by their mean
return in 50 new episodes, which are the same for all.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

RESULTS: Final = Path(__file__).parents[1] / "results" / "tasks"
OPERATORS: Final = ("sm-g-sum", "sm-g-abs", "sm-g-so")
DIVERGENCE: Final = "10%"
GRID: Final = (1.0, 0.3, 0.1, 0.03, 0.01)
SWEEP_RUNS: Final = 2
SWEEP_SEED: Final = 100
EPISODES: Final = 50
"""New episodes in which champions are compared."""


@dataclass(frozen=True)
class Task:
    """An environment, and how much is spent on it."""

    env: str
    evaluations: int
    """Per run."""
    options: Mapping[str, Any]
    """Options of the domain."""
    deep: int | None = 8
    """Hidden layers of the deep network; None: no deep network."""
    runs: int = 10
    population: int = 20

    def shortened(self) -> Task:
        """Return the same task with a tiny budget, to try the script."""
        options = {**self.options, "steps": 20, "episodes": 1, "confirm": 0}
        return replace(self, evaluations=22, runs=2, options=options)


MEMORY: Final = {"policy": "lstm", "flatten": "yes", "normalize": "sampled"}
ATARI: Final = {"policy": "nature-cnn", "grayscale": "yes", "resize": 84, "stack": 4, "frame_skip": 4, "remembered": 16}
TASKS: Final = {
    "CartPole": Task("CartPole-v1", 300, {"episodes": 2, "confirm": 20}, deep=16, population=10),
    "Acrobot": Task("Acrobot-v1", 200, {"episodes": 2, "confirm": 20}, deep=16, population=10),
    "LunarLander": Task("LunarLander-v3", 600, {"episodes": 2, "steps": 400, "confirm": 20}, deep=8),
    "BipedalWalker": Task("BipedalWalker-v3", 400, {"episodes": 1, "steps": 400, "confirm": 0}, deep=8),
    "Hopper": Task("Hopper-v5", 1000, {"episodes": 1, "steps": 300, "confirm": 0}, deep=12),
    "HalfCheetah": Task("HalfCheetah-v5", 500, {"episodes": 1, "steps": 200, "confirm": 0}, deep=12),
    "MiniGrid-Memory": Task("MiniGrid-MemoryS7-v0", 400, {"episodes": 4, "steps": 60, "confirm": 0, **MEMORY}),
    "Frostbite": Task("ALE/Frostbite-v5", 100, {"episodes": 1, "steps": 1000, "confirm": 0, **ATARI}, None, runs=3),
}


@dataclass(frozen=True)
class Condition:
    """A method on a task, as settings for `tfsm run`."""

    name: str
    mutation: str
    strength: str
    """`--intensity=0.1` or `--divergence=10%`."""
    layers: int | None = None
    runs: int = 10
    seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


def run_condition(task: Task, condition: Condition, folder: Path) -> Path:
    """Run a method, or resume it, in its directory, which is returned; nothing happens if it is finished."""
    out = folder / condition.name
    record = out / "run.json"
    if record.is_file() and json.loads(record.read_text())["status"] == "finished":
        return out
    options = dict(task.options) | ({"layers": condition.layers} if condition.layers is not None else {})
    sets = [word for key, value in {"env": task.env, **options}.items() for word in ("--set", f"domain.{key}={value}")]
    settings = ["--runs", str(condition.runs), "--seed", str(condition.seed), "--population", str(task.population)]
    settings += ["--evaluations", str(task.evaluations), "--set", f"log_every={max(5, task.evaluations // 40)}"]
    settings += ["--mutation", condition.mutation, condition.strength, "--set", "engine.threads=1", *sets]
    command = ["run", "--resume", str(out)] if record.is_file() else ["run", "gym", *settings, "--out", str(out)]
    print(f"{folder.name}: {condition.name}", flush=True)
    start = time.monotonic()
    ended = subprocess.run([sys.executable, "-m", "tfsm", *command, "--quiet"], stdout=subprocess.DEVNULL, check=False)
    if record.is_file():
        with (out / "seconds.txt").open("a") as file:
            file.write(f"{time.monotonic() - start:.1f}\n")
    if ended.returncode or json.loads(record.read_text())["status"] != "finished":
        raise SystemExit("stopped; the same command continues")
    return out


def tune_control(task: Task, folder: Path, name: str, layers: int | None) -> float:
    """Return the best intensity of the control: two runs for each, which cost as much as ten runs together."""
    scores = {}
    for intensity in GRID:
        condition = Condition(
            f"{name}-{intensity:g}", "control", f"--intensity={intensity:g}", layers, SWEEP_RUNS, SWEEP_SEED
        )
        out = run_condition(task, condition, folder)
        results = read_results(out)
        # First by the runs solved, then by the fitness reached, then by the evaluations needed.
        scores[intensity] = (
            sum(run["solved"] for run in results),
            float(np.mean([run["best_fitness"] for run in results])),
            -sum(run["evaluations"] for run in results),
        )
    return max(scores, key=scores.__getitem__)


def read_results(out: Path) -> list[dict[str, Any]]:
    """Return how each run of a directory ended."""
    results: list[dict[str, Any]] = json.loads((out / "run.json").read_text())["runs"]
    return sorted(results, key=lambda run: int(run["run"]))


def run_task(name: str, root: Path, *, quick: bool) -> None:
    """Run all methods of a task, one after the other; after each of them the tables in `root` are up to date."""
    task, folder = TASKS[name], root / name
    task = task.shortened() if quick else task
    folder.mkdir(parents=True, exist_ok=True)
    intensity = tune_control(task, folder, "sweep", None)
    conditions = [Condition("control", "control", f"--intensity={intensity:g}", runs=task.runs)]
    conditions += [Condition(name, name, f"--divergence={DIVERGENCE}", runs=task.runs) for name in OPERATORS]
    for condition in conditions:
        evaluate_champions(run_condition(task, condition, folder))
        write_tables(root, root)
    if task.deep is not None:
        best = max(OPERATORS, key=lambda operator: float(np.mean(evaluate_champions(folder / operator))))
        deep = tune_control(task, folder, "deep-sweep", task.deep)
        for condition in (
            Condition("deep-control", "control", f"--intensity={deep:g}", task.deep, task.runs),
            Condition(f"deep-{best}", best, f"--divergence={DIVERGENCE}", task.deep, task.runs),
        ):
            evaluate_champions(run_condition(task, condition, folder))
            write_tables(root, root)


def evaluate_champions(out: Path) -> list[float]:
    """Return the mean return of each run's champion in new episodes, which are kept in `champions.json`."""
    file = out / "champions.json"
    if not file.is_file():
        from tfsm.utils.tf_startup import import_tensorflow

        import_tensorflow(threads=1)
        from tfsm.models.genome import flatten
        from tfsm.models.network import Network
        from tfsm.runs.result import open_run
        from tfsm_domains.gym.domain import Gym

        run = open_run(out)
        domain = Gym(**run.settings.domain_options)
        network = Network(domain.network())
        episodes = np.arange(EPISODES)[None] + 1_000_000
        numbers = [int(entry["run"]) for entry in read_results(out)]
        returns = [
            float(domain.runner.returns(network, flatten(run.champion(number))[None], episodes).mean())
            for number in numbers
        ]
        file.write_text(json.dumps(returns))
    found: list[float] = json.loads(file.read_text())
    return found


def list_methods(folder: Path) -> Iterator[Path]:
    """Yield the directories of a task's methods that are finished, without the sweeps."""
    for condition in ("control", *OPERATORS, "deep-control", *(f"deep-{operator}" for operator in OPERATORS)):
        out = folder / condition
        if (out / "champions.json").is_file():
            yield out


def collect_runs(root: Path) -> list[dict[str, Any]]:
    """Return a row for each run of each method."""
    rows = []
    for name in TASKS:
        for out in list_methods(root / name):
            settings = json.loads((out / "run.json").read_text())["settings"]
            seconds = sum(map(float, (out / "seconds.txt").read_text().split()))
            results = read_results(out)
            for result, champion in zip(results, evaluate_champions(out), strict=True):
                rows.append(
                    {
                        "task": name,
                        "method": out.name,
                        "layers": settings["domain_options"]["layers"],
                        "strength": settings.get("divergence") or settings["intensity"],
                        "run": result["run"],
                        "solved": int(result["solved"]),
                        "evaluations": result["evaluations"],
                        "best_fitness": result["best_fitness"],
                        "champion_return": champion,
                        "seconds": round(seconds / len(results), 1),
                    }
                )
    return rows


def collect_curves(root: Path) -> list[dict[str, Any]]:
    """Return the best fitness of each run at each logged interval."""
    rows = []
    for name in TASKS:
        for out in list_methods(root / name):
            for line in (out / "metrics.jsonl").read_text().splitlines():
                interval = json.loads(line)
                row = {"task": name, "method": out.name}
                rows.append(row | {key: interval[key] for key in ("run", "evaluations", "best_fitness")})
    return rows


def write_csv(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows of equal keys."""
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def tabulate(runs: list[dict[str, Any]]) -> list[str]:
    """Return a Markdown table per task, with comparisons with the control of the same depth.

    Mann-Whitney tests, two-sided and corrected by Holm within a task: on evaluations to the solution, where unsolved
    runs count as later than all others, and on champions' returns.
    """
    from tfsm.analysis import holm, mann_whitney

    lines: list[str] = []
    for task in dict.fromkeys(row["task"] for row in runs):
        methods: dict[str, list[dict[str, Any]]] = {}
        for row in runs:
            if row["task"] == task:
                methods.setdefault(row["method"], []).append(row)
        returns = {name: [row["champion_return"] for row in rows] for name, rows in methods.items()}
        others = [name for name in methods if not name.endswith("control")]
        bases = {name: "deep-control" if name.startswith("deep-") else "control" for name in others}
        times = {
            name: [row["evaluations"] if row["solved"] else np.inf for row in rows] for name, rows in methods.items()
        }
        adjusted = [
            dict(zip(others, holm([mann_whitney(of[name], of[bases[name]]).p for name in others]), strict=True))
            for of in (times, returns)
        ]
        lines += [
            f"### {task}",
            "",
            "| method | strength | layers | solved | median evaluations | against its control "
            "| champion's return, median (range) | against its control | seconds per run |",
            "|---|---|---:|---:|---:|---|---|---|---:|",
        ]
        for name, rows in methods.items():
            values = returns[name]
            first = rows[0]
            tests = [
                "" if name not in p_values else "too few runs" if (p := p_values[name]) is None else f"p = {p:.2g}"
                for p_values in adjusted
            ]
            cells = [
                f"`{name.removeprefix('deep-')}`",
                str(first["strength"]),
                str(first["layers"]),
                f"{sum(row['solved'] for row in rows)} of {len(rows)}",
                f"{np.median([row['evaluations'] for row in rows]):.0f}",
                tests[0],
                f"{np.median(values):.1f} ({min(values):.1f} to {max(values):.1f})",
                tests[1],
                f"{first['seconds']:.1f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return lines


def draw_curves(file: Path, curves: list[dict[str, Any]], runs: list[dict[str, Any]], *, seconds: bool) -> None:
    """Draw the median best fitness of each method, with its quartiles, against evaluations or seconds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(row["task"] for row in curves))
    columns = min(3, len(tasks))
    figure, axes = plt.subplots(
        -(-len(tasks) // columns), columns, figsize=(4.2 * columns, 3.2 * -(-len(tasks) // columns)), squeeze=False
    )
    colors = {"control": "#777777", "sm-g-sum": "#0072b2", "sm-g-abs": "#d55e00", "sm-g-so": "#009e73"}
    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    handles: dict[str, Any] = {}
    for axis, task in zip(axes.flat, tasks, strict=False):
        for method in dict.fromkeys(row["method"] for row in curves if row["task"] == task):
            mine = [row for row in curves if (row["task"], row["method"]) == (task, method)]
            ended = [row for row in runs if (row["task"], row["method"]) == (task, method)]
            x = np.unique([row["evaluations"] for row in mine])
            best = np.array([_best_so_far(mine, ended, run["run"], x) for run in ended])
            scale = ended[0]["seconds"] * len(ended) / sum(run["evaluations"] for run in ended) if seconds else 1.0
            low, middle, high = np.quantile(best, [0.25, 0.5, 0.75], axis=0)
            style = "--" if method.startswith("deep-") else "-"
            color = colors[method.removeprefix("deep-")]
            (handles[method],) = axis.plot(scale * x, middle, style, color=color, linewidth=1.6, label=method)
            axis.fill_between(scale * x, low, high, color=color, alpha=0.12, linewidth=0)
        axis.set_title(task, fontsize=10)
        axis.set_xlabel("seconds per run" if seconds else "evaluations", fontsize=8)
        axis.set_ylabel("best fitness", fontsize=8)
        axis.tick_params(labelsize=8)
    figure.legend(handles.values(), handles, loc="lower center", ncol=4, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.06 + 0.04 / len(axes), 1, 1))
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _best_so_far(
    curves: list[dict[str, Any]], ended: list[dict[str, Any]], run: int, evaluations: np.ndarray
) -> np.ndarray:
    """Return a run's best fitness at these evaluations; after its end, the last one."""
    points = sorted((row["evaluations"], row["best_fitness"]) for row in curves if row["run"] == run)
    last = next(row for row in ended if row["run"] == run)
    points.append((last["evaluations"], last["best_fitness"]))
    times, values = (np.array(column, float) for column in zip(*sorted(points), strict=True))
    return values[np.maximum(np.searchsorted(times, evaluations, side="right") - 1, 0)]


def save_films(root: Path, results: Path) -> None:
    """Save a film of the best champion of each task, where the environment can be filmed."""
    for name in TASKS:
        methods = list(list_methods(root / name))
        if methods:
            best = max(methods, key=lambda out: max(evaluate_champions(out)))
            run = int(np.argmax(evaluate_champions(best)))
            film = results / f"{name.lower()}.gif"
            command = ["replay", str(best), "--run", str(run), "--save", str(film), "--quiet"]
            subprocess.run([sys.executable, "-m", "tfsm", *command], stdout=subprocess.DEVNULL, check=False)


def read_csv(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of `write_csv`; none if there is no such file."""

    def parse(text: str) -> Any:
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        return text

    if not file.is_file():
        return []
    with file.open(newline="") as opened:
        return [{key: parse(value) for key, value in row.items()} for row in csv.DictReader(opened)]


def add_recorded(rows: list[dict[str, Any]], file: Path) -> list[dict[str, Any]]:
    """Return rows together with those that a file has of other tasks, in the order of `TASKS`."""
    found = {row["task"] for row in rows}
    rows = [*rows, *(row for row in read_csv(file) if row["task"] not in found)]
    return sorted(rows, key=lambda row: list(TASKS).index(row["task"]))


def write_tables(root: Path, results: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Write the CSV files and tables of all methods that are finished, and return the rows of runs and of curves.

    What the files have of tasks that were not run in `root` stays.
    """
    runs = add_recorded(collect_runs(root), results / "runs.csv")
    curves = add_recorded(collect_curves(root), results / "curves.csv")
    if not runs:
        raise SystemExit(f"{root}: no method is finished")
    results.mkdir(parents=True, exist_ok=True)
    write_csv(results / "runs.csv", runs)
    write_csv(results / "curves.csv", curves)
    (results / "tables.md").write_text("\n".join(["# Tables", "", *tabulate(runs)]).rstrip() + "\n", encoding="utf-8")
    return runs, curves


def report(root: Path, results: Path, *, films: bool) -> None:
    """Write the CSV files, the tables and the figures of all methods that are finished."""
    runs, curves = write_tables(root, results)
    draw_curves(results / "evaluations.png", curves, runs, seconds=False)
    draw_curves(results / "seconds.png", curves, runs, seconds=True)
    if films:
        save_films(root, results)


def main(arguments: list[str] | None = None) -> None:
    """Run a task, or report on all."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tasks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("build/tasks"), help="the directory of the runs")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a task, or resume it")
    run.add_argument("task", choices=TASKS)
    run.add_argument("--quick", action="store_true", help="with a tiny budget, to try the script")
    write = commands.add_parser("report", help="write results/tasks")
    write.add_argument("--results", type=Path, default=RESULTS)
    write.add_argument("--films", action="store_true", help="also film the best champions")
    options = parser.parse_args(arguments)
    if options.command == "run":
        run_task(options.task, options.out, quick=options.quick)
    else:
        report(options.out, options.results, films=options.films)


if __name__ == "__main__":
    main()
