"""Several experiments in one directory, which can be interrupted at any point and started again."""

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
from tfsm.runs.records import RECORD, STUDY, DirectoryLock, read_record, read_study, timestamp, write_json
from tfsm.runs.result import Result
from tfsm.runs.resume import describe_changes
from tfsm.runs.runner import ExperimentSpec, run_experiment, run_on_workers
from tfsm.settings import ResolvedSettings


@dataclass(frozen=True)
class Member:
    """One experiment of a study."""

    name: str
    resolved: ResolvedSettings

    @property
    def folder(self) -> str:
        """What its directory is called within the study's."""
        return re.sub(r"[^\w.+-]+", "-", self.name)


@dataclass(frozen=True)
class StudyResult:
    """How a study ended."""

    directory: Path
    seconds: dict[str, float]
    """Wall time of each member that was run now; what was there before is not in it."""
    interrupted: bool


WatchMember = Callable[[int | None, Member], AbstractContextManager[Observer]]
"""From the number of a member to somebody who is told how it goes; None: how all go, side by side."""


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
    """Run all members that have not been run yet.

    A member that was interrupted goes on from its checkpoints: every run of it comes out as it would have.

    Args:
        plugins: where the parts come from.
        members: what to run; all of one domain.
        kind: what the study is: `compare`, `sweep` or `reproduce`.
        out: the study's directory, new or to be continued; a new one below `runs` if None.
        watch: who is told how a member goes.
        command: the command line, for the record.
        extra: what else to write into the record.
        stop: True ends early, with everything kept.
        notify: told what the user should know.
        backend: where the work is done; by this process itself, one member after another, if None.
    """
    domain = members[0].resolved.settings.domain
    directory, before = _open(out, kind, domain)
    with DirectoryLock(directory):
        finished = {member.name: _is_finished(directory / member.folder, member) for member in members}
        known = [entry for entry in before.get("members", []) if entry["name"] not in finished]
        record = {
            "kind": kind,
            "domain": domain,
            "status": "running",
            "started": before.get("started", timestamp()),
            "ended": None,
            "commands": [*before.get("commands", []), list(command)],
            "members": known + [{"name": member.name, "directory": member.folder} for member in members],
            **(extra or {}),
        }
        write_json(directory / STUDY, record)
        done = sum(finished.values())
        if done:
            notify(f"{directory}: {done} of {len(members)} are finished already, and not run again")
        left = [(number, member) for number, member in enumerate(members) if not finished[member.name]]
        do = _one_by_one if backend is None or backend.is_local else partial(_side_by_side, backend=backend)
        results: dict[str, Result] = {}
        status = "failed"
        try:
            do(plugins, directory, left, results, watch=watch, command=command, stop=stop, notify=notify)
            over = len(results) == len(left) and not any(result.interrupted for result in results.values())
            status = "finished" if over else "interrupted"
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            write_json(directory / STUDY, record | {"status": status, "ended": timestamp()})
        seconds = {name: result.seconds for name, result in results.items()}
        return StudyResult(directory, seconds, status == "interrupted")


def _one_by_one(
    plugins: Plugins,
    directory: Path,
    members: Sequence[tuple[int, Member]],
    results: dict[str, Result],
    *,
    watch: WatchMember,
    **others: Any,
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
                **others,
            )
        if results[member.name].interrupted:
            return


def _side_by_side(
    plugins: Plugins,
    directory: Path,
    members: Sequence[tuple[int, Member]],
    results: dict[str, Result],
    *,
    watch: WatchMember,
    backend: Backend,
    **others: Any,
) -> None:
    if not members:
        return
    with watch(None, members[0][1]) as observer:
        combined = CombinedProgress(observer, [member.resolved.settings for _, member in members])
        wanted = [
            ExperimentSpec(
                member.resolved,
                directory / member.folder,
                resume=(directory / member.folder).is_dir(),
                observers=[combined.observer(place)],
            )
            for place, (_, member) in enumerate(members)
        ]
        found = run_on_workers(plugins, wanted, backend, **others)
    results |= {member.name: result for (_, member), result in zip(members, found, strict=True)}


def _open(out: Path | None, kind: str, domain: str) -> tuple[Path, dict[str, Any]]:
    """Return the directory of a new study, or of one to go on with, and what it says of itself."""
    if out is None or not (out / STUDY).is_file():
        return claim(out, f"{kind}-{domain}"), {}
    record = read_study(out)
    for key, value in (("kind", kind), ("domain", domain)):
        if record.get(key) != value:
            raise TfsmError(
                f"{out}: a {record.get('kind')} of {record.get('domain')} is in there: choose another --out"
            )
    return out, record


def _is_finished(directory: Path, member: Member) -> bool:
    """Say whether a member's runs are all there; runs with other settings are an error."""
    if not (directory / RECORD).is_file():
        return False
    record = read_record(directory)
    changes = describe_changes(record["settings"], member.resolved.settings.as_dict())
    if changes:
        raise TfsmError(f"{directory}: was run with other settings ({', '.join(changes[:3])}): choose another --out")
    return bool(record["status"] == "finished")
