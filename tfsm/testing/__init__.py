"""The checks that every part must pass, for `tfsm plugins check`, for pytest and for Python code.

Importing this package imports neither TensorFlow nor pytest. The fixtures are in `tfsm.testing.pytest_plugin`.
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
