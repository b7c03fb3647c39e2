"""What must be so before TensorFlow is imported, here or in a process that will be started; and quiet meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from tfsm.errors import TfsmError


def prepare(environ: MutableMapping[str, str]) -> None:
    """Set the backend, quiet and speed, each unless the user has set it to something of his own."""
    backend = environ.setdefault("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        raise TfsmError(f"KERAS_BACKEND is {backend!r}: tfsm runs on Keras' TensorFlow backend only; unset it")
    environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Convolutions are twice as fast by it, and TensorFlow switches it on by itself on some processors only.
    environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


@contextmanager
def without_notices() -> Iterator[None]:
    """Silence what libraries write straight to the file descriptor of the standard error."""
    with open(os.devnull, "w") as nowhere:
        kept = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
