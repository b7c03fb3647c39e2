"""Mistakes in files and on the command line are reported with their place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.settings.settings_case import error_in, resolve_in, with_part


@dataclass(frozen=True, kw_only=True)
class Bold:
    tolerance: float = 2.0


IN_FILES = [
    ("[domains.parity]\npopulaton = 3", "[domains.parity] populaton: unknown key, did you mean 'population'?"),
    ("[run]\nsede = 3", "[run] sede: unknown key, did you mean 'seed'?"),
    ("[engine]\nmemroy = 3", "[engine] memroy: unknown key, did you mean 'memory'?"),
    ("[engine]\nmemory = 0", "[engine] memory=0: expected a number > 0"),
    ("[rum]\nseed = 3", "[rum]: unknown table, did you mean 'run'?"),
    ("[plugins]\n", "[plugins]: unknown table"),
    ("population = 3", "[population]: unknown table"),
    ("run = 3", "run: expected a table, [run]"),
    ("domains = [1]", "domains: expected a table, [domains]"),
    ("[domains]\nparity = 3", "[domains] parity: expected a table, [domains.parity]"),
    ("[mutations]\nsm-r = 3", "[mutations] sm-r: expected a table, [mutations.sm-r]"),
    ("[run]\nruns = 0", "[run] runs=0: expected an integer >= 1"),
    ("[run]\nruns = true", "[run] runs=true: expected an integer >= 1"),
    ("[run]\nruns = 1.5", "[run] runs=1.5: expected an integer >= 1"),
    ('[run]\nruns = "2"', '[run] runs="2": expected an integer >= 1, without quotes'),
    ("[run]\nseed = -1", "[run] seed=-1: expected an integer >= 0"),
    ("[run]\nseed = 9223372036854775808", "[run] seed=9223372036854775808: expected an integer >= 0"),
    ("[run]\nevaluations = 0", "[run] evaluations=0: expected an integer >= 1"),
    ("[run]\npopulation = 0", "[run] population=0: expected an integer >= 1"),
    ("[run]\npopulation = [1]", "[run] population=[1]: expected an integer >= 1"),
    ("[run]\nlog_every = 0", "[run] log_every=0: expected an integer >= 1"),
    ("[run]\ninit_scale = 0", "[run] init_scale=0: expected a number > 0 or none"),
    ("[run]\ninit_scale = inf", "[run] init_scale=Infinity: expected a finite number > 0 or none"),
    ('[run]\ninit = "zeros"', "[run] init=zeros: expected xavier-normal or"),
    ("[run]\nselection = 3", "[run] selection=3: expected"),
    ('[run]\nselection = "turnament"', "[run] selection: no selection named 'turnament', did you mean 'tournament'?"),
    ('[run]\nobservers = "tensorboard"', '[run] observers="tensorboard": expected a list of str, without quotes'),
    ("[run]\nobservers = [1]", "[run] observers=[1]: expected a list of str"),
    (
        '[run]\nobservers = ["tensorbord"]',
        "[run] observers: no observer named 'tensorbord', did you mean 'tensorboard'?",
    ),
    ("[observers.tensorbord]\n", "[observers.tensorbord]: no observer named 'tensorbord', did you mean 'tensorboard'?"),
    ("[observers.tensorboard]\nhistograms = 1", "[observers.tensorboard] histograms=1: expected yes or no"),
    ("[observers.tensorboard]\nhistogram = true", "[observers.tensorboard] histogram: no such option, did you mean"),
    ("[run]\nintensity = -0.5", "[run] intensity=-0.5: expected a number >= 0"),
    ("[run]\nintensity = nan", "[run] intensity=NaN: expected a finite number >= 0"),
    ("[run]\nintensity = inf", "[run] intensity=Infinity: expected a finite number >= 0"),
    ('[run]\nintensity = "1"', '[run] intensity="1": expected a number >= 0 or none, without quotes'),
    ("[run.intensity]\nsm-r = -1", "[run.intensity] sm-r=-1: expected a number >= 0"),
    ("[run.intensity]\nsm-gabs = 1", "[run.intensity]: no mutation named 'sm-gabs', did you mean 'sm-g-abs'?"),
    ("[domains.parity.intensity]\ncontrol = false", "[domains.parity.intensity] control=false: expected a"),
    ("[domains.pairty]\nseed = 1", "[domains.pairty]: no domain named 'pairty', did you mean 'parity'?"),
    ("[mutations.sm-gabs]\n", "[mutations.sm-gabs]: no mutation named 'sm-gabs', did you mean 'sm-g-abs'?"),
    ("[selections.turnament]\n", "[selections.turnament]: no selection named 'turnament', did you mean 'tournament'?"),
    ("[mutations.sm-r]\nmax_step = 1", "[mutations.sm-r] max_step: no such option, did you mean 'max_steps'?"),
    ("[mutations.control]\nfloor = 1", "[mutations.control] floor: no such option; it has no options"),
    ("[selections.tournament]\nsize = 0", "[selections.tournament] size=0: expected an integer >= 1"),
    ("[domains.parity]\noptions = { bist = 1 }", "[domains.parity.options] bist: no such option, did you mean 'bits'?"),
    ("[domains.parity]\noptions = 4", "[domains.parity] options: expected a table of options"),
    ("[domains.parity]\nmutation = 'sm-r'", "[domains.parity] mutation: expected a table of options"),
    (
        "[domains.parity.mutation]\nflor = 1",
        "[domains.parity.mutation] flor: no mutation has this option, did you mean",
    ),
    ("[domains.parity.mutation]\nfloor = 0", "[domains.parity.mutation] floor=0: expected a number > 0"),
    ("[domains.parity.selection_options]\nbits = 1", "[domains.parity.selection_options] bits: no selection has this"),
    # parts of the file that the run does not use
    ("[domains.simple-easy]\nrun = 1", "[domains.simple-easy] run: unknown key, did you mean 'runs'?"),
    ("[domains.simple-easy]\nruns = -1", "[domains.simple-easy] runs=-1: expected an integer >= 1"),
    ("[domains.elsewhere]\nruns = -1", "[domains.elsewhere] runs=-1: expected an integer >= 1"),
    ('[domains."a.b"]\nruns = -1', '[domains."a.b"] runs=-1: expected an integer >= 1'),
    ("[mutations.sm-g-abs]\nfloor = 0", "[mutations.sm-g-abs] floor=0: expected a number > 0"),
]


@pytest.mark.parametrize(("toml", "message"), IN_FILES)
def test_a_mistake_in_a_file_is_reported_with_its_place(tmp_path: Path, toml: str, message: str) -> None:
    assert error_in(tmp_path, toml).startswith(f"{tmp_path / 'tfsm.toml'}: {message}")


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    message = error_in(tmp_path, "[run]\nruns = 0\nsede = 1\n[domains.parity]\nseed = -1\nintensity = -1")

    assert [line.split(": ", 1)[1].split(":")[0] for line in message.splitlines()] == [
        "[run] sede",
        "[run] runs=0",
        "[domains.parity] seed=-1",
        "[domains.parity] intensity=-1",
    ]


def test_a_value_must_be_valid_for_the_chosen_operator(tmp_path: Path) -> None:
    plugins = with_part("mutation", "bold", Bold)
    toml = "[run]\nintensity = 1\n[domains.parity.mutation]\ntolerance = 1.5"

    assert resolve_in(tmp_path, toml, plugins=plugins, mutation="bold").settings.mutation_options == {"tolerance": 1.5}
    assert resolve_in(tmp_path, toml, plugins=plugins, mutation="control").settings.mutation_options == {}
    message = error_in(tmp_path, toml, plugins=plugins, mutation="sm-r")
    assert message == (
        f"{tmp_path / 'tfsm.toml'}: [domains.parity.mutation] tolerance=1.5: expected a number > 0 and < 1"
    )


def test_tables_of_missing_parts_are_ignored(tmp_path: Path) -> None:
    toml = "[domains.maze]\noptions = { walls = 3 }\n[mutations.other]\nx = 1\n[run.intensity]\nother = 1"

    assert resolve_in(tmp_path, toml).settings.domain == "parity"


def test_a_value_that_no_operator_would_take_is_reported_even_for_one_without_the_option(tmp_path: Path) -> None:
    message = error_in(tmp_path, "[domains.parity.mutation]\ntolerance = 1.5", mutation="control")

    assert "[domains.parity.mutation] tolerance=1.5: expected a number > 0 and < 1" in message


ON_THE_COMMAND_LINE: list[tuple[dict[str, Any], str]] = [
    ({"runs": 0}, "--runs: runs=0: expected an integer >= 1"),
    ({"intensity": -1.0}, "--intensity: intensity=-1.0: expected a number >= 0"),
    ({"intensity": float("nan")}, "--intensity: intensity=NaN: expected a finite number >= 0"),
    ({"intensity": float("inf")}, "--intensity: intensity=Infinity: expected a finite number >= 0"),
    ({"seed": 2**63}, "--seed: seed=9223372036854775808: expected an integer >= 0"),
    ({"init_scale": 0.0}, "--init-scale: init_scale=0.0: expected a number > 0"),
    ({"selection": "climber"}, "--selection: selection=climber: no selection named 'climber', did you mean"),
    ({"observers": ["tensorbord"]}, "--observer: observers=tensorbord: no observer named 'tensorbord', did you mean"),
    ({"observers": ["tensorboard", "tensorboard"]}, "--observer: observers=tensorboard: given twice"),
    ({"populaton": 3}, "populaton: no such setting, did you mean 'population'?"),
    ({"mutation_options": {"bits": 3}}, "mutation_options: bits: no such option"),
    ({"engine": 3}, "engine: expected a mapping of options, got 3"),
]


@pytest.mark.parametrize(("overrides", "message"), ON_THE_COMMAND_LINE)
def test_a_mistake_on_the_command_line_is_reported_with_its_flag(
    tmp_path: Path, overrides: dict[str, Any], message: str
) -> None:
    assert error_in(tmp_path, overrides=overrides).startswith(message)


def test_zero_intensity_is_allowed(tmp_path: Path) -> None:
    assert resolve_in(tmp_path, overrides={"intensity": 0}).settings.intensity == 0.0


def test_unknown_parts_are_reported_with_a_suggestion(tmp_path: Path) -> None:
    assert error_in(tmp_path, domain="party") == "no domain named 'party', did you mean 'parity'?"
    assert error_in(tmp_path, mutation="sm-gabs") == "no mutation named 'sm-gabs', did you mean 'sm-g-abs'?"


def test_a_tournament_must_fit_into_the_population(tmp_path: Path) -> None:
    message = error_in(tmp_path, overrides={"population": 3})
    assert message.startswith("tournament size 5 is larger than the population of 3")
    assert "(size: selection's default; population: command line)" in message
    assert resolve_in(tmp_path, overrides={"population": 5}).settings.population == 5

    on_a_hill_climbers_domain = error_in(tmp_path, domain="simple-easy", overrides={"selection": "tournament"})
    assert "population: built-in tfsm.toml [domains.simple-easy]" in on_a_hill_climbers_domain


def test_the_initial_population_needs_its_evaluations(tmp_path: Path) -> None:
    message = error_in(tmp_path, overrides={"evaluations": 100})
    assert message.startswith(
        "evaluations (100) is smaller than the population (250): the initial population counts as evaluations"
    )
    assert resolve_in(tmp_path, overrides={"evaluations": 250}).settings.evaluations == 250
    assert resolve_in(tmp_path, overrides={"evaluations": 1, "selection": "hill-climber"}).settings.population == 1


@pytest.mark.parametrize(
    ("toml", "arguments", "source"),
    [
        (None, {"overrides": {"selection": "hill-climber", "population": 2}}, "command line"),
        (None, {"overrides": {"selection": "hill-climber"}, "sets": ["population=2"]}, "--set population=2"),
        ("[run]\npopulation = 2", {"domain": "simple-easy"}, "{file} [run]"),
    ],
)
def test_a_hill_climber_with_a_population_is_reported(
    tmp_path: Path, toml: str | None, arguments: dict[str, Any], source: str
) -> None:
    message = error_in(tmp_path, toml, **arguments)

    assert message.startswith(f"population=2 ({source.format(file=tmp_path / 'tfsm.toml')}): selection 'hill-climber'")
    assert "needs a population of 1" in message


def test_a_hill_climber_accepts_a_population_of_one(tmp_path: Path) -> None:
    resolved = resolve_in(tmp_path, overrides={"selection": "hill-climber"}, sets=["population=1"])

    assert (resolved.settings.population, resolved.sources["population"]) == (1, "--set population=1")
