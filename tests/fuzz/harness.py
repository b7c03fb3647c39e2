"""How many examples are tried: a few that are always the same, or as many as one asks for."""

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
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import keras
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from keras import layers as kl

from tfsm.cli.main import main
from tfsm.errors import TfsmError

EXAMPLES: Final = "TFSM_FUZZ_EXAMPLES"


def fuzzed(few: int, share: float = 1.0) -> settings:
    """Return settings for a test.

    Args:
        few: examples where nobody asks for more.
        share: what the test takes of the examples that are asked for; below 1 where each takes seconds.
    """
    wanted = os.environ.get(EXAMPLES)
    return settings(
        max_examples=few if wanted is None else max(few, round(int(wanted) * share)),
        derandomize=wanted is None,
        # What is slow is told by `limits`, which knows that a first command imports TensorFlow.
        deadline=None,
        database=None,
        # To make an example small takes hundreds of commands: worth it for somebody who hunts, not for every change.
        phases=[Phase.generate] if wanted is None else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


PATIENCE: Final = 30.0


class HangError(BaseException):
    """Something took too long; no `except Exception` takes it for its own."""


@contextmanager
def within(seconds: float, *, interrupt_after: float | None = None) -> Iterator[None]:
    """Fail what takes longer than that.

    Python code is ended by an exception. Compiled code that never comes back takes the whole process with it, and says
    where it was.

    Args:
        seconds: the limit.
        interrupt_after: press Ctrl-C after so many seconds, and again if that was not heard for `PATIENCE`.
    """
    end = time.monotonic() + seconds

    def ring(number: int, frame: FrameType | None) -> None:
        left = end - time.monotonic()
        if interrupt_after is None or left < 0.01:
            raise HangError(f"still busy after {seconds:g} seconds")
        signal.setitimer(signal.ITIMER_REAL, min(PATIENCE, left))
        signal.raise_signal(signal.SIGINT)

    before = {signal.SIGALRM: signal.signal(signal.SIGALRM, ring)}
    if interrupt_after is not None:
        # A shell lets what it starts in the background ignore Ctrl-C.
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


def small_model(file: Path) -> Path:
    """Save a model of three inputs."""
    keras.Sequential([keras.Input((3,)), kl.Dense(4, "tanh", name="hidden"), kl.Dense(2, name="out")]).save(file)
    return file


def furnish(folder: Path) -> Path:
    """Put files of all kinds into the working directory, a run directory and a study among them."""
    small_model(folder / "m.keras")
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
    done = command(
        *("compare", "simple-easy", "--mutation", "control", "--runs", "1", "--evaluations", "6", "--out", "study"),
        *("--set", "engine.compile=graph", "--set", "log_every=2"),
    )
    assert done.code == 0, done.stderr
    shutil.copytree(folder / "study" / "control", folder / "done")
    return folder


def copy_of(furnished: Path) -> None:
    """Copy all of it into the working directory."""
    shutil.copytree(furnished, Path(), symlinks=True, dirs_exist_ok=True)
