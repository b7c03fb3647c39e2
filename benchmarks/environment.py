"""Where a measurement was made: one core, one thread, and everything that a reader needs to judge it."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

PACKAGES = ("tfsm", "tensorflow", "keras", "numpy", "pygad", "evotorch", "torch", "evosax", "jax")
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)


def one_core() -> int | None:
    """Keep this process and its children to one core and one thread; return the core, None where it can't be pinned.

    To be called before a numerical library is imported: they size their thread pools by what they find.
    """
    for name in _THREADS:
        os.environ[name] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["TFSM_COMPILE_CACHE"] = "off"  # first calls are reported, and must not depend on who was here before
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def describe(core: int | None) -> dict[str, Any]:
    """Return where and when and with what this run is made."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "processor": processor(),
        "cores_in_machine": os.cpu_count(),
        "cores_used": 1,
        "pinned_to_core": core,
        "load_average": load(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of the packages that take part; None where one is not installed."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def load() -> list[float] | None:
    """Return the machine's load averages over 1, 5 and 15 minutes, where it keeps them."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None


def processor() -> str:
    """Return the processor's model."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
