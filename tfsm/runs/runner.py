"""Run experiments: one in this process, or several on a pool of workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from tfsm.errors import TfsmError
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.evolution.observers import RunResult, Status
from tfsm.parallel.pool import Backend, Pool
from tfsm.plugins import Plugins
from tfsm.runs.build import (
    EngineCache,
    PreparedRun,
    RunRecipe,
    collect_notes,
    make_recipe,
    prepare,
    settings_for_children,
)
from tfsm.runs.directory import check_free
from tfsm.runs.observers import build_observers
from tfsm.runs.result import Result, describe_error, to_user_error
from tfsm.runs.resume import use_saved_inputs
from tfsm.runs.session import Session
from tfsm.settings import ResolvedSettings, Settings

# What only workers need is imported where it is used.
if TYPE_CHECKING:
    from tfsm.evolution.event_log import Event
    from tfsm.runs.run_tasks import GroupResult


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
    """Run an experiment and write everything to a run directory.

    Args:
        plugins: the registered parts.
        resolved: the settings.
        model: a network to use instead of the domain's own.
        out: the run directory; a new one below `runs` if None.
        keep: whether to write anything at all.
        resume: whether to continue the experiment in `out`.
        command: the command line, for the record.
        observers: observers besides those that the settings name.
        stop: returns True to end early, with everything saved.
        notify: receives messages for the user, before the start and when an observer fails.
        engines: a cache of compiled engines.
        backend: where the experiment runs; in this process if None.
        order: an event log to replay: results are processed in the same order again.
    """
    if backend is not None and not backend.is_local:
        spec = ExperimentSpec(resolved, out, keep, resume, model, observers)
        (result,) = run_on_workers(plugins, [spec], backend, command=command, stop=stop, notify=notify, order=order)
        return result
    settings = resolved.settings
    if not resume:
        check_free(out)
    safe_observers = build_observers(plugins, settings, observers, notify)
    engine = (engines or EngineCache()).engine(
        plugins, use_saved_inputs(settings, out) if resume else settings, model=model
    )
    # A cached engine still has the policy of another experiment.
    engine.failure_policy.warn, engine.failure_policy.broken = notify, 0
    for note in collect_notes(settings, engine.plan, engine.domain):
        notify(note)
    start = time.perf_counter()
    # The directory comes after all checks, so that a mistake leaves nothing behind.
    session = Session(
        plugins,
        resolved,
        engine.network,
        engine.domain,
        engine.plan,
        safe_observers,
        out=out,
        keep=keep,
        resume=resume,
        command=command,
        notify=notify,
        batches=engine.batches,
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
                saved=session.load_checkpoints(),
            )
            results = loop.run()
        except BaseException as error:
            session.end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", describe_error(error))
            if (user_error := to_user_error(error)) is not error:
                raise user_error from error
            raise
        session.end("interrupted" if loop.interrupted else "finished")
    return Result(
        settings=settings,
        runs=tuple(sorted(results, key=lambda result: result.run)),
        directory=session.directory,
        seconds=time.perf_counter() - start,
        compile_seconds=loop.compile_seconds,
        evaluated=loop.evaluated,
        interrupted=loop.interrupted,
        network=engine.network,
    )


@dataclass(frozen=True)
class ExperimentSpec:
    """An experiment to run; see `run_experiment` for the fields."""

    resolved: ResolvedSettings
    out: Path | None = None
    keep: bool = True
    resume: bool = False
    model: keras.Model | None = None
    observers: Sequence[Any] = ()


def run_on_workers(
    plugins: Plugins,
    specs: Sequence[ExperimentSpec],
    backend: Backend,
    *,
    command: Sequence[str] = (),
    stop: Callable[[], bool] = lambda: False,
    notify: Callable[[str], None] = lambda message: None,
    order: Path | None = None,
) -> list[Result]:
    """Run experiments side by side on a pool of workers; return their results, in order.

    Args:
        plugins: the registered parts.
        specs: the experiments.
        backend: the workers.
        command: the command line, for the record.
        stop: returns True to end early, with everything saved.
        notify: receives messages for the user.
        order: an event log to replay: results are processed in the same order again.
    """
    from tfsm.evolution.event_log import read_events

    replay = read_events(order) if order is not None else []
    for spec in specs:
        if not spec.resume:
            check_free(spec.out)
    with backend.start_pool(notify) as pool, ExitStack() as sessions:
        running: list[_RunningExperiment] = []
        try:
            for spec in specs:
                running.append(_start(plugins, spec, backend, sessions, command, notify))
            if backend.grain == "children":
                _evolve_children(pool, running, replay, stop, notify)
            else:
                _evolve_runs(pool, running, stop, notify)
        except BaseException as error:
            status: Status = "failed" if isinstance(error, TfsmError) else "interrupted"
            for experiment in running:
                if experiment.result is None:
                    experiment.session.end(status, str(error) or type(error).__name__)
            raise
    return [experiment.result for experiment in running if experiment.result is not None]


@dataclass
class _RunningExperiment:
    """An experiment that has started."""

    settings: Settings
    prepared: PreparedRun
    session: Session
    recipe: RunRecipe
    start: float = field(default_factory=time.perf_counter)
    result: Result | None = None

    def end(self, runs: Mapping[int, RunResult], parts: Sequence[GroupResult], *, interrupted: bool) -> None:
        """Record how it ended: the results of its runs, and the totals of the workers that evolved them."""
        self.session.end("interrupted" if interrupted else "finished")
        self.result = Result(
            settings=self.settings,
            runs=tuple(runs[run] for run in sorted(runs)),
            directory=self.session.directory,
            seconds=time.perf_counter() - self.start,
            # Workers compile side by side.
            compile_seconds=max((part.compile_seconds for part in parts), default=0.0),
            evaluated=sum(part.evaluated for part in parts),
            interrupted=interrupted,
            network=self.prepared.network,
        )


def _start(
    plugins: Plugins,
    spec: ExperimentSpec,
    backend: Backend,
    sessions: ExitStack,
    command: Sequence[str],
    notify: Callable[[str], None],
) -> _RunningExperiment:
    resolved = spec.resolved
    settings = use_saved_inputs(resolved.settings, spec.out) if spec.resume else resolved.settings
    if backend.grain == "children":
        settings = settings_for_children(settings)
    observers = build_observers(plugins, settings, spec.observers, notify)
    prepared = prepare(plugins, settings, model=spec.model)
    for note in collect_notes(settings, prepared.plan, prepared.domain):
        notify(note)
    session = Session(
        plugins,
        resolved,
        prepared.network,
        prepared.domain,
        prepared.plan,
        observers,
        out=spec.out,
        keep=spec.keep,
        resume=spec.resume,
        command=command,
        notify=notify,
        place=backend.as_dict(),
        batches=prepared.batches,
    )
    sessions.enter_context(session)
    return _RunningExperiment(resolved.settings, prepared, session, make_recipe(plugins, settings, spec.model))


def _evolve_children(
    pool: Pool,
    running: Sequence[_RunningExperiment],
    replay: Sequence[Event],
    stop: Callable[[], bool],
    notify: Callable[[str], None],
) -> None:
    """Evolve one experiment after another, each with all workers."""
    from tfsm.runs.child_tasks import ChildDispatcher
    from tfsm.runs.run_tasks import GroupResult

    for experiment in running:
        engine = experiment.prepared.engine()
        dispatcher = ChildDispatcher(pool, engine, experiment.session, experiment.recipe, replay=replay, notify=notify)
        loop = dispatcher.loop
        if not stop():
            dispatcher.run(stop)
        interrupted = loop.interrupted or not loop.ended
        total = GroupResult(interrupted, loop.compile_seconds, dispatcher.evaluated)
        experiment.end({result.run: result for result in loop.results}, [total], interrupted=interrupted)


def _evolve_runs(
    pool: Pool, running: Sequence[_RunningExperiment], stop: Callable[[], bool], notify: Callable[[str], None]
) -> None:
    """Evolve groups of runs of all experiments side by side."""
    from tfsm.runs.run_tasks import GroupedExperiment, evolve_groups

    # Wide groups are faster, so there are only as many as keep all workers busy.
    count = -(-pool.size // len(running))
    grouped = [GroupedExperiment(experiment.session, experiment.recipe, notify) for experiment in running]
    for each in grouped:
        each.divide(count)
    for ended in evolve_groups(pool, grouped, stop=stop, notify=notify):
        running[grouped.index(ended)].end(ended.results, ended.group_results, interrupted=ended.interrupted)
    for experiment, each in zip(running, grouped, strict=True):
        if experiment.result is None:
            experiment.end(each.results, each.group_results, interrupted=each.interrupted)
