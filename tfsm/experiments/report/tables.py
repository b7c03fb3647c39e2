"""What a report tells in tables, whoever draws them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from tfsm.experiments.outcomes import Method
from tfsm.experiments.report.findings import Findings
from tfsm.experiments.report.words import interval, number, p_value, percent
from tfsm.experiments.statistics import Comparison, Summary, Verdict, significant


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


def results(findings: Findings) -> Table:
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


def effects(findings: Findings) -> Table:
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


def tests(findings: Findings) -> Table:
    """Return what the tests say."""
    rows = [
        (pair(comparison), question(key, comparison), verdict.test, *_verdict(verdict))
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


def pair(comparison: Comparison) -> str:
    """Return which methods are compared."""
    return f"{comparison.first} against {comparison.second}"


def question(key: str, comparison: Comparison) -> str:
    """Return what a test answers."""
    return {
        "mann-whitney-all": "faster, unsolved runs last?",
        "mann-whitney-solved": "faster, among solved runs?",
        "barnard-end": "more solved in the end?",
        "barnard-at": f"more solved within {number(comparison.at)}?",
        "log-rank": "solved sooner, all along?",
        "mann-whitney-fitness": "fitter in the end?",
    }.get(key, key)


def _result(summary: Summary, method: Method) -> tuple[str, ...]:
    median, ends = summary.median_evaluations, summary.median_interval
    return (
        summary.name,
        f"{summary.solved} of {summary.runs}",
        f"{percent(summary.share)} ({percent(summary.share_interval[0])} to {percent(summary.share_interval[1])})",
        "not reached" if median is None else f"{number(median)} ({interval(*ends)})",
        _fitness(summary, method),
    )


def _fitness(summary: Summary, method: Method) -> str:
    known = [outcome.best_fitness for outcome in method.outcomes if outcome.best_fitness is not None]
    best = [fitness for fitness in known if isfinite(fitness)]
    if not best or summary.median_best_fitness is None:
        return number(None)
    middle = number(summary.median_best_fitness)
    return middle if len(best) == 1 else f"{middle} ({number(min(best))} to {number(max(best))})"


def _effect(comparison: Comparison) -> tuple[str, ...]:
    faster, difference = comparison.superiority, comparison.solved_difference
    return (
        pair(comparison),
        number(None) if faster is None else percent(faster),
        number(None)
        if difference is None
        else f"{difference.value:+.0%} ({difference.low:+.0%} to {difference.high:+.0%})",
    )


def _verdict(verdict: Verdict) -> tuple[str, str, str, str]:
    said = "no test" if verdict.p is None else "significant" if significant(verdict) else "not shown"
    return p_value(verdict.p), p_value(verdict.adjusted), said, verdict.note
