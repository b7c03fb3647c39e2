"""Claims, and what the runs here have to say about each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tfsm.analysis import Comparison, Verdict, compare, compare_retention, mann_whitney, mean_best_fitness
from tfsm.analysis.results import Method, Study
from tfsm.analysis.robustness import Robustness


@dataclass(frozen=True)
class Evidence:
    """What was found."""

    studies: Mapping[str, Study]
    """By domain."""
    robustness: Robustness | None = None

    def method(self, domain: str, name: str) -> Method | None:
        """Return a method of a domain, if it was run."""
        study = self.studies.get(domain)
        return None if study is None else study.method(name)


@dataclass(frozen=True)
class Finding:
    """What was found about a claim."""

    statistic: str
    """In words and numbers."""
    holds: bool | None
    """None where too little was run to say."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and how to look whether it holds here."""

    text: str
    check: Callable[[Evidence], Finding]


NOT_RUN = Finding("not run", None)


def faster(domain: str, first: str, second: str, level: float, *, failed: bool = True) -> Claim:
    """Claim that one method solves a domain in fewer evaluations than another: Mann-Whitney."""
    key = "mann-whitney-all" if failed else "mann-whitney-solved"
    whom = "" if failed else ", solved runs alone"

    def check(evidence: Evidence) -> Finding:
        return _compared(
            evidence,
            domain,
            first,
            second,
            key,
            level,
            lambda found: (found.superiority or 0.0) > 0.5,
            f"A {{:.2f}}{whom}",
        )

    return Claim(f"{_on(domain)}{first} is faster than {second}{whom} (Mann-Whitney, p < {level:g})", check)


def not_faster(domain: str, first: str, second: str, level: float, *, failed: bool = True) -> Claim:
    """Claim that no such difference is to be seen."""
    inner = faster(domain, first, second, level, failed=failed)

    def check(evidence: Evidence) -> Finding:
        found = inner.check(evidence)
        return Finding(found.statistic, None if found.holds is None else not found.holds)

    whom = "" if failed else ", solved runs alone"
    return Claim(f"{_on(domain)}{first} is not faster than {second}{whom} (Mann-Whitney, p >= {level:g})", check)


def ahead(domain: str, first: str, second: str, level: float) -> Claim:
    """Claim that one method's best fitness is above another's, on average over the run: Mann-Whitney."""

    def check(evidence: Evidence) -> Finding:
        one, other = evidence.method(domain, first), evidence.method(domain, second)
        if one is None or other is None:
            return NOT_RUN
        budget = max(one.budget, other.budget)
        means, others = (mean_best_fitness(method, budget=budget) for method in (one, other))
        verdict = mann_whitney(means.tolist(), others.tolist())
        text = f"{_p(verdict)}, median {np.median(means):.3g} against {np.median(others):.3g}"
        above = bool(np.median(means) > np.median(others))
        return Finding(text, None if verdict.p is None else verdict.p < level and above)

    return Claim(f"{_on(domain)}{first} is ahead of {second} in fitness (Mann-Whitney, p < {level:g})", check)


def solves_more(domain: str, first: str, second: str, level: float, *, at: int | None = None) -> Claim:
    """Claim that one method solves more runs than another, in the end or at a number of evaluations: Barnard."""
    when = "" if at is None else f" within {at:,} evaluations"

    def check(evidence: Evidence) -> Finding:
        def more(found: Comparison) -> bool:
            a, b = (_share(evidence.method(domain, name), at) for name in (first, second))
            return a > b

        key = "barnard-end" if at is None else "barnard-at"
        counts = " against ".join(_count(evidence.method(domain, name), at) for name in (first, second))
        return _compared(evidence, domain, first, second, key, level, more, counts, at=at)

    return Claim(f"{_on(domain)}{first} solves more runs than {second}{when} (Barnard, p < {level:g})", check)


def solves_all(domain: str, *names: str) -> Claim:
    """Claim that every run of these methods is solved."""

    def check(evidence: Evidence) -> Finding:
        found = [evidence.method(domain, name) for name in names]
        if any(method is None for method in found):
            return NOT_RUN
        text = ", ".join(f"{name} {_count(method)}" for name, method in zip(names, found, strict=True))
        return Finding(text, all(method is not None and method.solved == len(method.outcomes) for method in found))

    return Claim(f"{_on(domain)}every run is solved by {_listed(names)}", check)


def solves_fewest(domain: str, name: str) -> Claim:
    """Claim that no other method solves as few runs."""

    def check(evidence: Evidence) -> Finding:
        study = evidence.studies.get(domain)
        if study is None or study.method(name) is None or len(study.methods) < 2:
            return NOT_RUN
        text = ", ".join(f"{method.name} {_count(method)}" for method in study.methods)
        others = [_share(method, None) for method in study.methods if method.name != name]
        return Finding(text, _share(study.method(name), None) < min(others))

    return Claim(f"{_on(domain)}{name} solves the fewest runs", check)


def more_robust(operator: str, other: str, level: float) -> Claim:
    """Claim that mutants by one operator retain more than by another, whatever evolved the solution."""

    def check(evidence: Evidence) -> Finding:
        found = evidence.robustness
        if found is None or not {operator, other} <= set(found.operators):
            return NOT_RUN
        texts, holds = [], []
        for method in found.methods:
            first, second = found.means(method, operator), found.means(method, other)
            verdict = compare_retention(first, second)
            texts.append(f"{method}: {first.mean():.2f} against {second.mean():.2f}, {_p(verdict)}")
            holds.append(None if verdict.p is None else verdict.p < level and bool(first.mean() > second.mean()))
        known = [held for held in holds if held is not None]
        return Finding("; ".join(texts), all(known) if known else None)

    return Claim(
        f"mutants by {operator} retain more than by {other}, whatever evolved the solution "
        f"(Mann-Whitney, p < {level:g})",
        check,
    )


def _compared(
    evidence: Evidence,
    domain: str,
    first: str,
    second: str,
    key: str,
    level: float,
    right_way: Callable[[Comparison], bool],
    text: str,
    *,
    at: int | None = None,
) -> Finding:
    one, other = evidence.method(domain, first), evidence.method(domain, second)
    if one is None or other is None:
        return NOT_RUN
    found = compare(one, other, at=at)
    verdict = found.verdicts[key]
    words = f"{_p(verdict)}, {text.format(found.superiority or 0.0)}"
    return Finding(words, None if verdict.p is None else verdict.p < level and right_way(found))


def _sooner(found: Comparison) -> bool:
    return found.superiority is not None and found.superiority > 0.5


def _p(verdict: Verdict) -> str:
    return verdict.note or "no p" if verdict.p is None else f"p = {verdict.p:.2g}"


def _share(method: Method | None, at: int | None) -> float:
    if method is None or not method.outcomes:
        return 0.0
    return _solved(method, at) / len(method.outcomes)


def _count(method: Method | None, at: int | None = None) -> str:
    return "not run" if method is None else f"{_solved(method, at)} of {len(method.outcomes)}"


def _solved(method: Method, at: int | None) -> int:
    return sum(outcome.solved and (at is None or outcome.evaluations <= at) for outcome in method.outcomes)


def _on(domain: str) -> str:
    return f"{domain}: "


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
