"""The environment and fixtures of all tests."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version

import pytest

gc.disable()  # until everything is collected: collecting makes many objects that stay

# Several test processes share the cores; without this each would start a thread per core.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")  # the least that tfsm sets
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The value that tfsm sets; by default TensorFlow enables oneDNN on some processors only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# XLA's older code generator for fused loops compiles twice as fast, with the same results; its code is up to a tenth
# slower, which tests do not notice. A flag that XLA does not know ends the process, and later versions may drop it.
if version("tensorflow").startswith(("2.20.", "2.21.")):
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0".strip()
# Tests share a compile cache, in a folder of the session, so that the user's cache is not used.
if "TFSM_TEST_CACHE" not in os.environ:
    os.environ["TFSM_TEST_CACHE"] = tempfile.mkdtemp(prefix="tfsm-tests-")
    atexit.register(shutil.rmtree, os.environ["TFSM_TEST_CACHE"], ignore_errors=True)
os.environ["TF_XLA_FLAGS"] = f"--tf_xla_persistent_cache_directory={os.environ['TFSM_TEST_CACHE']}"
# The user's settings must not affect the tests.
for name in ("TFSM_DISABLE_PLUGINS", "TFSM_STRICT_PLUGINS"):
    os.environ.pop(name, None)


@pytest.fixture(autouse=True, scope="module")
def _collect_garbage() -> Iterator[None]:
    """Free the functions that the tests of a module compiled, which are held in reference cycles."""
    start = time.monotonic()
    yield
    if time.monotonic() - start > 10:  # a collection takes most of a second, and the other modules compile little
        gc.collect()


def pytest_collection_finish() -> None:
    """Leave the imported libraries out of later garbage collections: they are never freed."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but every n-th case of a test with `@pytest.mark.sample(n)` as slow."""
    seen: dict[str, int] = {}
    for item in items:
        marker = item.get_closest_marker("sample")
        if marker is None or item.get_closest_marker("slow") is not None:
            continue
        name = item.nodeid.partition("[")[0]
        number = seen[name] = seen.get(name, -1) + 1
        if number % marker.args[0]:
            item.add_marker(pytest.mark.slow)
