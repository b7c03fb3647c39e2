"""Studies: several experiments in one directory, which can be interrupted and resumed at any point."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tfsm.errors import TfsmError
from tfsm.interfaces import Observer
from tfsm.parallel.pool import Backend
from tfsm.plugins import Plugins
from tfsm.runs.build import EngineCache
from tfsm.runs.directory import claim
from tfsm.runs.observers import CombinedProgress
from tfsm.runs.records import RECORD, STUDY, DirectoryLock, read_record, read_study, timestamp
from tfsm.runs.result import Result
from tfsm.runs.resume import describe_changes
from tfsm.runs.runner import ExperimentSpec, run_experiment, run_on_workers
from tfsm.settings import ResolvedSettings
from tfsm.utils.files import write_json


@dataclass(frozen=True)
class Member:
    """One experiment of a study."""

    name: str
    resolved: ResolvedSettings

    @property
    def folder(self) -> str:
        """The name of its directory within the study's."""
        return re.sub(r"[^\w.+-]+", "-", self.name)


@dataclass(frozen=True)
class StudyResult:
    """How a study ended."""

    directory: Path
    seconds: dict[str, float]
    """Wall time of each member that was run now, without those finished earlier."""
    interrupted: bool


WatchMember = Callable[[int | None, Member], AbstractContextManager[Observer]]
"""From the number of a member to an observer of its progress; None: of all members, side by side."""


def run_study(
    plugins: Plugins,
    members: Sequence[Member],
    *,
    kind: str,
    out: Path | None,
    watch: WatchMember,
    command: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
    stop: Callable[[], bool] = lambda: False,
    notify: Callable[[str], None] = lambda message: None,
    backend: Backend | None = None,
) -> StudyResult:
    """Run all members that are not finished.

    An interrupted member resumes from its checkpoints, with the same results as without the interruption.

    Args:
        plugins: the registered parts.
        members: the experiments, all of one domain.
        kind: `compare`, `sweep` or `reproduce`.
        out: the study's directory, new or to be continued; a new one below `runs` if None.
        watch: returns an observer of a member's progress.
        command: the command line, for the record.
        extra: more values for the record.
        stop: returns True to end early, with everything saved.
        notify: receives messages for the user.
        backend: where the experiments run; in this process, one after another, if None.
    """
    notify = _notify_once(notify)  # members of a study have the same notes
    domain = members[0].resolved.settings.domain
    directory, previous = _open(out, kind, domain)
    with DirectoryLock(directory):
        finished = {member.name: _is_finished(directory / member.folder, member) for member in members}
        others = [entry for entry in previous.get("members", []) if entry["name"] not in finished]
        record = {
            "kind": kind,
            "domain": domain,
            "status": "running",
            "started": previous.get("started", timestamp()),
            "ended": None,
            "commands": [*previous.get("commands", []), list(command)],
            "members": others + [{"name": member.name, "directory": member.folder} for member in members],
            **(extra or {}),
        }
        write_json(directory / STUDY, record)
        done = sum(finished.values())
        if done:
            notify(f"{directory}: {done} of {len(members)} already finished, not run again")
        left = [(number, member) for number, member in enumerate(members) if not finished[member.name]]
        run = _run_one_by_one if backend is None or backend.is_local else partial(_run_side_by_side, backend=backend)
        results: dict[str, Result] = {}
        status = "failed"
        try:
            run(plugins, directory, left, results, watch=watch, command=command, stop=stop, notify=notify)
            complete = len(results) == len(left) and not any(result.interrupted for result in results.values())
            status = "finished" if complete else "interrupted"
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            write_json(directory / STUDY, record | {"status": status, "ended": timestamp()})
        seconds = {name: result.seconds for name, result in results.items()}
        return StudyResult(directory, seconds, status == "interrupted")


def _notify_once(notify: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes on every message once."""
    seen: set[str] = set()

    def notify_once(message: str) -> None:
        if message not in seen:
            seen.add(message)
            notify(message)

    return notify_once


def _run_one_by_one(
    plugins: Plugins,
    directory: Path,
    members: Sequence[tuple[int, Member]],
    results: dict[str, Result],
    *,
    watch: WatchMember,
    **options: Any,
) -> None:
    engines = EngineCache()
    for number, member in members:
        path = directory / member.folder
        with watch(number, member) as observer:
            results[member.name] = run_experiment(
                plugins,
                member.resolved,
                out=path,
                resume=path.is_dir(),
                observers=[observer],
                engines=engines,
                **options,
            )
        if results[member.name].interrupted:
            return


def _run_side_by_side(
    plugins: Plugins,
    directory: Path,
    members: Sequence[tuple[int, Member]],
    results: dict[str, Result],
    *,
    watch: WatchMember,
    backend: Backend,
    **options: Any,
) -> None:
    if not members:
        return
    with watch(None, members[0][1]) as observer:
        combined = CombinedProgress(observer, [member.resolved.settings for _, member in members])
        specs = [
            ExperimentSpec(
                member.resolved,
                directory / member.folder,
                resume=(directory / member.folder).is_dir(),
                observers=[combined.observer(index)],
            )
            for index, (_, member) in enumerate(members)
        ]
        member_results = run_on_workers(plugins, specs, backend, **options)
    results |= {member.name: result for (_, member), result in zip(members, member_results, strict=True)}


def _open(out: Path | None, kind: str, domain: str) -> tuple[Path, dict[str, Any]]:
    """Return the directory of a new or existing study, and its record."""
    if out is None or not (out / STUDY).is_file():
        return claim(out, f"{kind}-{domain}"), {}
    record = read_study(out)
    for key, value in (("kind", kind), ("domain", domain)):
        if record.get(key) != value:
            raise TfsmError(f"{out}: contains a {record.get('kind')} of {record.get('domain')}: choose another --out")
    return out, record


def _is_finished(directory: Path, member: Member) -> bool:
    """Say whether a member is finished; raise a `TfsmError` if it was run with other settings."""
    if not (directory / RECORD).is_file():
        return False
    record = read_record(directory)
    changes = describe_changes(record["settings"], member.resolved.settings.as_record())
    if changes:
        raise TfsmError(f"{directory}: was run with other settings ({', '.join(changes[:3])}): choose another --out")
    return bool(record["status"] == "finished")
