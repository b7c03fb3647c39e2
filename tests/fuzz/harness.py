"""Run commands on generated examples: a few fixed ones by default, or the number in an environment variable."""

from __future__ import annotations

import faulthandler
import io
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

import keras
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from keras import layers as kl

from tests.helpers.commands import CommandResult
from tfsm.cli.main import main
from tfsm.errors import TfsmError

EXAMPLES: Final = "TFSM_FUZZ_EXAMPLES"


def fuzz_settings(default_examples: int, share: float = 1.0) -> settings:
    """Return settings for a test.

    Args:
        default_examples: the number of examples by default.
        share: the fraction of the requested examples that this test runs; below 1 where each takes seconds.
    """
    requested = os.environ.get(EXAMPLES)
    return settings(
        max_examples=default_examples if requested is None else max(default_examples, round(int(requested) * share)),
        derandomize=requested is None,
        # `time_limit` detects slow examples; it allows for the import of TensorFlow by the first command.
        deadline=None,
        database=None,
        # Shrinking takes hundreds of commands, so it is only done when examples are requested.
        phases=[Phase.generate] if requested is None else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


PATIENCE: Final = 30.0


class HangError(BaseException):
    """Something took too long. It is not an `Exception`, so that no handler catches it by accident."""


@contextmanager
def time_limit(seconds: float, *, interrupt_after: float | None = None) -> Iterator[None]:
    """Fail if the body takes longer than this.

    Python code is ended by an exception. If compiled code never returns, the process exits with a traceback.

    Args:
        seconds: the limit.
        interrupt_after: send SIGINT after this many seconds, and again whenever it had no effect for `PATIENCE`.
    """
    end = time.monotonic() + seconds

    def handle_alarm(number: int, frame: FrameType | None) -> None:
        left = end - time.monotonic()
        if interrupt_after is None or left < 0.01:
            raise HangError(f"still busy after {seconds:g} seconds")
        signal.setitimer(signal.ITIMER_REAL, min(PATIENCE, left))
        signal.raise_signal(signal.SIGINT)

    before = {signal.SIGALRM: signal.signal(signal.SIGALRM, handle_alarm)}
    if interrupt_after is not None:
        # A shell makes background processes ignore SIGINT.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds if interrupt_after is None else interrupt_after)
    faulthandler.dump_traceback_later(2 * seconds, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


CODES: Final = (0, 1, 2, 130)
SECONDS: Final = 180.0


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Work in a new directory, which is deleted at the end."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="tfsm-fuzz-") as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def run_command(*words: str, interrupt_after: float | None = None) -> CommandResult:
    """Run a command in the working directory, and check what must hold for all commands.

    No exception but an exit code escapes, a failure has a message, and no temporary file is left.

    Args:
        words: the command line, without `tfsm`.
        interrupt_after: seconds after which SIGINT is sent.
    """
    done = _run(words, interrupt_after)
    assert done.returncode in CODES, f"exit code {done.returncode!r}: {done.stderr}"
    assert "Traceback" not in done.stderr + done.stdout, done
    if done.returncode in (1, 2):
        assert done.stderr.strip() or "failed" in done.stdout, f"exit code {done.returncode}, without a message"
    temporary_files = [str(path) for path in Path().rglob("*.part*")]
    assert not temporary_files, f"half-written files are left: {temporary_files}"
    return done


def get_refusal(attempt: Callable[[], object], *, default: str) -> str:
    """Return the message if an attempt is refused, and the default if it succeeds; other errors propagate."""
    try:
        attempt()
    except TfsmError as error:
        return str(error)
    return default


def _ignore_interrupts(unraisable: Any) -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)


def _run(words: Sequence[str], interrupt_after: float | None) -> CommandResult:
    # As in Python: characters that UTF-8 cannot encode are an error on stdout, and escaped on stderr.
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with (
        time_limit(SECONDS, interrupt_after=interrupt_after),
        patch.object(sys, "stdin", io.StringIO()),
        patch.object(sys, "argv", ["tfsm", *words]),
        # Python ignores SIGINT within a destructor and prints a traceback, which is not an error of tfsm.
        patch.object(sys, "unraisablehook", _ignore_interrupts),
        redirect_stdout(out),
        redirect_stderr(err),
        # As outside of pytest, where warnings are not errors.
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            main(list(words))
        except SystemExit as error:
            code = error.code
    out.flush()
    err.flush()
    output = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return CommandResult(0 if code is None else int(code), *output)


def write_small_model(file: Path) -> Path:
    """Save a model of three inputs."""
    keras.Sequential([keras.Input((3,)), kl.Dense(4, "tanh", name="hidden"), kl.Dense(2, name="out")]).save(file)
    return file


def write_files(folder: Path) -> Path:
    """Write files of all kinds to the working directory, including a run directory and a study."""
    write_small_model(folder / "m.keras")
    inputs = np.random.default_rng(0).normal(size=(5, 3)).astype("f4")
    np.save(folder / "x.npy", inputs)
    np.savez(folder / "x.npz", arr_0=inputs)
    (folder / "notes.txt").write_text("notes\n")
    (folder / "old.h5").write_bytes(b"\x89HDF\r\n\x1a\n junk")
    (folder / "my.toml").write_text("[run]\nlog_every = 2\n")
    (folder / "folder").mkdir()
    (folder / "folder" / "mine.txt").write_text("mine\n")
    (folder / "folder.html").mkdir()
    (folder / "folder.png").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    done = run_command(
        *("compare", "simple-easy", "--mutation", "control", "--runs", "1", "--evaluations", "6", "--out", "study"),
        *("--set", "engine.compile=graph", "--set", "log_every=2"),
    )
    assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "study" / "control", folder / "done")
    return folder


def copy_into_working_directory(folder_with_files: Path) -> None:
    """Copy a folder to the working directory."""
    shutil.copytree(folder_with_files, Path(), symlinks=True, dirs_exist_ok=True)
