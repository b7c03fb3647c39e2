"""The paper's claims, checked on synthetic runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.outcomes import make_method
from tfsm.analysis.claims import (
    Claim,
    Evidence,
    ahead,
    faster,
    more_robust,
    not_faster,
    solves_all,
    solves_fewest,
    solves_more,
)
from tfsm.analysis.reproduce import FIGURES, Reproduction, summarize_claims
from tfsm.analysis.results import Method, Study
from tfsm.analysis.robustness import MutantSample, Robustness
from tfsm.plugins import load_plugins

EARLY, LATE = list(range(10, 18)), list(range(50, 58))


def make_evidence(*methods: Method) -> Evidence:
    return Evidence({"d": Study("d", methods)})


def test_a_claim_of_speed_depends_on_significance_and_direction() -> None:
    found = make_evidence(make_method("a", EARLY), make_method("b", LATE))
    assert faster("d", "a", "b", 0.05).check(found).holds is True
    assert faster("d", "b", "a", 0.05).check(found).holds is False
    assert not_faster("d", "b", "a", 0.05).check(found).holds is True
    # Eight against eight without overlap: p = 2 / C(16, 8) = 1.55e-4, and every pair is won.
    finding = faster("d", "a", "b", 0.05).check(found)
    assert "p = 0.00016" in finding.statistic
    assert "A 1.00" in finding.statistic


def test_a_claim_may_include_or_exclude_failed_runs() -> None:
    found = make_evidence(make_method("a", EARLY), make_method("b", EARLY[:5], 15))
    assert faster("d", "a", "b", 0.05).check(found).holds is True
    assert faster("d", "a", "b", 0.05, include_unsolved=False).check(found).holds is False


def test_a_claim_of_solved_runs_uses_barnards_test() -> None:
    found = make_evidence(make_method("a", EARLY), make_method("b", LATE), make_method("c", [], 10))
    assert solves_more("d", "a", "c", 0.05).check(found).holds is True
    assert solves_more("d", "a", "b", 0.05).check(found).holds is False
    at = solves_more("d", "a", "b", 0.05, at=30).check(found)
    assert at.holds is True
    assert "8 of 8 against 0 of 8" in at.statistic
    assert solves_more("d", "c", "a", 0.05).check(found).holds is False


def test_claims_of_all_or_fewest_solved_count_runs() -> None:
    found = make_evidence(make_method("a", EARLY), make_method("b", EARLY, 1), make_method("c", [], 10))
    assert solves_all("d", "a").check(found).holds is True
    assert solves_all("d", "a", "b").check(found).holds is False
    assert solves_fewest("d", "c").check(found).holds is True
    assert solves_fewest("d", "b").check(found).holds is False
    assert solves_fewest("d", "b").check(make_evidence(make_method("b", [], 2), make_method("c", [], 2))).holds is False


def make_method_with_fitness(name: str, values: Sequence[float]) -> Method:
    plain = make_method(name, [], len(values))
    lines = tuple({"run": run, "evaluations": 10, "best_fitness": value} for run, value in enumerate(values))
    return Method(name, plain.outcomes, 100, lines, plain.settings)


def test_a_claim_of_fitness_compares_fitness() -> None:
    found = make_evidence(
        make_method_with_fitness("a", [-1.0, -1.1, -1.2, -1.3]), make_method_with_fitness("b", [-2.0, -2.1, -2.2, -2.3])
    )
    assert ahead("d", "a", "b", 0.05).check(found).holds is True
    assert ahead("d", "b", "a", 0.05).check(found).holds is False
    assert "median -1.15 against -2.15" in ahead("d", "a", "b", 0.05).check(found).statistic


def test_fewer_runs_than_the_papers_are_mentioned() -> None:
    few = make_evidence(make_method("control", EARLY), make_method("sm-r", LATE))
    note = "with 8 runs per method instead of 20"
    assert Reproduction("parity", FIGURES["parity"], 1.0, few, []).scale_note == note
    all_runs = make_evidence(make_method("control", range(10, 30)), make_method("sm-r", range(50, 70)))
    assert Reproduction("parity", FIGURES["parity"], 1.0, all_runs, []).scale_note == ""


def test_the_claims_of_several_results_are_one_table() -> None:
    found = make_evidence(make_method("control", EARLY))
    results = [Reproduction(name, FIGURES[name], 0.5, found, []) for name in ("parity", "topdown")]
    table = summarize_claims(results)
    claims = sum(len(FIGURES[name].claims) for name in ("parity", "topdown"))
    assert sum(line.endswith("| undecided |") for line in table.splitlines()) == claims
    assert "- topdown: scaled down to 0.5" in table


@pytest.mark.parametrize(
    "claim",
    [faster("d", "a", "b", 0.05), not_faster("d", "a", "b", 0.05), solves_more("d", "a", "b", 0.05)],
)
def test_one_run_per_side_is_inconclusive(claim: Claim) -> None:
    assert claim.check(make_evidence(make_method("a", [10]), make_method("b", [50]))).holds is None


def test_missing_methods_are_inconclusive() -> None:
    for figure in FIGURES.values():
        for claim in figure.claims:
            assert claim.check(Evidence({})).holds is None, claim.text


def make_robustness(method_: str, operator: str, means: Sequence[float]) -> list[MutantSample]:
    return [
        MutantSample(method_, run, operator, 0.1, 1.0, np.array([mean]), np.array([mean]))
        for run, mean in enumerate(means)
    ]


def test_a_claim_of_robustness_must_hold_for_every_method() -> None:
    high, low = [0.9, 0.91, 0.92, 0.93, 0.94, 0.95], [0.1, 0.11, 0.12, 0.13, 0.14, 0.15]
    both = [*make_robustness("a", "safe", high), *make_robustness("a", "control", low)]
    claim = more_robust("safe", "control", 0.05)
    first = Robustness("d", "m", 1, 0.0, tuple(both), ())
    assert claim.check(Evidence({}, first)).holds is True
    worse = [*both, *make_robustness("b", "safe", low), *make_robustness("b", "control", high)]
    assert claim.check(Evidence({}, Robustness("d", "m", 1, 0.0, tuple(worse), ()))).holds is False


def test_the_catalog_names_existing_parts_at_the_papers_scale() -> None:
    plugins = load_plugins()
    for figure in FIGURES.values():
        assert all(domain in plugins.domains for domain in figure.domains)
        assert all(mutation in plugins.mutations for mutation in figure.mutations)
        assert figure.claims
    assert FIGURES["parity"].runs == 20
    assert FIGURES["first-person"].runs == 30
    assert FIGURES["hard-maze"].at == 60_000


def test_a_scaled_reproduction_is_marked_in_every_file(tmp_path: Path) -> None:
    found = make_evidence(make_method("control", EARLY), make_method("sm-r", LATE))
    small = Reproduction("parity", FIGURES["parity"], 0.1, found, ["tfsm", "reproduce", "parity", "--scale", "0.1"])
    small.save(tmp_path)
    assert "Scaled down to 0.1" in (tmp_path / "claims.md").read_text()
    assert '"scale": 0.1' in (tmp_path / "claims.json").read_text()
    whole = Reproduction("parity", FIGURES["parity"], 1.0, found, ["tfsm", "reproduce", "parity"])
    assert "caled down" not in whole.markdown()
    rows = (tmp_path / "runs.csv").read_text().splitlines()
    assert rows[0].startswith("domain,method,intensity,run,solved")
    assert rows[1] == "d,control,0.1,0,1,10,0.0"
    assert len(rows) == 1 + 16
