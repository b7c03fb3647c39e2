"""Libraries that come with an extra: imported when they are needed, or named where they are missing."""

from __future__ import annotations

import importlib
import os
from typing import Any

from tfsm.errors import TfsmError


def optional(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module, or say what to install.

    Args:
        module: what to import.
        extra: which extra of tfsm brings it.
        purpose: what needs it, to begin the message with.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # stdout is not pygame's to greet on
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise TfsmError(f"{purpose} needs {package}: pip install 'tfsm[{extra}]'") from None
