"""What the environment must say before TensorFlow is imported, in this process or in one that will be started."""

from __future__ import annotations

from collections.abc import MutableMapping

from tfsm.errors import TfsmError


def prepare(environ: MutableMapping[str, str]) -> None:
    """Set the backend, quiet and speed, each unless the user has set it to something of his own."""
    backend = environ.setdefault("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        raise TfsmError(f"KERAS_BACKEND is {backend!r}: tfsm runs on Keras' TensorFlow backend only; unset it")
    environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Convolutions are twice as fast by it, and TensorFlow switches it on by itself on some processors only.
    environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
