"""Shell completion, in real shells: installed as the documents say, then asked by pressing Tab."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from tests.helpers.terminal import needs_terminal

pytestmark = needs_terminal

SECONDS = 20
SHELLS = {
    "bash": ["bash", "--noprofile", "-i"],
    "zsh": ["zsh", "-d", "-i"],
    "fish": ["fish", "-i"],
}
# Each shell says where it waits for a command; nothing else is to be seen at the prompt.
STARTUP = {
    "bash": (".bashrc", "PS1='ready> '\nbind 'set enable-bracketed-paste off'\n"),
    "zsh": (".zshrc", "PROMPT='ready> '\n"),
    "fish": (".config/fish/config.fish", "function fish_prompt; echo -n 'ready> '; end\nset fish_greeting\n"),
}
ESCAPE = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|[\x07\x0e\x0f\r]"
)


class Shell:
    """An interactive shell on a terminal."""

    def __init__(self, name: str, home: Path, path: Path) -> None:
        import pty

        environ = {
            "HOME": str(home),
            "ZDOTDIR": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local/share"),
            "PATH": os.pathsep.join([str(path), os.environ["PATH"]]),
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
            "LINES": "50",
        }
        self._process, self._terminal = pty.fork()
        if self._process == 0:  # pragma: no cover
            os.chdir(home)
            os.execvpe(SHELLS[name][0], SHELLS[name], environ)
        self._seen = ""

    def __enter__(self) -> Self:
        assert self.shows("ready> "), self.screen
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._terminal)
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)

    @property
    def screen(self) -> str:
        """Everything that was shown, without escape sequences."""
        return ESCAPE.sub("", self._seen)

    def shows(self, text: str, seconds: float = SECONDS) -> bool:
        """Say whether the terminal shows this text, within some seconds."""
        deadline = time.monotonic() + seconds
        while text not in self.screen and time.monotonic() < deadline:
            ready, _, _ = select.select([self._terminal], [], [], 0.1)
            if ready:
                part = os.read(self._terminal, 65536).decode(errors="replace")
                self._seen += part
                if "\x1b[c" in part or "\x1b[0c" in part:  # fish asks what kind of terminal this is
                    self.type("\x1b[?1;2c")
        return text in self.screen

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._terminal, text.encode())


@pytest.fixture(params=SHELLS, scope="module")
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Shell]:
    """Return a function that starts a shell, in which the user has run `tfsm --install-completion` before."""
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    home, path = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("bin")
    startup, content = STARTUP[name]
    (home / startup).parent.mkdir(parents=True, exist_ok=True)
    (home / startup).write_text(content)
    program = path / "tfsm"
    places = os.pathsep.join(part for part in sys.path if part)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{places}" exec "{sys.executable}" -m tfsm "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with Shell(name, home, path) as shell:
        shell.type("tfsm --install-completion\n")
        assert shell.shows("will take effect"), shell.screen
    return lambda: Shell(name, home, path)


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("tfsm run parity --mutation sm-", "sm-g-abs"),
        ("tfsm run par", "tfsm run parity"),
        ("tfsm sensi", "tfsm sensitivity"),
        ("tfsm compare parity --mutation control,sm-g-a", "control,sm-g-abs"),
    ],
)
def test_tab_completes(start: Callable[[], Shell], typed: str, completed: str) -> None:
    with start() as shell:
        shell.type(typed)
        # Bash lists several names at the second Tab; in zsh, the first Tab of a session loads the script of Typer.
        for _ in range(3):
            shell.type("\t")
            if shell.shows(completed, SECONDS / 4):
                break
        assert completed in shell.screen
