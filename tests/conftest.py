"""What all tests share."""

from __future__ import annotations

import os

# Several test processes share the cores; without this each would start a thread per core.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# A user's own switches must not decide what the tests see.
for name in ("TFSM_DISABLE_PLUGINS", "TFSM_STRICT_PLUGINS"):
    os.environ.pop(name, None)
