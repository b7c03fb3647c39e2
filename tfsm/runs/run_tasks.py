"""Groups of runs as tasks for workers: what a worker does, and the driver that hands out groups and collects events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, NamedTuple

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint import Checkpoint, pack_checkpoint, split_into_ranges, unpack_checkpoint
from tfsm.evolution.checkpoint_schedule import CheckpointInterval, CheckpointSchedule, parse_interval
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.evolution.observers import Progress, RunResult
from tfsm.parallel.pool import Pool
from tfsm.parallel.worker import Failure, WorkerContext
from tfsm.runs.build import EngineCache, RunRecipe
from tfsm.runs.checkpoints import PackedCheckpoint
from tfsm.runs.observers import ForwardingObserver
from tfsm.runs.result import to_user_error
from tfsm.runs.session import Session

MAX_DEATHS: Final = 3
"""How often workers may die on a group without any progress."""
WAIT_SECONDS: Final = 0.25


class ForwardedEvent(NamedTuple):
    """An event of a worker: a method of `Observer`, `checkpoint` or `notify`, and its argument."""

    name: str
    content: Any


class GroupResult(NamedTuple):
    """How the task of a group ended."""

    interrupted: bool
    compile_seconds: float
    evaluated: int


class RemoteObserver(ForwardingObserver):
    """Collects events and checkpoints in a worker until they are sent to the driver.

    Args:
        about: identifies the experiment in its checkpoints.
        every: how often to write a checkpoint.
    """

    def __init__(self, about: Mapping[str, Any], every: CheckpointInterval) -> None:
        self._about, self._schedule = about, CheckpointSchedule(every)
        self._events: list[ForwardedEvent] = []

    def take(self) -> list[ForwardedEvent]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    def notify(self, message: str) -> None:
        """Collect a message for the user."""
        self._forward("notify", message)

    def next_check(self, used: int) -> int:
        """Return the number of evaluations, above `used`, at which to check again at the latest."""
        return self._schedule.next_check(used)

    def is_due(self, used: int) -> bool:
        """Say whether a checkpoint is due."""
        return self._schedule.is_due(used)

    def save(self, checkpoint: Checkpoint, *, last: bool = False) -> None:
        """Collect a checkpoint, packed."""
        start = perf_counter()
        self._forward("checkpoint", (PackedCheckpoint.pack(checkpoint, self._about), last))
        self._schedule.record(checkpoint.evaluations_used, perf_counter() - start)

    def _forward(self, method: str, event: Any) -> None:
        self._events.append(ForwardedEvent(method, event))


@dataclass(frozen=True)
class GroupTask:
    """Evolves consecutive runs in lock step; yields lists of events."""

    recipe: RunRecipe
    """For as many runs as the group has."""
    runs: range
    about: Mapping[str, Any]
    every: CheckpointInterval
    checkpoints: tuple[bytes, ...] = ()
    """Packed checkpoints to resume from."""

    def __call__(self, context: WorkerContext) -> Generator[list[ForwardedEvent], None, GroupResult]:
        """Evolve the runs, in a worker."""
        settings = self.recipe.settings
        engines: EngineCache = context.cache.setdefault("engines", EngineCache())
        engine = engines.engine(self.recipe.plugins(), settings, model=self.recipe.model)
        observer = RemoteObserver(self.about, self.every)
        # A cached engine still has the policy of another experiment.
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
            saved=[unpack_checkpoint(content)[0] for content in self.checkpoints],
        )
        try:
            for _ in loop.steps():
                yield observer.take()
        except Exception as error:
            yield observer.take()  # what could be saved
            if (user_error := to_user_error(error)) is not error:
                raise user_error from error
            raise
        yield observer.take()
        return GroupResult(loop.interrupted, loop.compile_seconds, loop.evaluated)


@dataclass
class RunGroup:
    """Consecutive runs of an experiment that one worker evolves."""

    experiment: GroupedExperiment
    runs: range
    checkpoints: list[Checkpoint] = field(default_factory=list)
    """Where to resume from."""
    received: bytes | None = None
    """The last checkpoint of a worker, where nothing is written to a directory."""
    progress: Progress | None = None
    deaths: int = 0

    def make_task(self) -> GroupTask:
        """Return the task for a worker."""
        recipe, about = self.experiment.recipe, self.experiment.session.about
        packed = [self.received] if self.received else [pack_checkpoint(each, about) for each in self.checkpoints]
        every = parse_interval(recipe.settings.checkpoint_every)
        return GroupTask(recipe.for_runs(len(self.runs)), self.runs, about, every, tuple(packed))

    def handle(self, event: ForwardedEvent) -> None:
        """Pass an event of the worker to the session."""
        session = self.experiment.session
        if event.name == "checkpoint":
            self.deaths = 0
            checkpoint, last = event.content
            if session.checkpoints is not None:
                session.checkpoints.save(checkpoint, last=last)
            else:
                self.received = checkpoint.content
        elif event.name == "notify":
            self.experiment.notify(event.content)
        elif event.name == "on_progress":
            self.progress = event.content
            self.experiment.report_progress()
        else:
            if event.name == "on_run_end":
                self.experiment.results[event.content.run] = event.content
            for observer in session.observers:
                getattr(observer, event.name)(event.content)

    def rewind(self) -> None:
        """Go back to the last checkpoint, after the worker has died."""
        if self.experiment.session.checkpoints is not None:
            self.checkpoints = self.experiment.session.checkpoints.find(self.runs)


@dataclass(eq=False)
class GroupedExperiment:
    """An experiment whose runs are divided into groups."""

    session: Session
    recipe: RunRecipe
    notify: Callable[[str], None]
    groups: list[RunGroup] = field(default_factory=list)
    results: dict[int, RunResult] = field(default_factory=dict)
    group_results: list[GroupResult] = field(default_factory=list)

    def divide(self, count: int) -> None:
        """Divide the runs into groups: those of the checkpoints, and about `count` equal ones of new runs."""
        checkpoints = self.session.load_checkpoints()
        self.results |= {result.run: result for checkpoint in checkpoints for result in checkpoint.results}
        saved = {run for checkpoint in checkpoints for run in checkpoint.runs}
        self.groups = [RunGroup(self, each.runs, [each]) for each in checkpoints if each.active_runs]
        new = [run for run in range(self.recipe.settings.runs) if run not in saved]
        size = -(-len(new) // max(1, count))
        self.groups += [RunGroup(self, runs) for runs in split_into_ranges(new, size)]

    def report_progress(self) -> None:
        """Report the progress of all runs, including those of groups that have not started."""
        settings = self.recipe.settings
        parts = [group.progress for group in self.groups if group.progress is not None]
        started = {run for group in self.groups if group.progress is not None for run in group.runs}
        others = [run for run in range(settings.runs) if run not in started]
        ended = [self.results[run] for run in others if run in self.results]
        used = sum(result.evaluations for result in ended)
        phases = [part.phase for part in parts]
        progress = Progress(
            runs=settings.runs,
            finished=sum(part.finished for part in parts) + len(ended),
            solved=sum(part.solved for part in parts) + sum(result.solved for result in ended),
            evaluations=sum(part.evaluations for part in parts) + used,
            budget=sum(part.budget for part in parts) + used + settings.evaluations * (len(others) - len(ended)),
            best_fitness=max([p.best_fitness for p in parts] + [r.best_fitness for r in ended], default=float("-inf")),
            phase="evolving" if "evolving" in phases else phases[0] if phases else "compiling",
        )
        for observer in self.session.observers:
            observer.on_progress(progress)

    @property
    def ended(self) -> bool:
        """Whether all groups have ended."""
        return len(self.group_results) == len(self.groups)

    @property
    def interrupted(self) -> bool:
        """Whether some runs are unfinished."""
        return not self.ended or any(result.interrupted for result in self.group_results)


def evolve_groups(
    pool: Pool,
    experiments: Sequence[GroupedExperiment],
    *,
    stop: Callable[[], bool],
    notify: Callable[[str], None],
) -> Iterator[GroupedExperiment]:
    """Evolve all groups of all experiments on the workers of a pool; yield each experiment when it has ended.

    Args:
        pool: the workers.
        experiments: the experiments, divided into groups.
        stop: returns True to end early, with everything saved.
        notify: receives messages for the user.
    """
    waiting = deque(group for experiment in experiments for group in experiment.groups)
    busy: dict[int, RunGroup] = {}
    stopping, problem = False, ""
    yield from (experiment for experiment in experiments if experiment.ended)
    while busy or (waiting and not stopping):
        idle = [worker for worker in range(pool.size) if worker not in busy and pool.is_ready(worker)]
        while waiting and idle and not stopping:
            worker = idle.pop(0)
            busy[worker] = waiting.popleft()
            pool.submit(worker, busy[worker].make_task())
        stopping = stopping or stop()
        for worker in busy if stopping else ():
            pool.stop(worker)  # each time: on a cluster it may overtake the task
        for message in pool.wait(WAIT_SECONDS):
            if message.worker not in busy:
                continue  # an idle worker died and was replaced
            group = busy[message.worker]
            if message.kind == "event":
                for event in message.content:
                    group.handle(event)
                continue
            del busy[message.worker]
            if message.kind == "done":
                group.experiment.group_results.append(message.content)
                if group.experiment.ended:
                    yield group.experiment
            elif message.kind == "died" and not stopping:
                group.deaths += 1
                mutation = group.experiment.recipe.settings.mutation
                runs = f"runs {group.runs.start} to {group.runs.stop - 1} of {mutation}"
                if group.deaths >= MAX_DEATHS:
                    problem = f"{runs}: a worker died {MAX_DEATHS} times without progress: {message.content}"
                else:
                    notify(f"warning: a worker died ({message.content}); {runs} resume from the last checkpoint")
                    group.rewind()
                    waiting.appendleft(group)
            elif message.kind == "failed":
                problem = problem or _describe_failure(message.content)
        stopping = stopping or bool(problem)
    if problem:
        raise TfsmError(problem)


def _describe_failure(failure: Failure) -> str:
    hint = "use --backend local to see the traceback"
    return failure.message if failure.is_user_error else f"a worker failed: {failure.message} ({hint})"
