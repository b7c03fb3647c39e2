"""Several experiments in one directory, which can be interrupted at any point and started again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfsm.errors import TfsmError
from tfsm.evolution.records import Observer
from tfsm.experiments.directory import claim
from tfsm.experiments.identity import different
from tfsm.experiments.locking import Locked
from tfsm.experiments.parts import Engines
from tfsm.experiments.record import RECORD, STUDY, now, read_record, read_study, write_json
from tfsm.experiments.run import run_experiment
from tfsm.experiments.settings import Resolved
from tfsm.plugins import Plugins


@dataclass(frozen=True)
class Member:
    """One experiment of a study."""

    name: str
    resolved: Resolved

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


Watch = Callable[[int, Member], AbstractContextManager[Observer]]
"""From the number of a member to somebody who is told how it goes."""


def run_study(
    plugins: Plugins,
    members: Sequence[Member],
    *,
    kind: str,
    out: Path | None,
    watch: Watch,
    command: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
    stop: Callable[[], bool] = lambda: False,
    notify: Callable[[str], None] = lambda message: None,
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
    """
    domain = members[0].resolved.settings.domain
    directory, before = _opened(out, kind, domain)
    with Locked(directory):
        finished = {member.name: _is_finished(directory / member.folder, member) for member in members}
        known = [entry for entry in before.get("members", []) if entry["name"] not in finished]
        record = {
            "kind": kind,
            "domain": domain,
            "status": "running",
            "started": before.get("started", now()),
            "ended": None,
            "commands": [*before.get("commands", []), list(command)],
            "members": known + [{"name": member.name, "directory": member.folder} for member in members],
            **(extra or {}),
        }
        write_json(directory / STUDY, record)
        done = sum(finished.values())
        if done:
            notify(f"{directory}: {done} of {len(members)} are finished already, and not run again")
        engines, seconds, interrupted = Engines(), {}, False
        status = "failed"
        try:
            for number, member in enumerate(members):
                if finished[member.name]:
                    continue
                path = directory / member.folder
                with watch(number, member) as observer:
                    result = run_experiment(
                        plugins,
                        member.resolved,
                        out=path,
                        resume=path.is_dir(),
                        command=command,
                        observers=[observer],
                        stop=stop,
                        notify=notify,
                        engines=engines,
                    )
                seconds[member.name] = result.seconds
                interrupted = result.interrupted
                if interrupted:
                    break
            status = "interrupted" if interrupted else "finished"
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            write_json(directory / STUDY, record | {"status": status, "ended": now()})
        return StudyResult(directory, seconds, interrupted)


def _opened(out: Path | None, kind: str, domain: str) -> tuple[Path, dict[str, Any]]:
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
    changes = different(record["settings"], member.resolved.settings.as_dict())
    if changes:
        raise TfsmError(f"{directory}: was run with other settings ({', '.join(changes[:3])}): choose another --out")
    return bool(record["status"] == "finished")
