"""Claims of the paper, and tests of each on the runs at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tfsm.analysis import Verdict, compare, compare_retention, mann_whitney, mean_best_fitness
from tfsm.analysis.results import Method, Study

if TYPE_CHECKING:
    from tfsm.analysis.robustness import Robustness


@dataclass(frozen=True)
class Evidence:
    """Results that claims are tested on."""

    studies: Mapping[str, Study]
    """By domain."""
    robustness: Robustness | None = None

    def method(self, domain: str, name: str) -> Method | None:
        """Return a method of a domain, or None if it was not run."""
        study = self.studies.get(domain)
        return None if study is None else study.method(name)


@dataclass(frozen=True)
class Finding:
    """The result of testing a claim."""

    statistic: str
    """Numbers, in words."""
    holds: bool | None
    """None if there are too few runs to decide."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and a function that tests it."""

    text: str
    check: Callable[[Evidence], Finding]


NOT_RUN: Final = Finding("not run", None)


def faster(domain: str, first: str, second: str, level: float, *, include_unsolved: bool = True) -> Claim:
    """Claim that one method solves a domain in fewer evaluations than another, by the Mann-Whitney U test."""
    key = "mann-whitney-all" if include_unsolved else "mann-whitney-solved"
    subset = "" if include_unsolved else ", among solved runs"

    def check(evidence: Evidence) -> Finding:
        one, other = evidence.method(domain, first), evidence.method(domain, second)
        if one is None or other is None:
            return NOT_RUN
        comparison = compare(one, other)
        superiority = comparison.superiority or 0.0
        return _finding(comparison.verdicts[key], level, superiority > 0.5, f"A {superiority:.2f}{subset}")

    return Claim(f"{domain}: {first} is faster than {second}{subset} (Mann-Whitney, p < {level:g})", check)


def not_faster(domain: str, first: str, second: str, level: float, *, include_unsolved: bool = True) -> Claim:
    """Claim that such a difference is not seen."""
    opposite = faster(domain, first, second, level, include_unsolved=include_unsolved)

    def check(evidence: Evidence) -> Finding:
        finding = opposite.check(evidence)
        return Finding(finding.statistic, None if finding.holds is None else not finding.holds)

    subset = "" if include_unsolved else ", among solved runs"
    return Claim(f"{domain}: {first} is not faster than {second}{subset} (Mann-Whitney, p >= {level:g})", check)


def ahead(domain: str, first: str, second: str, level: float) -> Claim:
    """Claim that one method's best fitness, averaged over the run, is above another's, by the Mann-Whitney U test."""

    def check(evidence: Evidence) -> Finding:
        one, other = evidence.method(domain, first), evidence.method(domain, second)
        if one is None or other is None:
            return NOT_RUN
        budget = max(one.budget, other.budget)
        means, others = (mean_best_fitness(method, budget=budget) for method in (one, other))
        verdict = mann_whitney(means.tolist(), others.tolist())
        median, other_median = np.median(means), np.median(others)
        return _finding(verdict, level, bool(median > other_median), f"median {median:.3g} against {other_median:.3g}")

    return Claim(f"{domain}: {first} is ahead of {second} in fitness (Mann-Whitney, p < {level:g})", check)


def solves_more(domain: str, first: str, second: str, level: float, *, at: int | None = None) -> Claim:
    """Claim that one method solves more runs than another, in the end or within `at` evaluations, by Barnard's test."""

    def check(evidence: Evidence) -> Finding:
        one, other = evidence.method(domain, first), evidence.method(domain, second)
        if one is None or other is None:
            return NOT_RUN
        verdict = compare(one, other, at=at).verdicts["barnard-end" if at is None else "barnard-at"]
        more = _share_solved(one, at) > _share_solved(other, at)
        return _finding(verdict, level, more, f"{_count_solved(one, at)} against {_count_solved(other, at)}")

    when = "" if at is None else f" within {at:,} evaluations"
    return Claim(f"{domain}: {first} solves more runs than {second}{when} (Barnard, p < {level:g})", check)


def solves_all(domain: str, *names: str) -> Claim:
    """Claim that every run of these methods is solved."""

    def check(evidence: Evidence) -> Finding:
        methods = [method for name in names if (method := evidence.method(domain, name)) is not None]
        if len(methods) < len(names):
            return NOT_RUN
        return Finding(_list_counts(methods), all(method.solved == len(method.outcomes) for method in methods))

    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return Claim(f"{domain}: every run is solved by {listed}", check)


def solves_fewest(domain: str, name: str) -> Claim:
    """Claim that every other method solves more runs."""

    def check(evidence: Evidence) -> Finding:
        study = evidence.studies.get(domain)
        method = evidence.method(domain, name)
        if study is None or method is None or len(study.methods) < 2:
            return NOT_RUN
        others = [_share_solved(other) for other in study.methods if other.name != name]
        return Finding(_list_counts(study.methods), _share_solved(method) < min(others))

    return Claim(f"{domain}: {name} solves the fewest runs", check)


def more_robust(operator: str, other: str, level: float) -> Claim:
    """Claim that mutants by one operator retain more than those by another, on the solutions of every method."""

    def check(evidence: Evidence) -> Finding:
        robustness = evidence.robustness
        if robustness is None or not {operator, other} <= set(robustness.operators):
            return NOT_RUN
        findings = []
        for method in robustness.methods:
            first, second = robustness.means(method, operator), robustness.means(method, other)
            verdict = compare_retention(first, second)
            text = f"{method}: {first.mean():.2f} against {second.mean():.2f}, {_p_value(verdict)}"
            findings.append(Finding(text, _holds(verdict, level, bool(first.mean() > second.mean()))))
        decided = [finding.holds for finding in findings if finding.holds is not None]
        return Finding("; ".join(finding.statistic for finding in findings), all(decided) if decided else None)

    return Claim(
        f"mutants by {operator} retain more than by {other}, whatever evolved the solution "
        f"(Mann-Whitney, p < {level:g})",
        check,
    )


def _finding(verdict: Verdict, level: float, expected_direction: bool, text: str) -> Finding:
    return Finding(f"{_p_value(verdict)}, {text}", _holds(verdict, level, expected_direction))


def _holds(verdict: Verdict, level: float, expected_direction: bool) -> bool | None:
    return None if verdict.p is None else verdict.p < level and expected_direction


def _p_value(verdict: Verdict) -> str:
    return verdict.note or "no p-value" if verdict.p is None else f"p = {verdict.p:.2g}"


def _solved(method: Method, at: int | None) -> int:
    return sum(outcome.solved and (at is None or outcome.evaluations <= at) for outcome in method.outcomes)


def _share_solved(method: Method, at: int | None = None) -> float:
    return _solved(method, at) / len(method.outcomes) if method.outcomes else 0.0


def _count_solved(method: Method, at: int | None = None) -> str:
    return f"{_solved(method, at)} of {len(method.outcomes)}"


def _list_counts(methods: Sequence[Method]) -> str:
    return ", ".join(f"{method.name} {_count_solved(method)}" for method in methods)
