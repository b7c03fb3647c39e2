"""The environment of a worker: as many threads as are its share, so that workers do not fight over cores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tfsm.compile_cache import use_compile_cache
from tfsm.starting import prepare

COUNTS: Final = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


def environment(size: int, threads: int | None = None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of one of several workers; it must hold before TensorFlow is imported there.

    Args:
        size: how many workers share this machine.
        threads: how many threads each may use, whatever the environment says; if None, what the user has set in the
            environment, or else an equal share of the cores.
        environ: what to begin with.
    """
    found = dict(environ)
    for name in COUNTS:
        if threads is not None:
            found[name] = str(threads)
        else:
            found.setdefault(name, str(max(1, cores() // size)))
    prepare(found)
    use_compile_cache(found)
    return found


def cores() -> int:
    """Return how many cores this process may use; not every system tells, then all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
