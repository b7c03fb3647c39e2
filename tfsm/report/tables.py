"""Tables, provenance."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import Any

from tfsm.analysis import Comparison, MethodSummary, Verdict, is_significant
from tfsm.analysis.results import Method, Study, method_names
from tfsm.report.findings import Findings
from tfsm.report.formatting import MISSING, format_interval, format_number, format_p_value, format_percent, join_words
from tfsm.settings.schema import flatten_settings


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row says what the row is about."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    """Which columns hold numbers."""
    notes: tuple[str, ...] = ()
    grouped: bool = False
    """Whether rows whose first cells are equal belong together."""


def tabulate_results(findings: Findings) -> Table:
    """Return how many runs each method solved, how soon, and how well."""
    rows = [
        _result(summary, method) for summary, method in zip(findings.summaries, findings.study.methods, strict=True)
    ]
    return Table(
        "Results of each method, with 95% confidence intervals",
        ("method", "solved", "share solved", "median evaluations", "best fitness"),
        tuple(rows),
        numeric=frozenset({1, 2, 3, 4}),
        notes=(
            "Share solved: with Wilson's interval.",
            "Median evaluations: to the solution, of all runs, those without one being later than all others; not "
            "reached if less than half were solved. With few runs an end of its interval cannot be known.",
            "Best fitness: the median of the runs' best, and the lowest and highest of them.",
        ),
    )


def tabulate_effects(findings: Findings) -> Table:
    """Return how large the differences between methods are."""
    return Table(
        "How large the differences are",
        ("methods", "first is faster", "difference of shares solved"),
        tuple(_effect(comparison) for comparison in findings.comparisons),
        numeric=frozenset({1, 2}),
        notes=(
            "First is faster: how probable it is that a run of the first method is solved sooner than one of the "
            "second, ties counting half (Vargha and Delaney's A); 50% means no difference.",
            "Difference of shares solved: first minus second, with Newcombe's 95% interval.",
        ),
    )


def tabulate_tests(findings: Findings) -> Table:
    """Return what the tests say."""
    rows = [
        (format_pair(comparison), describe_question(key, comparison), verdict.test, *_verdict(verdict))
        for comparison in findings.comparisons
        for key, verdict in comparison.verdicts.items()
    ]
    return Table(
        "Whether the differences could be chance: two-sided tests",
        ("methods", "question", "test", "p", "p (Holm)", "at 5%", "note"),
        tuple(rows),
        numeric=frozenset({3, 4}),
        notes=(
            "p (Holm): adjusted by Holm's method over all pairs, for each test by itself. It alone decides.",
            "Not shown does not mean equal: there may be too few runs to see a difference.",
        ),
        grouped=True,
    )


def format_pair(comparison: Comparison) -> str:
    """Return which methods are compared."""
    return f"{comparison.first} against {comparison.second}"


def describe_question(key: str, comparison: Comparison) -> str:
    """Return what a test answers."""
    return {
        "mann-whitney-all": "faster, unsolved runs last?",
        "mann-whitney-solved": "faster, among solved runs?",
        "barnard-end": "more solved in the end?",
        "barnard-at": f"more solved within {format_number(comparison.at)}?",
        "log-rank": "solved sooner, all along?",
        "mann-whitney-fitness": "fitter in the end?",
    }.get(key, key)


def _result(summary: MethodSummary, method: Method) -> tuple[str, ...]:
    median, ends = summary.median_evaluations, summary.median_interval
    low, high = map(format_percent, summary.share_interval)
    return (
        summary.name,
        f"{summary.solved} of {summary.runs}",
        f"{format_percent(summary.share)} ({low} to {high})",
        "not reached" if median is None else f"{format_number(median)} ({format_interval(*ends)})",
        _fitness(summary, method),
    )


def _fitness(summary: MethodSummary, method: Method) -> str:
    known = [outcome.best_fitness for outcome in method.outcomes if outcome.best_fitness is not None]
    best = [fitness for fitness in known if isfinite(fitness)]
    if not best or summary.median_best_fitness is None:
        return format_number(None)
    middle = format_number(summary.median_best_fitness)
    return middle if len(best) == 1 else f"{middle} ({format_number(min(best))} to {format_number(max(best))})"


def _effect(comparison: Comparison) -> tuple[str, ...]:
    faster, difference = comparison.superiority, comparison.solved_difference
    return (
        format_pair(comparison),
        format_number(None) if faster is None else format_percent(faster),
        format_number(None)
        if difference is None
        else f"{difference.value:+.0%} ({difference.low:+.0%} to {difference.high:+.0%})",
    )


def _verdict(verdict: Verdict) -> tuple[str, str, str, str]:
    said = "no test" if verdict.p is None else "significant" if is_significant(verdict) else "not shown"
    return format_p_value(verdict.p), format_p_value(verdict.adjusted), said, verdict.note


def tabulate_setting_differences(study: Study) -> Table:
    """Return the settings in which the methods differ."""
    rows = tuple(row for row in _rows(study) if len(set(row[1:])) > 1)
    return Table("Settings in which the methods differ", ("setting", *method_names(study.methods)), rows)


def tabulate_settings(study: Study) -> Table:
    """Return all settings."""
    return Table("All settings", ("setting", *method_names(study.methods)), _rows(study))


def _rows(study: Study) -> tuple[tuple[str, ...], ...]:
    flat = [flatten_settings(method.settings) for method in study.methods]
    keys = dict.fromkeys(key for settings in flat for key in settings)
    return tuple((key, *(_shown(settings[key]) if key in settings else MISSING for settings in flat)) for key in keys)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def collect_warnings(study: Study) -> list[str]:
    """Return what must be known before a number is believed."""
    said = []
    unfinished = [method for method in study.methods if not _is_finished(method)]
    if unfinished:
        which = join_words([f"{method.name} ({_status(method)}, {_ended(method)} runs ended)" for method in unfinished])
        said.append(f"Unfinished: {which}. What is told here may change.")
    for scale in dict.fromkeys(_scale(method) for method in study.methods):
        if scale is not None:
            which = join_words([method.name for method in study.methods if _scale(method) == scale])
            said.append(
                f"Scaled down (scale {scale}): {which}. Runs are fewer or shorter than in the experiment that they "
                "stand for, and nothing told here is a result of that."
            )
    budgets = {method.budget for method in study.methods}
    if len(budgets) > 1:
        said.append(
            "The methods had different budgets; how many runs each solved in the end cannot be compared fairly. "
            f"Give --at {min(budgets)} to compare within the smallest."
        )
    return said


def tabulate_runs(study: Study) -> Table:
    """Return which runs there are, and how they ended."""
    return Table(
        "Which runs the report is made of",
        ("method", "runs ended", "budget", "seed", "status", "started", "took", "directory"),
        tuple(
            (
                method.name,
                _ended(method),
                f"{method.budget:,}",
                str(method.record.get("seed", MISSING)),
                _status(method),
                _started(method),
                _took(method),
                MISSING if method.directory is None else str(method.directory),
            )
            for method in study.methods
        ),
        numeric=frozenset({1, 2, 3}),
        notes=("Budget: the most evaluations of one run. Started: in UTC.",),
    )


def list_commands(study: Study) -> list[str]:
    """Return the command lines, each once."""
    typed = [method.record.get("command") for method in study.methods]
    lines = [shlex.join(map(str, words)) for words in typed if isinstance(words, list) and words]
    return list(dict.fromkeys(lines))


def list_versions(study: Study) -> list[tuple[str, str]]:
    """Return which versions computed it; several if methods were run with different ones."""
    found: dict[str, dict[str, None]] = {}
    for method in study.methods:
        told = method.record.get("versions")
        for package, version in told.items() if isinstance(told, dict) else ():
            found.setdefault(str(package), {})[str(version)] = None
    return [(package, " and ".join(known)) for package, known in found.items()]


def count_requested_runs(method: Method) -> int:
    """Return how many runs there should be."""
    runs = method.settings.get("runs")
    return runs if isinstance(runs, int) else len(method.outcomes)


def _is_finished(method: Method) -> bool:
    # Records made by hand may have no status; what they hold is all there is.
    return method.record.get("status", "finished") == "finished" and len(method.outcomes) >= count_requested_runs(
        method
    )


def _status(method: Method) -> str:
    return str(method.record.get("status", "unknown"))


def _ended(method: Method) -> str:
    return f"{len(method.outcomes)} of {count_requested_runs(method)}"


def _scale(method: Method) -> str | None:
    scale: Any = method.record.get("scale")
    return None if scale is None or scale == 1 or scale is False else str(scale)


def _started(method: Method) -> str:
    try:
        return f"{datetime.fromisoformat(method.record['started']):%Y-%m-%d %H:%M}"
    except (KeyError, TypeError, ValueError):
        return MISSING


def _took(method: Method) -> str:
    try:
        began, ended = (datetime.fromisoformat(method.record[key]) for key in ("started", "ended"))
        return str(timedelta(seconds=round((ended - began).total_seconds())))
    except (KeyError, TypeError, ValueError):
        return MISSING
