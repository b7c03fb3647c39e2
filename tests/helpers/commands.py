"""Run the command line in the test process or in a subprocess."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from tfsm.cli.main import main


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    returncode: int
    stdout: str
    stderr: str


def tfsm(*arguments: str, cwd: Path, environ: Mapping[str, str] | None = None) -> CommandResult:
    """Run a command in this process, because importing TensorFlow in a new one takes seconds."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, environ or {}, clear=environ is not None),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main(list(arguments))
        except SystemExit as exit_:
            code = exit_.code
    return CommandResult(int(code) if isinstance(code, int) else int(code is not None), out.getvalue(), err.getvalue())


def tfsm_process(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a subprocess."""
    return subprocess.run(
        [sys.executable, "-m", "tfsm", *arguments],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Put a folder on the import path, and remove its modules from `sys.modules` at the end."""
    importlib.invalidate_caches()
    before = dict(sys.modules)
    with mock.patch.object(sys, "path", [str(folder), *sys.path]), mock.patch.object(sys, "dont_write_bytecode", True):
        try:
            yield
        finally:
            for name in set(sys.modules) - set(before):
                file = getattr(sys.modules[name], "__file__", None)
                if file is not None and Path(file).is_relative_to(folder):
                    del sys.modules[name]
            importlib.invalidate_caches()
