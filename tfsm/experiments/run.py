"""One experiment: some runs of one domain with one operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from tfsm.evolution.loop import Loop
from tfsm.experiments.directory import check_free
from tfsm.experiments.elsewhere import Wanted, run_elsewhere
from tfsm.experiments.failing import as_users_see, in_a_line
from tfsm.experiments.observing import guarded
from tfsm.experiments.parts import Engines, notes
from tfsm.experiments.places.where import Where
from tfsm.experiments.result import Result
from tfsm.experiments.resume import as_kept
from tfsm.experiments.session import Session
from tfsm.experiments.settings import Resolved
from tfsm.plugins import Plugins


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
    where: Where | None = None,
    order: Path | None = None,
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
        where: where the work is done; by this process itself if None.
        order: the log of the order in which children were once settled, which is to be the same again.
    """
    if where is not None and not where.here:
        wanted = Wanted(resolved, out, keep, resume, model, observers)
        (result,) = run_elsewhere(plugins, [wanted], where, command=command, stop=stop, notify=notify, order=order)
        return result
    settings = resolved.settings
    if not resume:
        check_free(out)
    others = guarded(plugins, settings, observers, notify)
    engine = (engines or Engines()).engine(plugins, as_kept(settings, out) if resume else settings, model=model)
    engine.care.warn, engine.care.broken = notify, 0  # it may have been another experiment's
    for note in notes(settings, engine.plan, engine.domain):
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
        beginners=engine.selector.beginners,
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
            session.end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", in_a_line(error))
            if (told := as_users_see(error)) is not error:
                raise told from error
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
