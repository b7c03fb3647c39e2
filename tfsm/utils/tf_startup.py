"""Env vars, quiet import, XLA cache."""

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


def set_tensorflow_environment(environ: MutableMapping[str, str]) -> None:
    """Set the backend, quiet and speed, each unless the user has set it to something of his own."""
    backend = environ.setdefault("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        raise TfsmError(f"KERAS_BACKEND is {backend!r}: tfsm runs on Keras' TensorFlow backend only; unset it")
    environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Convolutions are twice as fast by it, and TensorFlow switches it on by itself on some processors only.
    environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Silence what libraries write straight to the file descriptor of the standard error."""
    with open(os.devnull, "w") as nowhere:
        kept = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


SWITCH: Final = "TFSM_COMPILE_CACHE"
FLAG: Final = "--tf_xla_persistent_cache_directory"
LARGEST: Final = 256 * 2**20
"""Bytes; when the cache has grown beyond, what was not used for longest goes."""


def use_compile_cache(environ: MutableMapping[str, str]) -> Path | None:
    """Tell TensorFlow, which must not be imported yet, to keep compiled code; return where.

    `TFSM_COMPILE_CACHE` names another folder, or switches it off (`off`). A folder that cannot be written is no error:
    then nothing is kept.
    """
    wanted = environ.get(SWITCH, "")
    if wanted.lower() in ("off", "0", "no", "false") or FLAG in environ.get("TF_XLA_FLAGS", ""):
        return None
    base = Path(wanted) if wanted else Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfsm" / "xla"
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
    """Name what compiled code depends on: TensorFlow's version and what the processor can do."""
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
        if total <= LARGEST:
            return
        file.unlink(missing_ok=True)
        total -= size


def import_tensorflow() -> None:
    """Import TensorFlow with its start-up notices off, unless the user has asked for a level of his own."""
    set_tensorflow_environment(os.environ)
    if "tensorflow" not in sys.modules:
        use_compile_cache(os.environ)
    # The notices come before the level is looked at.
    with silence_stderr():
        import tensorflow as tf

        tf.config.list_physical_devices()  # looks for accelerators, and complains where there is none
