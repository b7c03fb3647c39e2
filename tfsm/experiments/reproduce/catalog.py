"""The paper's figures: domains, methods, runs, and claims; all other settings are those of the shipped `tfsm.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from tfsm.experiments.reproduce.claims import (
    Claim,
    ahead,
    faster,
    more_robust,
    not_faster,
    solves_all,
    solves_fewest,
    solves_more,
)

ALL: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
SAFE: Final = ALL[1:]
GRADIENT: Final = ALL[2:]
PIXELS: Final = ("control", "sm-g-sum", "sm-g-so")
LARGE: Final = ("hard-maze-32", "hard-maze-64", "hard-maze-101")


@dataclass(frozen=True)
class Figure:
    """One of the paper's results."""

    title: str
    domains: tuple[str, ...]
    mutations: tuple[str, ...]
    claims: tuple[Claim, ...]
    runs: int = 20
    at: int | None = None
    """A number of evaluations at which the paper compares as well."""
    perturbed: bool = False
    """Whether the solutions are perturbed afterwards."""


FIGURES: Final[dict[str, Figure]] = {
    "simple": Figure(
        "the simple, poorly conditioned model (supplement, figure 1)",
        ("simple-easy", "simple-medium", "simple-washout"),
        ALL,
        (
            *(ahead("simple-easy", name, "control", 0.05) for name in SAFE),
            *(ahead("simple-medium", name, other, 0.05) for name, other in product(GRADIENT, ("sm-r", "control"))),
            solves_all("simple-medium", *GRADIENT),
            *(
                ahead("simple-washout", name, other, 0.05)
                for name, other in product(("sm-g-abs", "sm-g-so"), ("sm-g-sum", "control"))
            ),
            solves_all("simple-washout", "sm-g-abs", "sm-g-so"),
        ),
    ),
    "parity": Figure(
        "recurrent parity (figure 1)",
        ("parity",),
        ALL,
        (
            *(faster("parity", name, "control", 0.001) for name in GRADIENT),
            faster("parity", "sm-r", "control", 0.05),
            not_faster("parity", "sm-r", "control", 0.05, failed=False),
            solves_all("parity", *GRADIENT),
        ),
    ),
    "robustness": Figure(
        "robustness of solutions of recurrent parity (supplement, figure 2)",
        ("parity",),
        ALL,
        tuple(more_robust(name, "control", 0.001) for name in GRADIENT),
        perturbed=True,
    ),
    "hard-maze": Figure(
        "the breadcrumb hard maze (figure 3)",
        ("hard-maze",),
        ALL,
        (
            faster("hard-maze", "sm-g-so", "control", 0.005),
            solves_all("hard-maze", "sm-g-abs"),
            solves_more("hard-maze", "sm-g-abs", "control", 0.05, at=60_000),
            solves_more("hard-maze", "sm-g-abs", "sm-r", 0.05, at=60_000),
            not_faster("hard-maze", "sm-g-sum", "control", 0.05),
            solves_fewest("hard-maze", "sm-r"),
        ),
        at=60_000,
    ),
    "large-scale": Figure(
        "large networks in the breadcrumb hard maze (figure 4)",
        LARGE,
        PIXELS,
        tuple(solves_more(domain, "sm-g-sum", name, 0.05) for domain, name in product(LARGE, ("sm-g-so", "control"))),
    ),
    "topdown": Figure(
        "the topdown maze (figure 6)",
        ("topdown-maze",),
        PIXELS,
        (
            solves_all("topdown-maze", "sm-g-sum", "sm-g-so"),
            *(faster("topdown-maze", name, "control", 0.001) for name in ("sm-g-sum", "sm-g-so")),
        ),
    ),
    "first-person": Figure(
        "the first-person 3D maze (figure 8)",
        ("first-person-maze",),
        PIXELS,
        tuple(solves_more("first-person-maze", name, "control", 0.05) for name in ("sm-g-sum", "sm-g-so")),
        runs=30,
    ),
}
