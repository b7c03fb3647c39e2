"""Every `tfsm` command in the documents is valid; commands that only list something are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from tests.docs import package
from tests.docs.markdown import ALL_PAGES, DOCS, ROOT, Command, commands
from tests.helpers.fake_distribution import FakeSite
from tfsm.cli.main import app
from tfsm.plugins import load_plugins
from tfsm.settings import resolve

EAGER = ("--version", "--help", "--install-completion", "--show-completion")
"""Options that act when they are parsed."""
FLAGS = ("intensity", "selection", "runs", "seed", "evaluations", "population")

CASES = [
    pytest.param(page, command, id=f"{page.relative_to(ROOT)}: {command}")
    for page in ALL_PAGES
    for command in commands(page)
    if command.words[:1] == ("tfsm",)
]


def parse(command: Command) -> tuple[str, dict[str, Any]]:
    """Parse a command with the real command line, down to the innermost subcommand, without running it."""
    words = [word for word in command.words[1:] if word not in EAGER]
    if not words:
        return "", {}
    current: Any = typer.main.get_command(app)
    context = current.make_context("tfsm", words)
    path: list[str] = []
    while hasattr(current, "resolve_command") and words:
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        name, current, words = current.resolve_command(context, rest)
        path.append(str(name))
        context = current.make_context(name, words, parent=context)
    return " ".join(path), dict(context.params)


def is_run(command: Command) -> bool:
    return "run" in command.words[1:2]


def is_expensive(command: Command) -> bool:
    """Return whether a command takes long, or needs something: a run directory, a model, or a shell to complete for."""
    slow = (
        "run",
        "compare",
        "sweep",
        "robustness",
        "reproduce",
        "report",
        "replay",
        "runs",
        "mutate",
        "sensitivity",
        "watch",
    )
    completion = ("--install-completion", "--show-completion")  # tests/cli/test_completion.py runs them in real shells
    return (
        command.words[1] in (*slow, *completion)
        or command.words[1:3] == ("plugins", "check")
        or "--model" in command.words
    )


@pytest.mark.sample(7)
@pytest.mark.parametrize(("page", "command"), CASES)
def test_the_command_line_accepts_it(page: Path, command: Command) -> None:
    name, params = parse(command)
    # The parts of the example and the tutorials are tested in tests/testing.
    if not is_run(command) or package.names() & set(command.words):
        return
    assert name == "run"
    if params["resume"] is not None:
        assert params["domain"] is params["mutation"] is None, "a resumed run keeps its domain and mutation"
        return
    overrides = {**{flag: params[flag] for flag in FLAGS}, "observers": params["observer"] or None}
    resolve(
        load_plugins(),
        domain=params["domain"],
        mutation=params["mutation"],
        overrides=overrides,
        sets=params["set_"] or (),
        cwd=Path("/"),
    )


@pytest.mark.sample(4)
@pytest.mark.parametrize(("page", "command"), [case for case in CASES if not is_expensive(case.values[1])])
def test_a_cheap_command_prints_the_documented_output(page: Path, command: Command, tmp_path: Path) -> None:
    site = FakeSite(tmp_path)
    package.install(tmp_path)
    result = site.tfsm(*command.words[1:], **command.environment)
    assert result.returncode == 0, result.stderr
    if DOCS in page.parents:
        printed = {" ".join(line.split()) for line in result.stdout.splitlines()}
        expected = {" ".join(line.split()) for line in command.output} - {"", "..."}
        assert expected <= printed
