"""What went wrong inside a run, in words for the user."""

from __future__ import annotations

import re
from typing import Final

import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.experiments.observing import one_line

_OWN: Final = re.compile(r"^(?:TfsmError|TimedOut): ")


def in_a_line(error: BaseException) -> str:
    """Return an error's type and what it says; where TensorFlow passed it on, what it said at first."""
    # Of an error in a domain that is plain Python, TensorFlow leaves the text, somewhere below its own.
    found = re.search(r"^(\w+: .*)$(?=(?:\n.*)*?\nTraceback)", str(error), re.MULTILINE)
    return found[1] if found and isinstance(error, tf.errors.OpError) else one_line(error)


def as_users_see(error: BaseException) -> BaseException:
    """Return the error that a user can do something with: of what TensorFlow passed on, the cause."""
    if not isinstance(error, tf.errors.OpError):
        return error
    message = in_a_line(error)
    own = _OWN.sub("", message)
    return TfsmError(own if own != message else f"the run failed inside TensorFlow: {message}")
