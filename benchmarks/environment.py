"""The environment of a measurement: one core, one thread, and what a reader needs to know to judge it."""

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


def use_one_core() -> int | None:
    """Restrict this process and its children to one core and one thread; return the core, or None if it is not pinned.

    Call it before importing a numerical library, because these size their thread pools on import.
    """
    for name in _THREADS:
        os.environ[name] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["TFSM_COMPILE_CACHE"] = "off"  # first calls are reported, and must not depend on earlier processes
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def describe_environment(core: int | None) -> dict[str, Any]:
    """Return the machine, the time and the software of this measurement."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "processor": read_processor(),
        "cores_in_machine": os.cpu_count(),
        "cores_used": 1,
        "pinned_to_core": core,
        "load_average": read_load_average(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": collect_versions(),
    }


def collect_versions() -> dict[str, str | None]:
    """Return the versions of the measured packages, or None if one is not installed."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def read_load_average() -> list[float] | None:
    """Return the load averages over 1, 5 and 15 minutes, or None if the system has none."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None


def read_processor() -> str:
    """Return the model of the processor."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
