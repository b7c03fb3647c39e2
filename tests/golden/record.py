"""Record golden runs: `python -m tests.golden.record > tests/golden/runs.json`, when results are meant to change."""

from __future__ import annotations

import json
from typing import Any

import tfsm

OPERATORS = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")


class Listener:
    """Keeps the metrics."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, Any]] = []

    def on_interval(self, interval: Any) -> None:
        """Keep the metrics of an interval."""
        self.metrics.append(interval.metrics)


def golden_run(mutation: str) -> list[dict[str, Any]]:
    """Return the metrics of two short runs of recurrent parity."""
    listener = Listener()
    tfsm.evolve(
        "parity",
        mutation=mutation,
        runs=2,
        seed=11,
        population=10,
        evaluations=60,
        observers=[listener],
        bits=3,
        units=5,
        log_every=10,
        size=3,
    )
    # Layers by their place, so that everything is a number or a list of them.
    return [
        {name: list(value.values()) if isinstance(value, dict) else value for name, value in metric.items()}
        for metric in listener.metrics
    ]


if __name__ == "__main__":
    print(json.dumps({mutation: golden_run(mutation) for mutation in OPERATORS}, indent=1))
