"""A group of runs as a task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, NamedTuple

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint import Checkpoint, pack_checkpoint, unpack_checkpoint
from tfsm.evolution.checkpoint_schedule import CheckpointInterval, CheckpointSchedule, parse_interval
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.evolution.observers import Progress, RunResult
from tfsm.parallel.pool import Pool
from tfsm.parallel.worker import Failure, WorkerContext
from tfsm.runs.build import EngineCache, RunRecipe
from tfsm.runs.observers import ForwardingObserver
from tfsm.runs.result import to_user_error
from tfsm.runs.session import Session


class ForwardedEvent(NamedTuple):
    """An event of a worker: a method of `Observer`, `checkpoint` or `notify`, and its argument."""

    name: str
    content: Any


class GroupResult(NamedTuple):
    """How a group came to its end."""

    interrupted: bool
    compile_seconds: float
    evaluated: int


class RemoteObserver(ForwardingObserver):
    """Collects events and checkpoints in a worker until they are sent to the driver.

    Args:
        about: identifies the experiment in a checkpoint.
        every: how often to write a checkpoint.
    """

    def __init__(self, about: Mapping[str, Any], every: CheckpointInterval) -> None:
        self._about, self._cadence = about, CheckpointSchedule(every)
        self._events: list[ForwardedEvent] = []

    def take(self) -> list[ForwardedEvent]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def notify(self, message: str) -> None:
        """Collect a message for the user."""
        self._forward("notify", message)

    def next_check(self, spent: int) -> int:
        """Return the number of evaluations, above `spent`, at which to look again at the latest."""
        return self._cadence.next_check(spent)

    def is_due(self, spent: int) -> bool:
        """Say whether it is time for a checkpoint."""
        return self._cadence.is_due(spent)

    def save(self, saved: Checkpoint, *, last: bool = False) -> None:
        """Collect a checkpoint."""
        began = perf_counter()
        self._forward("checkpoint", (pack_checkpoint(saved, self._about), last))
        self._cadence.record(saved.evaluations_used, perf_counter() - began)

    def _forward(self, method: str, event: Any) -> None:
        self._events.append(ForwardedEvent(method, event))


@dataclass(frozen=True)
class GroupTask:
    """Evolves some runs that follow one another; yields lists of what happened."""

    recipe: RunRecipe
    """For as many runs as there are in the group."""
    runs: range
    about: Mapping[str, Any]
    every: CheckpointInterval
    saved: tuple[bytes, ...] = ()
    """Where they stood when they were left."""

    def __call__(self, context: WorkerContext) -> Generator[list[ForwardedEvent], None, GroupResult]:
        """Evolve, in a worker."""
        settings = self.recipe.settings
        engines: EngineCache = context.cache.setdefault("engines", EngineCache())
        engine = engines.engine(self.recipe.plugins(), settings, model=self.recipe.model)
        observer = RemoteObserver(self.about, self.every)
        # It may have been another experiment's.
        engine.failure_policy.warn, engine.failure_policy.broken = observer.notify, 0
        loop = LockstepLoop(
            engine,
            seed=settings.seed,
            runs=self.runs,
            evaluations=settings.evaluations,
            log_every=settings.log_every,
            observers=[observer],
            stop=context.should_stop,
            checkpoints=observer,
            saved=[unpack_checkpoint(content)[0] for content in self.saved],
        )
        try:
            for _ in loop.steps():
                yield observer.take()
        except Exception as error:
            yield observer.take()  # what was rescued
            if (told := to_user_error(error)) is not error:
                raise told from error
            raise
        yield observer.take()
        return GroupResult(loop.interrupted, loop.compile_seconds, loop.evaluated)


PATIENCE: Final = 3
"""How often a worker may die at a group without having got any further."""
LOOK_SECONDS: Final = 0.25


@dataclass
class RunGroup:
    """Some runs of an experiment, and how far they are."""

    work: GroupedExperiment
    runs: range
    saved: list[Checkpoint] = field(default_factory=list)
    """Where they stood at the start."""
    progress: Progress | None = None
    deaths: int = 0

    def task(self) -> GroupTask:
        """Return what a worker is to do."""
        settings = self.work.recipe.settings
        known = self.work.session.about
        return GroupTask(
            self.work.recipe.for_runs(len(self.runs)),
            self.runs,
            known,
            parse_interval(settings.checkpoint_every),
            tuple(pack_checkpoint(saved, known) for saved in self.saved),
        )

    def handle(self, event: ForwardedEvent) -> None:
        """Pass an event of the worker to the session."""
        session = self.work.session
        if event.name == "checkpoint":
            self.deaths = 0
            content, last = event.content
            if session.checkpoints is not None:
                session.checkpoints.save(unpack_checkpoint(content)[0], last=last)
            else:
                self.saved = [unpack_checkpoint(content)[0]]
        elif event.name == "notify":
            self.work.notify(event.content)
        elif event.name == "on_progress":
            self.progress = event.content
            self.work.report_progress()
        else:
            if event.name == "on_run_end":
                self.work.results[event.content.run] = event.content
            for observer in session.observers:
                getattr(observer, event.name)(event.content)

    def again(self) -> None:
        """Make ready to be handed out again, from the last checkpoint."""
        if self.work.session.checkpoints is not None:
            self.saved = self.work.session.checkpoints.find(self.runs)


@dataclass
class GroupedExperiment:
    """One experiment, in groups."""

    session: Session
    recipe: RunRecipe
    notify: Callable[[str], None]
    groups: list[RunGroup] = field(default_factory=list)
    results: dict[int, RunResult] = field(default_factory=dict)
    ends: list[GroupResult] = field(default_factory=list)

    def divide(self, count: int) -> None:
        """Divide the runs into so many groups, as they were left or else alike."""
        saved = self.session.saved()
        self.results |= {result.run: result for group in saved for result in group.results}
        left = {run for group in saved for run in group.runs}
        self.groups = [RunGroup(self, group.runs, [group]) for group in saved if group.active_runs]
        new = [run for run in range(self.recipe.settings.runs) if run not in left]
        self.groups += [RunGroup(self, runs) for runs in split_runs(new, count)]

    def report_progress(self) -> None:
        """Report the progress of all runs, including those of groups that have not started."""
        settings = self.recipe.settings
        told = [group.progress for group in self.groups if group.progress is not None]
        begun = {run for group in self.groups if group.progress is not None for run in group.runs}
        others = [run for run in range(settings.runs) if run not in begun]
        ended = [self.results[run] for run in others if run in self.results]
        spent = sum(result.evaluations for result in ended)
        phases = [progress.phase for progress in told]
        progress = Progress(
            runs=settings.runs,
            finished=sum(p.finished for p in told) + len(ended),
            solved=sum(p.solved for p in told) + sum(result.solved for result in ended),
            evaluations=sum(p.evaluations for p in told) + spent,
            budget=sum(p.budget for p in told) + spent + settings.evaluations * (len(others) - len(ended)),
            best_fitness=max([p.best_fitness for p in told] + [r.best_fitness for r in ended], default=float("-inf")),
            phase="evolving" if "evolving" in phases else phases[0] if phases else "compiling",
        )
        for observer in self.session.observers:
            observer.on_progress(progress)

    @property
    def over(self) -> bool:
        """Whether all groups have come to an end."""
        return len(self.ends) == len(self.groups)

    @property
    def interrupted(self) -> bool:
        """Whether some of it is left to do."""
        return len(self.ends) < len(self.groups) or any(end.interrupted for end in self.ends)


def evolve_groups(
    pool: Pool,
    works: Sequence[GroupedExperiment],
    *,
    stop: Callable[[], bool],
    notify: Callable[[str], None],
    ended: Callable[[GroupedExperiment], None],
) -> None:
    """Evolve all groups of all experiments, on as many workers as there are.

    Args:
        pool: the workers.
        works: the experiments, divided.
        stop: True ends early, with everything kept.
        notify: told what the user should know.
        ended: told of each experiment that has come to its end.
    """
    waiting = deque(group for work in works for group in work.groups)
    busy: dict[int, RunGroup] = {}
    stopping, problem = False, ""
    for work in works:
        if work.over:
            ended(work)
    while busy or (waiting and not stopping):
        idle = [worker for worker in range(pool.size) if worker not in busy and pool.is_ready(worker)]
        while waiting and idle and not stopping:
            worker = idle.pop(0)
            busy[worker] = waiting.popleft()
            pool.submit(worker, busy[worker].task())
        stopping = stopping or stop()
        for worker in busy if stopping else ():
            pool.stop(worker)  # each time: a cluster may hear it before it hears of the task
        for message in pool.wait(LOOK_SECONDS):
            if message.worker not in busy:
                continue  # an idle worker that died; there is another by now
            group = busy[message.worker]
            if message.kind == "event":
                for event in message.content:
                    group.handle(event)
                continue
            del busy[message.worker]
            if message.kind == "done":
                group.work.ends.append(message.content)
                if group.work.over:
                    ended(group.work)
            elif message.kind == "died" and not stopping:
                group.deaths += 1
                where = f"runs {group.runs.start} to {group.runs.stop - 1} of {group.work.recipe.settings.mutation}"
                if group.deaths >= PATIENCE:
                    problem = f"{where}: a worker died {PATIENCE} times without getting any further: {message.content}"
                else:
                    notify(f"warning: a worker died ({message.content}); {where} go on from the last checkpoint")
                    group.again()
                    waiting.appendleft(group)
            elif message.kind == "failed":
                problem = problem or _describe_failure(message.content)
        stopping = stopping or bool(problem)
    if problem:
        raise TfsmError(problem)


def _describe_failure(failure: Failure) -> str:
    return (
        failure.message
        if failure.is_user_error
        else f"a worker failed: {failure.message} (--backend local shows where)"
    )


def split_runs(runs: list[int], count: int) -> list[range]:
    """Divide runs into at most `count` groups of about the same size; those of a group follow one another.

    >>> split_runs([0, 1, 2, 3, 7], 2)
    [range(0, 3), range(3, 4), range(7, 8)]
    """
    size = -(-len(runs) // max(1, count))
    found: list[range] = []
    for run in runs:
        if found and found[-1].stop == run and len(found[-1]) < size:
            found[-1] = range(found[-1].start, run + 1)
        else:
            found.append(range(run, run + 1))
    return found
