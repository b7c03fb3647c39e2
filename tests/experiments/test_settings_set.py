from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.experiments.settings_case import error_in, settle, with_part
from tfsm.plugins.registry import Parts


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("bits=5", "domain_options.bits", 5),
        ("domain.bits=5", "domain_options.bits", 5),
        (" bits = 5 ", "domain_options.bits", 5),
        ("experiences=5", "mutation_options.experiences", 5),
        ("mutation.replacement=true", "mutation_options.replacement", True),
        ("size=2", "selection_options.size", 2),
        ("selection.removal=same", "selection_options.removal", "same"),
        ("init=uniform", "init", "uniform"),
        ("init_scale=0.5", "init_scale", 0.5),
        ("run.log_every=7", "log_every", 7),
        ("intensity=0.125", "intensity", 0.125),
        ("seed=8", "seed", 8),
        ("memory=2", "engine.memory", 2.0),
        ("engine.width=none", "engine.width", None),
    ],
)
def test_a_key_finds_its_part(tmp_path: Path, text: str, path: str, value: object) -> None:
    resolved = settle(tmp_path, sets=[text])
    found: object = resolved.settings.as_dict()
    for name in path.split("."):
        assert isinstance(found, dict)
        found = found[name]

    assert (found, type(found)) == (value, type(value))
    assert resolved.sources[path] == f"--set {text}"


def test_an_ambiguous_key_needs_its_part(tmp_path: Path) -> None:
    message = error_in(tmp_path, domain="simple-easy", sets=["tolerance=0.5"])
    assert "--set tolerance=0.5: 'tolerance' is ambiguous" in message
    assert "--set domain.tolerance=0.5 or --set mutation.tolerance=0.5" in message

    settings = settle(tmp_path, domain="simple-easy", sets=["domain.tolerance=0.5", "mutation.tolerance=0.25"]).settings
    assert settings.domain_options["tolerance"] == 0.5
    assert settings.mutation_options["tolerance"] == 0.25


def test_an_unknown_key_is_told_with_the_known_ones(tmp_path: Path) -> None:
    assert error_in(tmp_path, sets=["bist=5"]).splitlines() == [
        "--set bist=5: unknown key 'bist', did you mean 'bits'?",
        "known keys:",
        "  domain: bits, outputs, units, layers",
        "  mutation: experiences, replacement, tolerance, max_steps, mean_over_outputs",
        "  selection: size, removal",
        "  run: selection, intensity, runs, seed, evaluations, population, init, init_scale, model, trust_model, "
        "mutated_layers, stop, adapt, adapt_rate, target_divergence, log_every, checkpoint_every, evaluation_timeout, "
        "failures, observers",
        "  engine: compile, memory, width, reuse",
    ]


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("zzzz=5", "unknown key 'zzzz'\nknown keys:"),
        ("mutation.bits=5", "unknown key 'mutation.bits'\nknown keys:"),
        ("mutation.experience=5", "unknown key 'mutation.experience', did you mean 'mutation.experiences'?"),
        ("doamin.bits=5", "unknown key 'doamin.bits'"),
        ("domain=simple-easy", "unknown key 'domain'"),
        ("domain.=5", "unknown key 'domain.'"),
    ],
)
def test_other_unknown_keys(tmp_path: Path, text: str, beginning: str) -> None:
    assert error_in(tmp_path, sets=[text]).startswith(f"--set {text}: {beginning}")


@pytest.mark.parametrize("text", ["bits", "=5", "", " =5"])
def test_a_malformed_assignment_is_told(tmp_path: Path, text: str) -> None:
    assert error_in(tmp_path, sets=[text]).startswith(f"--set {text}: expected key=value")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bits=many", "--set bits=many: expected a whole number >= 1 and <= 12"),
        ("bits=13", "--set bits=13: expected a whole number >= 1 and <= 12"),
        ("bits=", "--set bits=: expected a whole number"),
        ("intensity=nan", "--set intensity=nan: expected a number >= 0"),
        ("init=xavier", "--set init=xavier: expected xavier-normal or"),
        ("memory=0", "--set memory=0: expected a number > 0"),
        ("width=0", "--set width=0: expected a whole number >= 1 or none"),
        ("compile=jit", "--set compile=jit: expected auto or xla or graph"),
        (
            "selection=turnament",
            "--set selection=turnament: no selection named 'turnament', did you mean 'tournament'?",
        ),
    ],
)
def test_a_wrong_value_is_told(tmp_path: Path, text: str, expected: str) -> None:
    assert error_in(tmp_path, sets=[text]).startswith(expected)


def test_a_selection_can_be_set_together_with_its_options(tmp_path: Path) -> None:
    sets = ["selection.size=2", "run.selection=tournament", "population=4"]
    settings = settle(tmp_path, domain="simple-easy", sets=sets).settings

    assert (settings.selection, settings.selection_options["size"], settings.population) == ("tournament", 2, 4)
    assert "unknown key 'size'" in error_in(tmp_path, sets=["size=2", "selection=hill-climber"])


def test_an_option_called_selection_makes_the_bare_key_ambiguous(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Options:
        selection: str = "x"

    plugins = with_part("domain", "fresh", Options)
    message = error_in(tmp_path, plugins=plugins, domain="fresh", sets=["selection=y"])
    assert "--set domain.selection=y or --set run.selection=y" in message
    settings = settle(tmp_path, plugins=plugins, domain="fresh", sets=["domain.selection=y"]).settings
    assert (settings.domain_options, settings.selection) == ({"selection": "y"}, "tournament")


def test_a_setting_given_twice_is_told(tmp_path: Path) -> None:
    twice = error_in(tmp_path, sets=["bits=5", "domain.bits=6"])
    assert twice == "--set domain.bits=6: bits was already given by --set bits=5"
    both = error_in(tmp_path, overrides={"population": 5}, sets=["population=6"])
    assert both == "--set population=6: population was already given by --population"


@dataclass(frozen=True, kw_only=True)
class Watching:
    often: bool = False
    reach: int = 3


def test_an_observers_options_begin_with_its_name(tmp_path: Path) -> None:
    plugins = with_part("observer", "a.watcher", Watching)
    sets = ["observers=a.watcher", "a.watcher.often=yes", "a.watcher.reach=5"]
    resolved = settle(tmp_path, plugins=plugins, sets=sets)

    assert resolved.settings.observers == ("a.watcher",)
    assert resolved.settings.observer_options == {"a.watcher": {"often": True, "reach": 5}}
    assert resolved.sources["observer_options.a.watcher.often"] == "--set a.watcher.often=yes"
    assert resolved.sources["observers"] == "--set observers=a.watcher"


def test_no_observer_is_an_empty_list(tmp_path: Path) -> None:
    plugins = with_part("observer", "watcher", Watching)
    settings = settle(tmp_path, '[run]\nobservers = ["watcher"]', plugins=plugins, sets=["observers=[]"]).settings

    assert (settings.observers, settings.observer_options) == ((), {})


@pytest.mark.parametrize(
    ("sets", "beginning"),
    [
        (["often=yes"], "--set often=yes: unknown key 'often'\nknown keys:"),
        (["watcher.oftn=yes"], "--set watcher.oftn=yes: unknown key 'watcher.oftn', did you mean 'watcher.often'?"),
        (["wacher.often=yes"], "--set wacher.often=yes: unknown key 'wacher.often', did you mean 'watcher.often'?"),
        (["watcher.reach=far"], "--set reach=far: expected a whole number"),
        (
            ["watcher.reach=1", "watcher.reach=2"],
            "--set watcher.reach=2: reach was already given by --set watcher.reach=1",
        ),
        (["other.often=yes"], "--set other.often=yes: 'other' is an observer that is not used, give --observer other"),
    ],
)
def test_what_is_wrong_about_an_observers_option_is_told(tmp_path: Path, sets: list[str], beginning: str) -> None:
    plugins = with_part("observer", "watcher", Watching)
    other = replace(plugins.observers["watcher"], name="other")
    plugins = replace(plugins, observers=Parts("observer", [*plugins.observers.values(), other]))
    message = error_in(tmp_path, plugins=plugins, overrides={"observers": ["watcher"]}, sets=sets)

    assert message.startswith(beginning)
    if "known keys" in message:
        assert message.splitlines()[-1] == "  watcher: often, reach"


def test_an_observer_called_like_a_table_keeps_out_of_its_way(tmp_path: Path) -> None:
    plugins = with_part("observer", "domain", Watching)
    settings = settle(tmp_path, plugins=plugins, overrides={"observers": ["domain"]}, sets=["domain.bits=5"]).settings

    assert settings.domain_options["bits"] == 5
    assert settings.observer_options == {"domain": {"often": False, "reach": 3}}
