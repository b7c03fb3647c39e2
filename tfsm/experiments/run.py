"""One experiment: some runs of one domain with one operator."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import keras
import tensorflow as tf

from tfsm.contracts import Filed
from tfsm.errors import TfsmError
from tfsm.evolution.loop import Loop
from tfsm.evolution.records import Experiment, Observer, Status
from tfsm.experiments.directory import RunDirectory, check_free, claim
from tfsm.experiments.observing import guarded, one_line
from tfsm.experiments.parts import Engines
from tfsm.experiments.result import Result
from tfsm.experiments.settings import Resolved, Settings
from tfsm.models.named import described
from tfsm.models.sections import sections
from tfsm.plugins import Plugins

_OWN: Final = f"{TfsmError.__name__}: "


def run_experiment(
    plugins: Plugins,
    resolved: Resolved,
    *,
    model: keras.Model | None = None,
    out: Path | None = None,
    keep: bool = True,
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
        command: the command line, for the record.
        observers: who else is told, besides those that the settings name; see `Observer` for what.
        stop: True ends early, with everything kept.
        notify: told what the user should know: before the start, and where an observer fails.
        engines: where engines come from, if one may be used again.
    """
    settings = resolved.settings
    check_free(out)
    others = guarded(plugins, settings, observers, notify)
    engine = (engines or Engines()).engine(plugins, settings, model=model)
    if engine.plan.note:
        notify(engine.plan.note)
    began = time.perf_counter()
    # The directory comes after everything that can be wrong, so that a mistake leaves nothing behind.
    record = directory = None
    if keep:
        directory = claim(out, f"{settings.domain}-{settings.mutation}")
        record = RunDirectory(
            directory,
            resolved,
            engine.network,
            command=list(command),
            plan=asdict(engine.plan),
            objects=_objects(plugins, settings),
            files=engine.domain.files() if isinstance(engine.domain, Filed) else {},
        )
    everybody: list[Observer] = [*others] if record is None else [record, *others]
    loop = Loop(
        engine,
        seed=settings.seed,
        runs=settings.runs,
        evaluations=settings.evaluations,
        log_every=settings.log_every,
        observers=everybody,
        stop=stop,
    )
    experiment = Experiment(settings.as_dict(), directory, sections(engine.network.model))
    status: Status
    try:
        for observer in everybody:
            observer.started(experiment)
        results = loop.run()
    except BaseException as error:
        message = _message(error)
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        if record is not None:
            record.close(status, message)
        for observer in others:
            observer.ended(status)
        if isinstance(error, tf.errors.OpError):
            own = message.startswith(_OWN)
            raise TfsmError(
                message.removeprefix(_OWN) if own else f"the run failed inside TensorFlow: {message}"
            ) from error
        raise
    status = "interrupted" if loop.interrupted else "finished"
    if record is not None:
        record.close(status)
    for observer in others:
        observer.ended(status)
    return Result(
        settings=settings,
        runs=tuple(sorted(results, key=lambda result: result.run)),
        directory=directory,
        seconds=time.perf_counter() - began,
        compile_seconds=loop.compile_seconds,
        interrupted=loop.interrupted,
        network=engine.network,
    )


def _objects(plugins: Plugins, settings: Settings) -> dict[str, str]:
    """Return what no setting tells all of: parts that came ready made, and which model it was."""
    chosen = {
        "domain": plugins.domains[settings.domain],
        "mutation": plugins.mutations[settings.mutation],
        "selection": plugins.selections[settings.selection],
    }
    objects = {kind: repr(entry.part) for kind, entry in chosen.items() if entry.part is not None}
    return objects if settings.model is None else objects | {"model": described(settings.model)}


def _message(error: BaseException) -> str:
    # Of an error in a domain that is plain Python, TensorFlow leaves the text, somewhere below its own.
    found = re.search(r"^(\w+: .*)$(?=(?:\n.*)*?\nTraceback)", str(error), re.MULTILINE)
    return found[1] if found and isinstance(error, tf.errors.OpError) else one_line(error)
