"""Importing TensorFlow without its chatter."""

from __future__ import annotations

import os


def import_quietly() -> None:
    """Import TensorFlow with its start-up notices off, unless the user has asked for a level of his own."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # The notices come before the level is looked at, straight to the file descriptor.
    with open(os.devnull, "w") as nowhere:
        kept = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()  # looks for accelerators, and complains where there is none
        finally:
            os.dup2(kept, 2)
            os.close(kept)
