"""How many examples are tried: a few that are always the same, or as many as one asks for."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

EXAMPLES: Final = "TFSM_FUZZ_EXAMPLES"
"""The environment variable that says how many, drawn anew each time."""


def fuzzed(few: int, share: float = 1.0) -> settings:
    """Return settings for a test.

    Args:
        few: examples where nobody asks for more.
        share: what the test takes of the examples that are asked for; below 1 where each takes seconds.
    """
    wanted = os.environ.get(EXAMPLES)
    return settings(
        max_examples=few if wanted is None else max(few, round(int(wanted) * share)),
        derandomize=wanted is None,
        # What is slow is told by `limits`, which knows that a first command imports TensorFlow.
        deadline=None,
        database=None,
        # To make an example small takes hundreds of commands: worth it for somebody who hunts, not for every change.
        phases=[Phase.generate] if wanted is None else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
