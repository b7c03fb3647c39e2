"""Importing TensorFlow without its chatter."""

from __future__ import annotations

import os
import sys

from tfsm.compile_cache import use_compile_cache
from tfsm.registry import Entry
from tfsm.starting import prepare, without_notices


def import_quietly() -> None:
    """Import TensorFlow with its start-up notices off, unless the user has asked for a level of his own."""
    prepare(os.environ)
    if "tensorflow" not in sys.modules:
        use_compile_cache(os.environ)
    # The notices come before the level is looked at.
    with without_notices():
        import tensorflow as tf

        tf.config.list_physical_devices()  # looks for accelerators, and complains where there is none


def import_for(*entries: Entry) -> None:
    """Import TensorFlow now if a part must be imported to be asked for its options."""
    if any(entry.options is None for entry in entries):
        import_quietly()
