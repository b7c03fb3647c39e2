"""One experiment: some runs of one domain with one operator."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import keras
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.loop import Loop
from tfsm.experiments.directory import check_free
from tfsm.experiments.observing import guarded, one_line
from tfsm.experiments.parts import Engines, notes
from tfsm.experiments.result import Result
from tfsm.experiments.resume import as_kept
from tfsm.experiments.session import Session
from tfsm.experiments.settings import Resolved
from tfsm.plugins import Plugins

_OWN: Final = f"{TfsmError.__name__}: "


def run_experiment(
    plugins: Plugins,
    resolved: Resolved,
    *,
    model: keras.Model | None = None,
    out: Path | None = None,
    keep: bool = True,
    resume: bool = False,
    command: Sequence[str] = (),
    observers: Sequence[Any] = (),
    stop: Callable[[], bool] = lambda: False,
    notify: Callable[[str], None] = lambda message: None,
    engines: Engines | None = None,
) -> Result:
    """Evolve, and keep everything in a run directory.

    Args:
        plugins: where the parts come from.
        resolved: the settings.
        model: a network to use instead of the domain's own.
        out: where to write; a new directory below `runs` if None.
        keep: whether to write anything at all.
        resume: whether `out` is a run directory to go on with.
        command: the command line, for the record.
        observers: who else is told, besides those that the settings name; see `Observer` for what.
        stop: True ends early, with everything kept.
        notify: told what the user should know: before the start, and where an observer fails.
        engines: where engines come from, if one may be used again.
    """
    settings = resolved.settings
    if not resume:
        check_free(out)
    others = guarded(plugins, settings, observers, notify)
    engine = (engines or Engines()).engine(plugins, as_kept(settings, out) if resume else settings, model=model)
    engine.care.warn = notify
    for note in notes(engine):
        notify(note)
    began = time.perf_counter()
    # The directory comes after everything that can be wrong, so that a mistake leaves nothing behind.
    session = Session(
        plugins,
        resolved,
        engine.network,
        engine.domain,
        engine.plan,
        others,
        out=out,
        keep=keep,
        resume=resume,
        command=command,
        notify=notify,
    )
    with session:
        try:
            loop = Loop(
                engine,
                seed=settings.seed,
                runs=settings.runs,
                evaluations=settings.evaluations,
                log_every=settings.log_every,
                observers=session.observers,
                stop=stop,
                checkpoints=session.checkpoints,
                saved=session.saved(),
            )
            results = loop.run()
        except BaseException as error:
            message = _message(error)
            session.end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", message)
            if isinstance(error, tf.errors.OpError):
                own = message.startswith(_OWN)
                raise TfsmError(
                    message.removeprefix(_OWN) if own else f"the run failed inside TensorFlow: {message}"
                ) from error
            raise
        session.end("interrupted" if loop.interrupted else "finished")
    return Result(
        settings=settings,
        runs=tuple(sorted(results, key=lambda result: result.run)),
        directory=session.directory,
        seconds=time.perf_counter() - began,
        compile_seconds=loop.compile_seconds,
        evaluated=loop.evaluated,
        interrupted=loop.interrupted,
        network=engine.network,
    )


def _message(error: BaseException) -> str:
    # Of an error in a domain that is plain Python, TensorFlow leaves the text, somewhere below its own.
    found = re.search(r"^(\w+: .*)$(?=(?:\n.*)*?\nTraceback)", str(error), re.MULTILINE)
    return found[1] if found and isinstance(error, tf.errors.OpError) else one_line(error)
