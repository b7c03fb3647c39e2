"""Run a command on a terminal, as a person does."""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

needs_terminal = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


class TerminalResult(NamedTuple):
    """The exit code of a command and everything that it wrote to its terminal."""

    returncode: int
    output: str

    @property
    def text(self) -> str:
        """The output without escape sequences."""
        return _ESCAPE.sub("", self.output).replace("\r\n", "\n")

    @property
    def styles(self) -> set[int]:
        """The numbers of all styles: 30 and above are colors."""
        found = re.findall(r"\x1b\[([0-9;]*)m", self.output)
        return {int(number or 0) for numbers in found for number in numbers.split(";")}


def run_on_terminal(
    command: Sequence[str], *, cwd: Path, columns: int = 80, stdin: bytes = b"", **environ: str
) -> TerminalResult:
    """Run a command whose input and output are a terminal of some width."""
    import fcntl
    import pty
    import termios

    unset = {"NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "TTY_COMPATIBLE", "CI"}
    inherited = {key: value for key, value in os.environ.items() if key not in unset}
    variables = {**inherited, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path), **environ}
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.chdir(cwd)
        os.execvpe(command[0], list(command), variables)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    if stdin:
        os.write(terminal, stdin)
    output = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        output += part
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return TerminalResult(os.waitstatus_to_exitcode(status), output.decode(errors="replace"))
