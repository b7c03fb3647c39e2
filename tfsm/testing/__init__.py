"""What every part must satisfy, as checks: for `tfsm plugins check`, for pytest, and for whoever wants to call them.

Importing this imports neither TensorFlow nor pytest. The fixtures for pytest are in `tfsm.testing.plugin`.
"""

from tfsm.testing.failure import Failed
from tfsm.testing.suite import Check, Outcome, check, checks_for, outcomes
from tfsm.testing.target import Found, find
from tfsm.testing.trying import Subject

__all__ = ["Check", "Failed", "Found", "Outcome", "Subject", "check", "checks_for", "find", "outcomes"]
