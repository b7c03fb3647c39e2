"""Commands within this process, and what must be true of each whatever it was given."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from tests.fuzz.limits import within
from tfsm.cli.main import main
from tfsm.errors import TfsmError

CODES: Final = (0, 1, 2, 130)
SECONDS: Final = 180.0
"""Far more than any command here takes, on a machine that others use too."""


class Done(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Work in a new directory, which goes with all that is in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="tfsm-fuzz-") as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def command(*words: str, interrupt_after: float | None = None) -> Done:
    """Run a command in the working directory, and check what holds for all of them.

    Nothing but an exit code comes out; what fails says why, in words; no draft of a file is left.

    Args:
        words: the command line, without `tfsm`.
        interrupt_after: seconds after which Ctrl-C is pressed.
    """
    done = _run(words, interrupt_after)
    assert done.code in CODES, f"exit code {done.code!r}: {done.stderr}"
    assert "Traceback" not in done.stderr + done.stdout, done
    if done.code in (1, 2):
        assert done.stderr.strip() or "failed" in done.stdout, f"exit code {done.code}, and not a word why"
    drafts = [str(path) for path in Path().rglob("*.part*")]
    assert not drafts, f"half-written files are left: {drafts}"
    return done


def refusal(attempt: Callable[[], object], *, default: str) -> str:
    """Return what a user would be told if an attempt is refused; anything else that goes wrong is raised."""
    try:
        attempt()
    except TfsmError as error:
        return str(error)
    return default


def _unraisable(lost: Any) -> None:
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)


def _run(words: Sequence[str], interrupt_after: float | None) -> Done:
    # As Python sets them up: what cannot be written in UTF-8 is an error on stdout, and escaped on stderr.
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with (
        within(SECONDS, interrupt_after=interrupt_after),
        patch.object(sys, "stdin", io.StringIO()),
        patch.object(sys, "argv", ["tfsm", *words]),
        # Ctrl-C within a destructor is lost, and Python prints a traceback of it: that is no doing of ours.
        patch.object(sys, "unraisablehook", _unraisable),
        redirect_stdout(out),
        redirect_stderr(err),
        # As outside of pytest, where a warning is no error.
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            main(list(words))
        except SystemExit as ended:
            code = ended.code
    out.flush()
    err.flush()
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return Done(0 if code is None else int(code), *said)
