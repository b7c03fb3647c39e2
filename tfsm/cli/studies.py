"""What `tfsm compare` and `tfsm sweep` have in common: settings of several experiments, and their progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfsm.cli.console import say
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from tfsm.experiments.places.where import Where
    from tfsm.experiments.settings import Resolved
    from tfsm.experiments.study import StudyResult
    from tfsm.plugins import Plugins

INTERRUPTED = 130
PAPER: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
"""What is compared where nobody says what."""


def mutations_of(plugins: Plugins, text: str | None) -> list[str]:
    """Return the operators that were asked for; the paper's unless some were."""
    if text is None:
        return [name for name in PAPER if name in plugins.mutations]
    names = [name.strip() for name in text.split(",") if name.strip()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TfsmError(f"--mutation {text}: {', '.join(twice)} was given twice")
    if not names:
        raise TfsmError("--mutation: expected names with commas between them, such as control,sm-g-sum")
    for name in names:
        plugins.mutations[name]  # an unknown one is an error that suggests another
    return names


def prepare(plugins: Plugins, domain: str, mutations: Sequence[str], observers: Sequence[str]) -> None:
    """Look all parts up, and import TensorFlow now if one of them must be imported to be asked for its options."""
    from tfsm.cli.tensorflow import import_for

    operators = (plugins.mutations[name] for name in mutations)
    import_for(plugins.domains[domain], *operators, *(plugins.observers[name] for name in observers))


def settings_of(
    plugins: Plugins, domain: str, *, sets: Sequence[str] = (), config: Path | None = None, **flags: Any
) -> Callable[..., Resolved]:
    """Return a function from an operator, and flags that are special for it, to its settings; None is no flag."""
    from tfsm.experiments.settings import resolve

    def resolved(mutation: str, **special: Any) -> Resolved:
        return resolve(plugins, domain=domain, mutation=mutation, overrides=flags | special, sets=sets, config=config)

    return resolved


def study(
    plugins: Plugins,
    experiments: Sequence[tuple[str, Resolved]],
    *,
    kind: str,
    out: Path | None,
    quiet: bool,
    extra: dict[str, Any] | None = None,
    top: Path | None = None,
    where: Where | None = None,
) -> StudyResult:
    """Run all of them, with progress, and tell how to go on if it was interrupted.

    Args:
        plugins: where the parts come from.
        experiments: names and settings.
        kind: what the study is.
        out: its directory.
        quiet: show no progress.
        extra: what else to write into its record.
        top: the directory that the user would name to go on, if not the study's own.
        where: where the work is done.
    """
    from tfsm.cli.interrupt import Interrupt
    from tfsm.cli.progress import progress_of
    from tfsm.cli.tensorflow import import_quietly
    from tfsm.experiments.checked import checked_study
    from tfsm.experiments.record import STUDY

    count = len(experiments)
    if out is not None and (out / STUDY).is_file():
        checked_study(out)  # a damaged one cannot be gone on with, and that is told before TensorFlow has started

    with Interrupt() as interrupt:
        import_quietly()
        from tfsm.experiments.study import Member, run_study

        def watch(number: int | None, member: Member) -> AbstractContextManager[Any]:
            settings = member.resolved.settings
            title = f"{kind} of {settings.domain}" if number is None else f"{number + 1}/{count} {member.name}"
            return progress_of(settings, quiet=quiet, title=title)

        result = run_study(
            plugins,
            [Member(name, resolved) for name, resolved in experiments],
            kind=kind,
            out=out,
            watch=watch,
            command=["tfsm", *sys.argv[1:]],
            extra=extra,
            stop=interrupt.asked,
            notify=say,
            where=where,
        )
    if result.interrupted:
        words = ["tfsm", *sys.argv[1:]]
        again = words if "--out" in words else [*words, "--out", str(top or result.directory)]
        say(f"interrupted; go on with: {shlex.join(again)}")
    return result
