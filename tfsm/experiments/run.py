"""One experiment: some runs of one domain with one operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import keras
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.loop import Loop
from tfsm.evolution.records import Observer
from tfsm.experiments.directory import RunDirectory, check_free, claim
from tfsm.experiments.parts import build_engine
from tfsm.experiments.result import Result
from tfsm.experiments.settings import Resolved, Settings
from tfsm.plugins import Plugins


def run_experiment(
    plugins: Plugins,
    resolved: Resolved,
    *,
    model: keras.Model | None = None,
    out: Path | None = None,
    keep: bool = True,
    command: Sequence[str] = (),
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] = lambda: False,
    notify: Callable[[str], None] = lambda message: None,
) -> Result:
    """Evolve, and keep everything in a run directory.

    Args:
        plugins: where the parts come from.
        resolved: the settings.
        model: a network to use instead of the domain's own.
        out: where to write; a new directory below `runs` if None.
        keep: whether to write anything at all.
        command: the command line, for the record.
        observers: who else is told.
        stop: True ends early, with everything kept.
        notify: told what the user should know before the start.
    """
    settings = resolved.settings
    check_free(out)
    engine = build_engine(plugins, settings, model=model)
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
            engine.network.model,
            command=list(command),
            plan=asdict(engine.plan),
            objects=_objects(plugins, settings),
        )
    everybody = [*observers] if record is None else [record, *observers]
    loop = Loop(
        engine,
        seed=settings.seed,
        runs=settings.runs,
        evaluations=settings.evaluations,
        log_every=settings.log_every,
        observers=everybody,
        stop=stop,
    )
    try:
        results = loop.run()
    except BaseException as error:
        message = _one_line(error)
        if record is not None:
            record.close("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", message)
        if isinstance(error, tf.errors.OpError):
            raise TfsmError(f"the run failed inside TensorFlow: {message}") from error
        raise
    if record is not None:
        record.close("interrupted" if loop.interrupted else "finished")
    return Result(
        settings=settings,
        runs=tuple(sorted(results, key=lambda result: result.run)),
        directory=directory,
        seconds=time.perf_counter() - began,
        compile_seconds=loop.compile_seconds,
        interrupted=loop.interrupted,
        model=engine.network.model,
    )


def _objects(plugins: Plugins, settings: Settings) -> dict[str, str]:
    """Return the parts that came ready made, with options that no setting tells of."""
    chosen = {
        "domain": plugins.domains[settings.domain],
        "mutation": plugins.mutations[settings.mutation],
        "selection": plugins.selections[settings.selection],
    }
    return {kind: repr(entry.part) for kind, entry in chosen.items() if entry.part is not None}


def _one_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else ''}"
