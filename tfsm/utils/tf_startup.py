"""Start TensorFlow: environment variables, a quiet import, and the cache of compiled code."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tfsm.errors import TfsmError

CONCURRENCY: Final = "TF_NUM_INTEROP_THREADS"
"""The number of operations that TensorFlow runs at the same time."""


def set_tensorflow_environment(environ: MutableMapping[str, str]) -> None:
    """Set Keras' backend and TensorFlow's log level and options, unless the user has set them."""
    backend = environ.setdefault("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        raise TfsmError(f"KERAS_BACKEND is {backend!r}: tfsm runs on Keras' TensorFlow backend only; unset it")
    environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Makes convolutions twice as fast. TensorFlow enables it by default on some processors only.
    environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    # A domain in plain Python occupies one of these threads. `model.predict` in it would wait for a second one forever.
    if environ.get(CONCURRENCY, str(os.cpu_count())) == "1":
        environ[CONCURRENCY] = "2"


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Discard what libraries write directly to the file descriptor of stderr."""
    with open(os.devnull, "w") as nothing:
        stderr = os.dup(2)
        os.dup2(nothing.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


SWITCH: Final = "TFSM_COMPILE_CACHE"
FLAG: Final = "--tf_xla_persistent_cache_directory"
MAX_BYTES: Final = 256 * 2**20
"""Size of the cache; beyond it, the files that were not used for the longest time are removed."""


def use_compile_cache(environ: MutableMapping[str, str]) -> Path | None:
    """Let TensorFlow, which must not be imported yet, cache compiled code; return the folder, or None without a cache.

    `TFSM_COMPILE_CACHE` names another folder, or disables the cache (`off`). There is no cache if the folder cannot be
    written.
    """
    chosen = environ.get(SWITCH, "")
    if chosen.lower() in ("off", "0", "no", "false") or FLAG in environ.get("TF_XLA_FLAGS", ""):
        return None
    base = Path(chosen) if chosen else Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfsm" / "xla"
    folder = base / _signature()
    # TensorFlow splits its flags at spaces.
    if " " in str(folder):
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    environ["TF_XLA_FLAGS"] = f"{environ.get('TF_XLA_FLAGS', '')} {FLAG}={folder}".strip()
    return folder


def _signature() -> str:
    """Return a name for what compiled code depends on: TensorFlow's version and the processor's features."""
    processor = platform.machine() + platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        processor += "".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
    digest = hashlib.sha256(processor.encode()).hexdigest()[:12]
    return f"tensorflow-{version('tensorflow')}-{digest}"


def _prune(folder: Path) -> None:
    files = sorted((file.stat().st_atime, file.stat().st_size, file) for file in folder.iterdir() if file.is_file())
    total = sum(size for _, size, _ in files)
    for _, size, file in files:
        if total <= MAX_BYTES:
            return
        file.unlink(missing_ok=True)
        total -= size


THREADS: Final = "TF_NUM_INTRAOP_THREADS"


def set_threads(environ: MutableMapping[str, str], threads: int | None, *, required: bool = False) -> None:
    """Set the number of threads per operation, which TensorFlow reads when it starts.

    Args:
        environ: the environment.
        threads: the number; None: as many as TensorFlow likes.
        required: whether it overrides what the user has set in the environment.
    """
    if threads is not None and (required or THREADS not in environ):
        environ[THREADS] = str(threads)


def import_tensorflow(threads: int | None = None, *, required: bool = False) -> None:
    """Import TensorFlow without its start-up notices.

    Args:
        threads: threads per operation, if TensorFlow is not imported yet; None: as many as it likes.
        required: whether it overrides what the user has set in the environment.
    """
    set_tensorflow_environment(os.environ)
    if "tensorflow" not in sys.modules:
        use_compile_cache(os.environ)
        set_threads(os.environ, threads, required=required)
    # The notices are printed before TensorFlow reads the log level.
    with silence_stderr():
        import tensorflow as tf

        tf.config.list_physical_devices()  # looks for accelerators, and complains if there are none
