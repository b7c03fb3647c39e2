"""Run_experiment: here or on a pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras

from tfsm.errors import TfsmError
from tfsm.evolution.event_log import Event, read_events
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.evolution.selection import initial_population_size
from tfsm.parallel.pool import Backend, Pool
from tfsm.plugins import Plugins
from tfsm.runs.build import EngineCache, PreparedRun, collect_notes, make_recipe, prepare, without_reuse
from tfsm.runs.child_tasks import ChildDispatcher
from tfsm.runs.directory import check_free
from tfsm.runs.observers import build_observers
from tfsm.runs.result import Result, describe_error, to_user_error
from tfsm.runs.resume import use_saved_inputs
from tfsm.runs.run_tasks import GroupedExperiment, GroupResult, evolve_groups
from tfsm.runs.session import Session
from tfsm.settings import ResolvedSettings


@dataclass(frozen=True)
class ExperimentSpec:
    """One experiment to be done; see `run_experiment` for what the fields mean."""

    resolved: ResolvedSettings
    out: Path | None = None
    keep: bool = True
    resume: bool = False
    model: keras.Model | None = None
    observers: Sequence[Any] = ()


@dataclass
class _RunningExperiment:
    """An experiment that was begun."""

    wanted: ExperimentSpec
    prepared: PreparedRun
    session: Session
    work: GroupedExperiment
    began: float = field(default_factory=time.perf_counter)
    result: Result | None = None

    def end(self) -> None:
        """Write down how it ended."""
        work = self.work
        self.session.end("interrupted" if work.interrupted else "finished")
        self.result = Result(
            settings=self.wanted.resolved.settings,
            runs=tuple(work.results[run] for run in sorted(work.results)),
            directory=self.session.directory,
            seconds=time.perf_counter() - self.began,
            # Workers compile side by side.
            compile_seconds=max((end.compile_seconds for end in work.ends), default=0.0),
            evaluated=sum(end.evaluated for end in work.ends),
            interrupted=work.interrupted,
            network=self.prepared.network,
        )


def run_on_workers(
    plugins: Plugins,
    experiments: Sequence[ExperimentSpec],
    backend: Backend,
    *,
    command: Sequence[str] = (),
    stop: Callable[[], bool] = lambda: False,
    notify: Callable[[str], None] = lambda message: None,
    order: Path | None = None,
) -> list[Result]:
    """Do experiments side by side, and return what came of each, in their order.

    Args:
        plugins: where the parts come from.
        experiments: what to do.
        backend: which workers.
        command: the command line, for the record.
        stop: True ends early, with everything kept.
        notify: told what the user should know.
        order: the log of the order in which children were once settled, which is to be the same again.
    """
    replay = read_events(order) if order is not None else []
    for wanted in experiments:
        if not wanted.resume:
            check_free(wanted.out)
    with backend.start_pool(notify) as pool, ExitStack() as held:
        underway: list[_RunningExperiment] = []
        try:
            for wanted in experiments:
                underway.append(_start(plugins, wanted, backend, held, command, notify))
            if backend.grain == "children":
                _evolve_children(pool, underway, replay, stop, notify)
            else:
                _evolve(pool, underway, stop, notify)
        except BaseException as error:
            for one in underway:
                if one.result is None:
                    failed = isinstance(error, TfsmError)
                    one.session.end("failed" if failed else "interrupted", str(error) or type(error).__name__)
            raise
    return [one.result for one in underway if one.result is not None]


def _start(
    plugins: Plugins,
    wanted: ExperimentSpec,
    backend: Backend,
    held: ExitStack,
    command: Sequence[str],
    notify: Callable[[str], None],
) -> _RunningExperiment:
    resolved = wanted.resolved
    settings = use_saved_inputs(resolved.settings, wanted.out) if wanted.resume else resolved.settings
    if backend.grain == "children":
        settings = without_reuse(settings)
    others = build_observers(plugins, settings, wanted.observers, notify)
    prepared = prepare(plugins, settings, model=wanted.model)
    for note in collect_notes(settings, prepared.plan, prepared.domain):
        notify(note)
    session = Session(
        plugins,
        resolved,
        prepared.network,
        prepared.domain,
        prepared.plan,
        others,
        out=wanted.out,
        keep=wanted.keep,
        resume=wanted.resume,
        command=command,
        notify=notify,
        place=backend.as_dict(),
        initial_population=initial_population_size(prepared.selection, settings.population),
    )
    held.enter_context(session)
    work = GroupedExperiment(session, make_recipe(plugins, settings, wanted.model), notify)
    return _RunningExperiment(wanted, prepared, session, work)


def _evolve_children(
    pool: Pool,
    underway: Sequence[_RunningExperiment],
    replay: Sequence[Event],
    stop: Callable[[], bool],
    notify: Callable[[str], None],
) -> None:
    """Evolve one experiment after another, each with all workers."""
    for one in underway:
        engine = one.prepared.engine()
        dispatcher = ChildDispatcher(pool, engine, one.session, one.work.recipe, replay=replay, notify=notify)
        loop = dispatcher.loop
        if not stop():
            dispatcher.run(stop)
        one.work.results = {result.run: result for result in loop.results}
        interrupted = loop.interrupted or not loop.ended
        one.work.ends = [GroupResult(interrupted, loop.compile_seconds, dispatcher.evaluated)]
        one.end()


def _evolve(
    pool: Pool, underway: Sequence[_RunningExperiment], stop: Callable[[], bool], notify: Callable[[str], None]
) -> None:
    # Wide groups are faster; only as many as it takes to keep all workers busy.
    groups = -(-pool.size // len(underway))
    for one in underway:
        one.work.divide(groups)
    by_work = {id(one.work): one for one in underway}
    evolve_groups(
        pool,
        [one.work for one in underway],
        stop=stop,
        notify=notify,
        ended=lambda work: by_work[id(work)].end(),
    )
    for one in underway:
        if one.result is None:
            one.end()


def run_experiment(
    plugins: Plugins,
    resolved: ResolvedSettings,
    *,
    model: keras.Model | None = None,
    out: Path | None = None,
    keep: bool = True,
    resume: bool = False,
    command: Sequence[str] = (),
    observers: Sequence[Any] = (),
    stop: Callable[[], bool] = lambda: False,
    notify: Callable[[str], None] = lambda message: None,
    engines: EngineCache | None = None,
    backend: Backend | None = None,
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
        backend: where the work is done; by this process itself if None.
        order: the log of the order in which children were once settled, which is to be the same again.
    """
    if backend is not None and not backend.is_local:
        wanted = ExperimentSpec(resolved, out, keep, resume, model, observers)
        (result,) = run_on_workers(plugins, [wanted], backend, command=command, stop=stop, notify=notify, order=order)
        return result
    settings = resolved.settings
    if not resume:
        check_free(out)
    others = build_observers(plugins, settings, observers, notify)
    engine = (engines or EngineCache()).engine(
        plugins, use_saved_inputs(settings, out) if resume else settings, model=model
    )
    engine.failure_policy.warn, engine.failure_policy.broken = notify, 0  # it may have been another experiment's
    for note in collect_notes(settings, engine.plan, engine.domain):
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
        initial_population=engine.selector.initial_population,
    )
    with session:
        try:
            loop = LockstepLoop(
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
            session.end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", describe_error(error))
            if (told := to_user_error(error)) is not error:
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
