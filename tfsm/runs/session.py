"""One experiment under way: where it is kept, who is told of it, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint import Checkpoint
from tfsm.evolution.checkpoint_schedule import parse_interval
from tfsm.evolution.compile_plan import Plan
from tfsm.evolution.observers import ExperimentInfo, Status
from tfsm.interfaces import Domain, Observer, SupportsFiles
from tfsm.models.genome import find_sections
from tfsm.models.loading import describe_model
from tfsm.models.network import Network
from tfsm.parallel.pool import check_grain
from tfsm.plugins import Plugins
from tfsm.runs.checkpoints import CheckpointFiles
from tfsm.runs.directory import RunDirectory, claim, collect_versions, directory_taken_error
from tfsm.runs.observers import DeduplicatingObserver
from tfsm.runs.records import RECORD, DirectoryLock, read_record
from tfsm.runs.resume import fingerprint
from tfsm.settings import ResolvedSettings, Settings


class Session:
    """Opens a run directory, new or to go on with, and keeps it to itself until it is left.

    Args:
        plugins: where the parts come from.
        resolved: the settings.
        network: the network.
        domain: the domain.
        plan: how it is compiled.
        others: who else is told.
        out: where to write; a new directory below `runs` if None.
        keep: whether to write anything at all.
        resume: whether `out` is an experiment to go on with.
        command: the command line, for the record.
        notify: told what the user should know.
        place: where the work is done, for the record.
        initial_population: how many first individuals a run has.
    """

    def __init__(
        self,
        plugins: Plugins,
        resolved: ResolvedSettings,
        network: Network,
        domain: Domain,
        plan: Plan,
        others: Sequence[Observer],
        *,
        out: Path | None,
        keep: bool,
        resume: bool,
        command: Sequence[str],
        notify: Callable[[str], None],
        place: Mapping[str, Any] | None = None,
        initial_population: int,
    ) -> None:
        self.settings, self.network = resolved.settings, network
        self.about = _about(self.settings.as_dict())
        """What a checkpoint says of the experiment that it belongs to."""
        self._held = ExitStack()
        self._record: RunDirectory | None = None
        self.directory: Path | None = None
        self.checkpoints: CheckpointFiles | None = None
        """Who keeps where the runs stand; None where nothing is kept."""
        if keep:
            name = f"{self.settings.domain}-{self.settings.mutation}"
            self.directory = out if resume and out is not None else claim(out, name)
            with ExitStack() as held:
                held.enter_context(DirectoryLock(self.directory))
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
                    initial_population=initial_population,
                    notify=notify,
                )
                self._held = held.pop_all()
        known = self._record.known if self._record is not None else frozenset()
        self._others = [DeduplicatingObserver(other, known) for other in others]
        if self.directory is not None and self._record is not None:
            every = parse_interval(self.settings.checkpoint_every)
            self.checkpoints = CheckpointFiles(
                self.directory,
                self.about,
                every,
                notify,
                sync=self._record.sync,
                is_whole=self._record.is_whole,
                size=plan.runs * plan.bytes_each,
                observers=self._others,
            )

    @property
    def observers(self) -> list[Observer]:
        """Everybody who is told what happens."""
        return [*self._others] if self._record is None else [self._record, *self._others]

    def saved(self) -> list[Checkpoint]:
        """Return where the runs stand that were begun before."""
        return [] if self.checkpoints is None else self.checkpoints.find(range(self.settings.runs))

    def forget(self, after: Mapping[int, int]) -> None:
        """Take back what was told of runs after so many evaluations each: it will happen otherwise."""
        if self._record is not None:
            self._record.forget(after)
        for other in self._others:
            other.rewind(after)

    def __enter__(self) -> Self:
        experiment = ExperimentInfo(self.settings.as_dict(), self.directory, find_sections(self.network.model))
        for observer in self.observers:
            observer.on_experiment_start(experiment)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def end(self, status: Status, error: str | None = None) -> None:
        """Write down how it ended, and tell."""
        try:
            if self._record is not None:
                # What cannot be written must not hide what went wrong before.
                with suppress(*(TfsmError,) if error is not None else ()):
                    self._record.close(status, error)
        finally:
            for observer in self._others:
                observer.on_experiment_end(status)


def _about(settings: Mapping[str, Any]) -> dict[str, Any]:
    own = collect_versions()
    return {
        "experiment": fingerprint(settings),
        "versions": {name: own[name] for name in ("tfsm", "tensorflow", "keras", "numpy")},
    }


def describe_objects(plugins: Plugins, settings: Settings) -> dict[str, str]:
    """Return what no setting tells all of: parts that came ready made, and which model it was."""
    chosen = {
        "domain": plugins.domains[settings.domain],
        "mutation": plugins.mutations[settings.mutation],
        "selection": plugins.selections[settings.selection],
    }
    objects = {kind: repr(entry.instance) for kind, entry in chosen.items() if entry.instance is not None}
    return objects if settings.model is None else objects | {"model": describe_model(settings.model)}
