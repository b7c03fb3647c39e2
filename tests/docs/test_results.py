"""The committed results: p-values computed again from the CSV files agree with the claims, and the page with both."""

from __future__ import annotations

import csv
import json
import math
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RESULTS = Path(__file__).parents[2] / "results"
CLAIMS = sorted(RESULTS.glob("*/*/claims.json"))

FASTER = re.compile(r"(\S+): (\S+) is (?:not )?faster than (\S+?)(, .*)? \(Mann-Whitney")
MORE = re.compile(r"(\S+): (\S+) solves more runs than (\S+?)(?: within ([\d,]+) evaluations)? \(Barnard")
ALL = re.compile(r"(\S+): every run is solved by (.*)")
ROBUST = re.compile(r"mutants by (\S+) retain more than by (\S+),")


def mann_whitney(first: np.ndarray, second: np.ndarray) -> float:
    """Return the two-sided p-value: the normal approximation, with corrections for ties and continuity."""
    n, m = len(first), len(second)
    wins = (first[:, None] < second).sum() + 0.5 * (first[:, None] == second).sum()
    _, ties = np.unique(np.concatenate([first, second]), return_counts=True)
    total = n + m
    variance = n * m / 12 * (total + 1 - (ties**3 - ties).sum() / (total * (total - 1)))
    z = (abs(wins - n * m / 2) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def barnard(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the two-sided p-value: the pooled score, and the worst case over the common success rate."""
    (a, n), (b, m) = first, second
    i, j = np.arange(n + 1)[:, None], np.arange(m + 1)
    pooled = (i + j) / (n + m)
    with np.errstate(invalid="ignore", divide="ignore"):
        score = np.abs(i / n - j / m) / np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    score = np.nan_to_num(score)
    extreme = score >= score[a, b] - 1e-9
    ways = np.array([[math.comb(n, int(x)) * math.comb(m, int(y)) for y in j] for x in i[:, 0]], float)
    rates = np.linspace(0, 1, 2_001)[1:-1]
    return max(float((ways * rate ** (i + j) * (1 - rate) ** (n + m - i - j))[extreme].sum()) for rate in rates)


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def read_runs(folder: Path, domain: str, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the evaluations of each run and whether it was solved."""
    rows = [row for row in read_csv(folder / "runs.csv") if (row["domain"], row["method"]) == (domain, method)]
    assert rows, f"{folder}: no runs of {method} on {domain}"
    return np.array([int(row["evaluations"]) for row in rows]), np.array([row["solved"] == "1" for row in rows])


def recompute(folder: Path, claim: str) -> list[float] | None:
    """Return the p-values of a claim; None if the CSV files do not decide it."""
    if match := FASTER.match(claim):
        domain, first, second, subset = match.groups()
        samples = []
        for method in (first, second):
            evaluations, solved = read_runs(folder, domain, method)
            samples.append(evaluations[solved] if subset else np.where(solved, evaluations, np.inf))
        return [mann_whitney(*samples)]
    if match := MORE.match(claim):
        domain, first, second, at = match.groups()
        within = int(at.replace(",", "")) if at else math.inf
        counts = []
        for method in (first, second):
            evaluations, solved = read_runs(folder, domain, method)
            counts.append((int((solved & (evaluations <= within)).sum()), len(solved)))
        return [barnard(*counts)]
    if match := ROBUST.match(claim):
        rows = read_csv(folder / "robustness.csv")

        def means(evolved_by: str, operator: str) -> np.ndarray:
            chosen = [row for row in rows if (row["evolved_by"], row["perturbed_by"]) == (evolved_by, operator)]
            return np.array([float(row["mean_fraction_retained"]) for row in chosen])

        methods = dict.fromkeys(row["evolved_by"] for row in rows)
        return [mann_whitney(means(method, match[1]), means(method, match[2])) for method in methods]
    return None


def list_claims() -> list[Any]:
    return [
        pytest.param(file.parent, claim, id=f"{file.parent.parent.name}/{file.parent.name}: {claim['claim']}")
        for file in CLAIMS
        for claim in json.loads(file.read_text())["claims"]
    ]


@pytest.mark.parametrize(("folder", "claim"), list_claims())
def test_p_values_agree(folder: Path, claim: dict[str, Any]) -> None:
    printed = [float(text) for text in re.findall(r"p = ([\d.e-]+)", claim["statistic"])]
    found = recompute(folder, claim["claim"])
    if found is None:
        # Claims about fitness are about whole curves, which are not in the files; the others count solved runs.
        assert "in fitness" in claim["claim"] or not printed
        return
    assert found == pytest.approx(printed, rel=0.06)  # two digits are printed
    level = re.search(r"p (<|>=) ([\d.]+)\)", claim["claim"])
    assert level is not None
    if claim["holds"] and level[1] == "<":
        assert max(found) < float(level[2])


def test_the_page_has_the_claims_of_all_experiments() -> None:
    done = subprocess.run([sys.executable, RESULTS / "table.py"], capture_output=True, text=True, check=True)
    assert done.stdout in (RESULTS / "README.md").read_text()


@pytest.mark.parametrize(("folder", "claim"), list_claims())
def test_counts_agree(folder: Path, claim: dict[str, Any]) -> None:
    match = ALL.match(claim["claim"])
    if match is None:
        return
    methods = re.split(r", | and ", match[2])
    solved = [read_runs(folder, match[1], method)[1] for method in methods]
    assert claim["holds"] == all(runs.all() for runs in solved)
    for method, runs in zip(methods, solved, strict=True):
        assert f"{method} {runs.sum()} of {len(runs)}" in claim["statistic"]


def test_parts_of_an_experiment_are_pooled_in_the_order_of_seeds(tmp_path: Path) -> None:
    sys.path.insert(0, str(RESULTS))
    try:
        import pool
    finally:
        sys.path.remove(str(RESULTS))
    folder = tmp_path / "published" / "topdown"
    folder.mkdir(parents=True)
    lines = [",".join(pool.COLUMNS)]
    for method in ("control", "sm-g-sum", "sm-g-so"):
        for seed, run in product((1, 0), range(4, -1, -1)):
            solved, evaluations = (0, 50_000) if method == "control" else (1, 1_000 * (1 + seed) + run)
            row = ("topdown-maze", method, 0.01, seed, run, solved, evaluations, 50_000, 27.0)
            lines.append(",".join(map(str, row)))
    (folder / "parts.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit, match="10 of 11 runs of control on topdown-maze have ended"):
        pool.check(folder, 11)
    assert not (folder / "claims.json").exists()
    pool.check(folder, 10)
    assert read_runs(folder, "topdown-maze", "sm-g-so")[0].tolist() == [*range(1_000, 1_005), *range(2_000, 2_005)]
    for claim in json.loads((folder / "claims.json").read_text())["claims"]:
        test_p_values_agree(folder, claim)
        test_counts_agree(folder, claim)
    assert (folder / "solved.png").stat().st_size > 5_000
