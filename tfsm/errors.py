"""Errors that users can act on: one message, no traceback."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class TfsmError(Exception):
    """A mistake that the user can fix; the command line prints the message and exits with code 2.

    >>> import tfsm
    >>> try:
    ...     tfsm.evolve("pairity", mutation="control")
    ... except tfsm.TfsmError as error:
    ...     print(error)
    no domain named 'pairity', did you mean 'parity'?
    """


class UnknownNameError(TfsmError, KeyError):
    """A name that is not registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        message = f"no {kind} named {name!r}{suggestion(name, self.known)}"
        super().__init__(f"{message}{hint}")

    def __str__(self) -> str:
        return str(self.args[0])


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of an "unknown name" message: the closest known name, or all of them.

    >>> suggestion("sm-gabs", ["control", "sm-g-abs"])
    ", did you mean 'sm-g-abs'?"
    >>> suggestion("zzz", ["control", "sm-r"])
    '; known: control, sm-r'
    """
    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f", did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else "; none is registered"


def format_error(error: BaseException) -> str:
    r"""Return an error's type and the first line of its message.

    >>> format_error(ValueError("odd\nand more"))
    'ValueError: odd'
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else ''}"


def import_optional(module: str, *, extra: str, purpose: str) -> Any:
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
