"""Optional libraries: imported on first use, with a hint what to install if they are missing."""

from __future__ import annotations

import importlib
import os
from typing import Any

from tfsm.errors import TfsmError


def optional(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module, or raise a `TfsmError` that says what to install.

    Args:
        module: the module.
        extra: the extra of tfsm that installs it.
        purpose: what needs it; the beginning of the message.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # pygame would greet on stdout
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise TfsmError(f"{purpose} needs {package}: pip install 'tfsm[{extra}]'") from None
