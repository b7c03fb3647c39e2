"""A running experiment: its directory with lock and checkpoints, its observers, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tfsm.abilities import SupportsFiles
from tfsm.errors import TfsmError
from tfsm.evolution.batches import Batches
from tfsm.evolution.checkpoint import Checkpoint
from tfsm.evolution.checkpoint_schedule import parse_interval
from tfsm.evolution.compile_plan import Plan
from tfsm.evolution.observers import ExperimentInfo, Status
from tfsm.interfaces import Domain, Observer
from tfsm.models.genome import find_sections
from tfsm.models.loading import describe_model
from tfsm.models.network import Network
from tfsm.parallel.pool import check_grain
from tfsm.plugins import Plugins
from tfsm.runs.checkpoints import CheckpointFiles, estimate_disk, warn_of_small_disk
from tfsm.runs.directory import RunDirectory, claim, collect_versions, directory_taken_error
from tfsm.runs.observers import DeduplicatingObserver
from tfsm.runs.records import RECORD, DirectoryLock, read_record
from tfsm.runs.resume import fingerprint
from tfsm.settings import ResolvedSettings, Settings


class Session:
    """Opens a new or existing run directory, locks it, and notifies the observers, until the context is left.

    Args:
        plugins: the registered parts.
        resolved: the settings.
        network: the network.
        domain: the domain.
        plan: how it is compiled.
        observers: the user's observers.
        out: the run directory; a new one below `runs` if None.
        keep: whether to write anything at all.
        resume: whether to continue the experiment in `out`.
        command: the command line, for the record.
        notify: receives messages for the user.
        place: the backend, for the record.
        batches: the children that runs ask for at once.
    """

    def __init__(
        self,
        plugins: Plugins,
        resolved: ResolvedSettings,
        network: Network,
        domain: Domain,
        plan: Plan,
        observers: Sequence[Observer],
        *,
        out: Path | None,
        keep: bool,
        resume: bool,
        command: Sequence[str],
        notify: Callable[[str], None],
        place: Mapping[str, Any] | None = None,
        batches: Batches,
    ) -> None:
        self.settings, self.network = resolved.settings, network
        self.about = _identify(self.settings.as_record())
        """Identifies the experiment in its checkpoints."""
        self._lock = ExitStack()
        self._record: RunDirectory | None = None
        self.directory: Path | None = None
        self.checkpoints: CheckpointFiles | None = None
        """None where nothing is written."""
        if keep:
            name = f"{self.settings.domain}-{self.settings.mutation}"
            self.directory = out if resume and out is not None else claim(out, name)
            with ExitStack() as lock:
                lock.enter_context(DirectoryLock(self.directory))
                if not resume and (self.directory / RECORD).is_file():  # another process was faster
                    raise directory_taken_error(self.directory)
                if (self.directory / RECORD).is_file():
                    check_grain(read_record(self.directory), self.directory, (place or {}).get("grain", "runs"))
                self._record = RunDirectory(
                    self.directory,
                    resolved,
                    network,
                    command=list(command),
                    plan=asdict(plan) | {"place": dict(place or {"backend": "local"})},
                    objects=describe_objects(plugins, self.settings),
                    files=domain.files() if isinstance(domain, SupportsFiles) else {},
                    batches=batches,
                    notify=notify,
                )
                self._lock = lock.pop_all()
        known = self._record.known if self._record is not None else frozenset()
        self._observers = [DeduplicatingObserver(observer, known) for observer in observers]
        if self.directory is not None and self._record is not None:
            every = parse_interval(self.settings.checkpoint_every)
            if every:
                needed = estimate_disk(plan, self.settings.runs, side_by_side=place is not None)
                warn_of_small_disk(self.directory, needed, notify)
            self.checkpoints = CheckpointFiles(
                self.directory,
                self.about,
                every,
                notify,
                sync=self._record.sync,
                is_complete=self._record.is_complete,
                size=plan.runs * plan.bytes_each,
                observers=self._observers,
            )

    @property
    def observers(self) -> list[Observer]:
        """All observers: the run directory, then those of the user."""
        return [*self._observers] if self._record is None else [self._record, *self._observers]

    def load_checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints of runs to resume."""
        return [] if self.checkpoints is None else self.checkpoints.find(range(self.settings.runs))

    def rewind(self, evaluations: Mapping[int, int]) -> None:
        """Drop what was reported beyond a run's given number of evaluations, because it will come out differently."""
        if self._record is not None:
            self._record.rewind(evaluations)
        for observer in self._observers:
            observer.rewind(evaluations)

    def __enter__(self) -> Self:
        experiment = ExperimentInfo(self.settings.as_dict(), self.directory, find_sections(self.network.model))
        for observer in self.observers:
            observer.on_experiment_start(experiment)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()

    def end(self, status: Status, error: str | None = None) -> None:
        """Record how the experiment ended, and notify the observers."""
        try:
            if self._record is not None:
                # A write error must not hide the error that ended the experiment.
                with suppress(*(TfsmError,) if error is not None else ()):
                    self._record.close(status, error)
        finally:
            for observer in self._observers:
                observer.on_experiment_end(status)


def _identify(settings: Mapping[str, Any]) -> dict[str, Any]:
    versions = collect_versions()
    return {
        "experiment": fingerprint(settings),
        "versions": {name: versions[name] for name in ("tfsm", "tensorflow", "keras", "numpy")},
    }


def describe_objects(plugins: Plugins, settings: Settings) -> dict[str, str]:
    """Describe what the settings do not define completely: ready-made parts, and the model."""
    chosen = {
        "domain": plugins.domains[settings.domain],
        "mutation": plugins.mutations[settings.mutation],
        "selection": plugins.selections[settings.selection],
    }
    objects = {kind: repr(entry.instance) for kind, entry in chosen.items() if entry.instance is not None}
    return objects if settings.model is None else objects | {"model": describe_model(settings.model)}
