"""What all tests share."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

# Several test processes share the cores; without this each would start a thread per core.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As tfsm itself sets it: TensorFlow enables oneDNN by default on some processors only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# What one test has compiled, the next need not; a folder of the session's own keeps a user's cache out of it.
if "TFSM_TEST_CACHE" not in os.environ:
    os.environ["TFSM_TEST_CACHE"] = tempfile.mkdtemp(prefix="tfsm-tests-")
    atexit.register(shutil.rmtree, os.environ["TFSM_TEST_CACHE"], ignore_errors=True)
os.environ["TF_XLA_FLAGS"] = f"--tf_xla_persistent_cache_directory={os.environ['TFSM_TEST_CACHE']}"
# A user's own switches must not decide what the tests see.
for name in ("TFSM_DISABLE_PLUGINS", "TFSM_STRICT_PLUGINS"):
    os.environ.pop(name, None)


@pytest.fixture(autouse=True, scope="module")
def _tidy() -> Iterator[None]:
    """Give back what a module's tests compiled: it is held in cycles, and a process runs thousands of tests."""
    yield
    gc.collect()
