"""The shared options, and help in panels."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tfsm.analysis.reproduce import FIGURES
from tfsm.cli.main import app
from tfsm.cli.options import PANELS, PanelCommand, SharedOptions, shared_options, split_names
from tfsm.cli.reproduce import FIGURE_NAMES

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
SHARED = {field.name for field in dataclasses.fields(SharedOptions)}
IN_PANELS = [name for name, command in COMMANDS.items() if isinstance(command, PanelCommand)]


def get_help(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="tfsm", terminal_width=80)
    assert result.exit_code == 0, result.output
    return result.stdout


def sections(text: str) -> dict[str, list[str]]:
    """Return the flags and arguments of each section of a help page."""
    panels: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            panels[line[:-1]] = []
        elif panels and line.startswith("  ") and line[2:3].strip():
            panels[list(panels)[-1]].append(line.split()[0].rstrip(","))
    return panels


def test_run_help_has_five_panels_in_order() -> None:
    panels = sections(get_help("run"))
    assert list(panels) == ["What to evolve", "Search", "Model", "Output", "Execution", "Other"]
    assert panels["What to evolve"] == ["DOMAIN", "--mutation", "--intensity", "--set", "--profile", "--divergence"]
    assert panels["Search"] == ["--runs", "--selection", "--evaluations", "--population", "--offspring", "--seed"]
    assert panels["Model"] == ["--model", "--layers", "--trust-model"]
    assert {"--out", "--resume", "--checkpoint-every", "--observer", "--json", "-q"} == set(panels["Output"])
    assert {"--backend", "--workers", "--address", "--grain", "--order"} < set(panels["Execution"])
    assert panels["Other"] == ["--help"]


@pytest.mark.parametrize(
    ("words", "usage", "argument"),
    [
        (["run"], "tfsm run [OPTIONS] [DOMAIN]", "DOMAIN"),
        (["watch"], "tfsm watch [OPTIONS] DIR", "DIR"),
        (["runs", "rm"], "tfsm runs rm [OPTIONS] DIR...", "DIR..."),
    ],
    ids=["optional", "required", "several"],
)
def test_arguments_are_shown_by_their_names(words: list[str], usage: str, argument: str) -> None:
    lines = get_help(*words).splitlines()
    assert lines[0] == f"Usage: {usage}"
    (line,) = [line for line in lines[1:] if line.startswith(f"  {argument} ")]
    assert line[2 + len(argument) :].startswith("  "), "no type follows the name"


def test_a_command_without_panels_has_one_list_of_options() -> None:
    panels = sections(get_help("watch"))
    assert panels == {"Arguments": ["DIR"], "Options": ["--port", "--open", "--interval", "--json", "--help"]}


@pytest.mark.parametrize("name", IN_PANELS)
def test_every_option_is_in_one_panel_of_a_page_of_80_columns(name: str) -> None:
    text = get_help(name)
    assert max(map(len, text.splitlines())) <= 80
    shown = [flag for flags in sections(text).values() for flag in flags]
    assert len(shown) == len(set(shown)) == len(COMMANDS[name].params) + 1  # --help
    unknown = set(sections(text)) - set(PANELS)
    assert not unknown or list(sections(text))[: len(unknown)] == sorted(unknown, key=list(sections(text)).index)


def test_the_long_commands_have_panels() -> None:
    assert {name for name, command in COMMANDS.items() if len(getattr(command, "params", ())) > 12} <= set(IN_PANELS)


@pytest.mark.parametrize("name", ["run", "compare", "sweep"])
def test_a_command_takes_every_shared_option(name: str) -> None:
    assert {parameter.name for parameter in COMMANDS[name].params} > SHARED


def test_a_command_receives_its_options_and_defaults_for_the_others() -> None:
    received: list[tuple[int, SharedOptions]] = []
    small = typer.Typer()

    @small.command()
    @shared_options("seed", "set_")
    def command(count: int = 1, *, options: SharedOptions, last: bool = False) -> None:
        """Run a command."""
        received.append((count, options))

    signature = inspect.signature(command)
    assert list(signature.parameters) == ["count", "set_", "seed", "last"]
    assert CliRunner().invoke(small, ["--seed", "3", "--set", "a=1", "--set", "b=2"]).exit_code == 0
    assert received == [(1, SharedOptions(seed=3, set_=["a=1", "b=2"]))]
    assert CliRunner().invoke(small, ["--runs", "3"]).exit_code == 2
    assert CliRunner().invoke(small, ["--population", "3"]).exit_code == 2


def test_a_flag_that_was_not_given_overrides_nothing() -> None:
    assert set(SharedOptions().overrides().values()) == {None}
    assert SharedOptions(layers="a", trust_model=True).overrides()["mutated_layers"] == "a"


def test_names_are_split_at_commas() -> None:
    assert split_names(" control,,sm-r ") == ["control", "sm-r"]
    assert split_names(None) == split_names(",") == []


def test_the_help_names_every_figure() -> None:
    assert tuple(FIGURES) == FIGURE_NAMES
