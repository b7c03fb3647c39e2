"""Experiments whose work is done by workers: in other processes, or on other machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras

from tfsm.errors import TfsmError
from tfsm.evolution.events import Event, read_events
from tfsm.evolution.selecting import beginners_of
from tfsm.experiments.directory import check_free
from tfsm.experiments.grouping import GroupEnd
from tfsm.experiments.groups import Work, evolve_groups
from tfsm.experiments.observing import guarded
from tfsm.experiments.parts import Prepared, notes, prepare, without_reuse
from tfsm.experiments.places.task import Pool
from tfsm.experiments.places.where import Where
from tfsm.experiments.recipe import recipe_of
from tfsm.experiments.result import Result
from tfsm.experiments.resume import as_kept
from tfsm.experiments.session import Session
from tfsm.experiments.settings import Resolved
from tfsm.experiments.steadily import Steadily
from tfsm.plugins import Plugins


@dataclass(frozen=True)
class Wanted:
    """One experiment to be done; see `run_experiment` for what the fields mean."""

    resolved: Resolved
    out: Path | None = None
    keep: bool = True
    resume: bool = False
    model: keras.Model | None = None
    observers: Sequence[Any] = ()


@dataclass
class _Underway:
    """An experiment that was begun."""

    wanted: Wanted
    prepared: Prepared
    session: Session
    work: Work
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


def run_elsewhere(
    plugins: Plugins,
    experiments: Sequence[Wanted],
    where: Where,
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
        where: which workers.
        command: the command line, for the record.
        stop: True ends early, with everything kept.
        notify: told what the user should know.
        order: the log of the order in which children were once settled, which is to be the same again.
    """
    replay = read_events(order) if order is not None else []
    for wanted in experiments:
        if not wanted.resume:
            check_free(wanted.out)
    with where.pool(notify) as pool, ExitStack() as held:
        underway: list[_Underway] = []
        try:
            for wanted in experiments:
                underway.append(_begun(plugins, wanted, where, held, command, notify))
            if where.grain == "children":
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


def _begun(
    plugins: Plugins,
    wanted: Wanted,
    where: Where,
    held: ExitStack,
    command: Sequence[str],
    notify: Callable[[str], None],
) -> _Underway:
    resolved = wanted.resolved
    settings = as_kept(resolved.settings, wanted.out) if wanted.resume else resolved.settings
    if where.grain == "children":
        settings = without_reuse(settings)
    others = guarded(plugins, settings, wanted.observers, notify)
    prepared = prepare(plugins, settings, model=wanted.model)
    for note in notes(settings, prepared.plan, prepared.domain):
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
        place=where.as_dict(),
        beginners=beginners_of(prepared.selection, settings.population),
    )
    held.enter_context(session)
    work = Work(session, recipe_of(plugins, settings, wanted.model), notify)
    return _Underway(wanted, prepared, session, work)


def _evolve_children(
    pool: Pool,
    underway: Sequence[_Underway],
    replay: Sequence[Event],
    stop: Callable[[], bool],
    notify: Callable[[str], None],
) -> None:
    """Evolve one experiment after another, each with all workers."""
    for one in underway:
        engine = one.prepared.engine()
        steadily = Steadily(pool, engine, one.session, one.work.recipe, replay=replay, notify=notify)
        steady = steadily.steady
        if not stop():
            steadily.run(stop)
        one.work.results = {result.run: result for result in steady.results}
        interrupted = steady.interrupted or not steady.ended
        one.work.ends = [GroupEnd(interrupted, steady.compile_seconds, steadily.evaluated)]
        one.end()


def _evolve(pool: Pool, underway: Sequence[_Underway], stop: Callable[[], bool], notify: Callable[[str], None]) -> None:
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
