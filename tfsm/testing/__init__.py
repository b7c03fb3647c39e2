"""What every part must satisfy, as checks: for `tfsm plugins check`, for pytest, and for whoever wants to call them.

Importing this imports neither TensorFlow nor pytest. The fixtures for pytest are in `tfsm.testing.pytest_plugin`.
"""

from __future__ import annotations

from tfsm.testing.suite import (
    Check,
    CheckFailure,
    CheckResult,
    CheckTargets,
    PartUnderTest,
    check,
    checks_for,
    find_targets,
    run_checks,
)

__all__ = [
    "Check",
    "CheckFailure",
    "CheckResult",
    "CheckTargets",
    "PartUnderTest",
    "check",
    "checks_for",
    "find_targets",
    "run_checks",
]
