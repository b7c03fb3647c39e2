"""What every part must satisfy, as checks: for `tfsm plugins check`, for pytest, and for whoever wants to call them.

Importing this imports neither TensorFlow nor pytest. The fixtures for pytest are in `tfsm.testing.pytest_plugin`.
"""

from __future__ import annotations

from tfsm.testing.suite import Check, Failed, Found, Outcome, Subject, check, checks_for, find, outcomes

__all__ = ["Check", "Failed", "Found", "Outcome", "Subject", "check", "checks_for", "find", "outcomes"]
