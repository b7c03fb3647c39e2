"""Settings are merged in order of precedence, with the source of each value."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.settings.settings_case import built_ins, error_in, resolve_in, with_part
from tfsm.analysis.reproduce import FIGURES
from tfsm.errors import TfsmError
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import Parts
from tfsm.runs.resume import describe_changes
from tfsm.settings import EngineOptions, ResolvedSettings, Settings, choose_threads, resolve, resolve_general


@dataclass(frozen=True, kw_only=True)
class StrengthOption:
    strength: int = 3
    shape: tuple[int, ...] = (2, 3)


@dataclass(frozen=True, kw_only=True)
class RequiredOption:
    needed: int


def test_without_a_users_file_a_run_has_the_papers_settings(tmp_path: Path) -> None:
    settings = resolve_in(tmp_path).settings

    assert settings == Settings(
        domain="parity",
        mutation="sm-r",
        selection="tournament",
        intensity=0.005,
        runs=1,
        seed=0,
        evaluations=100_000,
        population=250,
        init="xavier-normal",
        init_scale=None,
        log_every=1_000,
        domain_options={"bits": 4, "outputs": 2, "units": 20, "layers": 2},
        mutation_options={
            "experiences": 16,
            "replacement": False,
            "tolerance": 0.01,
            "max_steps": 60,
            "mean_over_outputs": False,
        },
        selection_options={"size": 5, "removal": "fresh"},
        engine={"compile": "auto", "memory": 4.0, "width": None, "reuse": True, "threads": None},
    )


def test_every_value_has_a_source(tmp_path: Path) -> None:
    resolved = resolve_in(tmp_path)
    flat = {
        f"{key}.{inner}" if isinstance(value, dict) else key
        for key, value in resolved.settings.as_dict().items()
        for inner in (value if isinstance(value, dict) else [""])
    }

    assert set(resolved.sources) == flat
    assert resolved.sources["domain"] == "command line"
    assert resolved.sources["runs"] == "built-in tfsm.toml [run]"
    assert resolved.sources["population"] == "built-in tfsm.toml [domains.parity]"
    assert resolved.sources["intensity"] == "built-in tfsm.toml [domains.parity]"
    assert resolved.sources["init_scale"] == "built-in default"
    assert resolved.sources["mutation_options.experiences"] == "built-in tfsm.toml [domains.parity]"
    assert resolved.sources["mutation_options.tolerance"] == "operator's default"
    assert resolved.sources["domain_options.bits"] == "domain's default"
    assert resolved.sources["selection_options.size"] == "selection's default"
    assert resolved.sources["engine.memory"] == "built-in default"


LEVELS = [
    ("", {}, 250, "built-in tfsm.toml [domains.parity]"),
    ("[run]\npopulation = 20", {}, 20, "{file} [run]"),
    ("[run]\npopulation = 20\n[domains.parity]\npopulation = 30", {}, 30, "{file} [domains.parity]"),
    ("[domains.parity]\npopulation = 30", {"overrides": {"population": 40}}, 40, "command line"),
    ("[domains.parity]\npopulation = 30", {"sets": ["population=50"]}, 50, "--set population=50"),
    ("[domains.simple-easy]\npopulation = 30", {}, 250, "built-in tfsm.toml [domains.parity]"),
]


@pytest.mark.parametrize(("toml", "arguments", "population", "source"), LEVELS)
def test_more_specific_values_and_then_user_values_win(
    tmp_path: Path, toml: str, arguments: dict[str, object], population: int, source: str
) -> None:
    resolved = resolve_in(tmp_path, toml, **arguments)

    assert resolved.settings.population == population
    assert resolved.sources["population"] == source.format(file=tmp_path / "tfsm.toml")


OPTION_LEVELS = [
    ("", {}, 16, "built-in tfsm.toml [domains.parity]"),
    ("[mutations.sm-r]\nexperiences = 7", {}, 7, "{file} [mutations.sm-r]"),
    (
        "[mutations.sm-r]\nexperiences = 7\n[domains.parity.mutation]\nexperiences = 8",
        {},
        8,
        "{file} [domains.parity]",
    ),
    ("[mutations.sm-r]\nexperiences = 7", {"sets": ["experiences=9"]}, 9, "--set experiences=9"),
    ("", {"overrides": {"mutation_options": {"experiences": 10}}}, 10, "command line"),
]


@pytest.mark.parametrize(("toml", "arguments", "experiences", "source"), OPTION_LEVELS)
def test_an_operators_option_follows_the_same_order(
    tmp_path: Path, toml: str, arguments: dict[str, object], experiences: int, source: str
) -> None:
    resolved = resolve_in(tmp_path, toml, **arguments)

    assert resolved.settings.mutation_options["experiences"] == experiences
    assert resolved.sources["mutation_options.experiences"] == source.format(file=tmp_path / "tfsm.toml")


INTENSITIES = [
    ("", "control", 0.05, "built-in tfsm.toml [domains.parity]"),
    ("[run]\nintensity = 2", "control", 2.0, "{file} [run]"),
    ("[run.intensity]\nsm-r = 0.7", "sm-r", 0.7, "{file} [run.intensity]"),
    ("[run.intensity]\nsm-r = 0.7", "control", 0.05, "built-in tfsm.toml [domains.parity]"),
    ("[run]\nintensity = 2\n[domains.parity]\nintensity = 0.3", "sm-r", 0.3, "{file} [domains.parity]"),
    ("[run]\nintensity = 2\n[domains.parity.intensity]\nsm-r = 0.0", "sm-r", 0.0, "{file} [domains.parity]"),
    ("[run]\nintensity = 2\n[domains.parity.intensity]\nsm-r = 0.0", "control", 2.0, "{file} [run]"),
]


@pytest.mark.parametrize(("toml", "mutation", "intensity", "source"), INTENSITIES)
def test_intensity_is_a_number_or_one_for_each_operator(
    tmp_path: Path, toml: str, mutation: str, intensity: float, source: str
) -> None:
    resolved = resolve_in(tmp_path, toml, mutation=mutation)

    assert resolved.settings.intensity == intensity
    assert isinstance(resolved.settings.intensity, float)
    assert resolved.sources["intensity"] == source.format(file=tmp_path / "tfsm.toml")


def test_a_domain_without_a_table_falls_back_to_the_run_intensity(tmp_path: Path) -> None:
    resolved = resolve_in(tmp_path, plugins=with_part("domain", "fresh"), domain="fresh")

    assert (resolved.settings.intensity, resolved.sources["intensity"]) == (0.005, "built-in tfsm.toml [run.intensity]")


def test_an_operator_without_an_intensity_needs_the_flag(tmp_path: Path) -> None:
    plugins = with_part("mutation", "novel")

    with pytest.raises(TfsmError, match=r"'novel' has no default intensity for domain 'parity': give --intensity"):
        resolve_in(tmp_path, plugins=plugins, mutation="novel")
    assert (
        resolve_in(tmp_path, plugins=plugins, mutation="novel", overrides={"intensity": 0.25}).settings.intensity
        == 0.25
    )


DEFAULTS = {"population": 7, "evaluations": 70, "intensity": {"sm-r": 0.25}, "mutation": {"experiences": 5}}


def test_a_domain_has_the_defaults_of_its_plugin(tmp_path: Path) -> None:
    plugins = with_part("domain", "novel", defaults=DEFAULTS)
    resolved = resolve_in(tmp_path, plugins=plugins, domain="novel")
    settings = resolved.settings
    assert (settings.population, settings.evaluations, settings.intensity) == (7, 70, 0.25)
    assert settings.mutation_options["experiences"] == 5
    assert settings.selection == "tournament"
    for key in ("population", "evaluations", "intensity", "mutation_options.experiences"):
        assert resolved.sources[key] == "plugin third"
    assert resolved.sources["selection"] == "built-in tfsm.toml [run]"
    control = resolve_in(tmp_path, plugins=plugins, domain="novel", mutation="control")
    assert control.sources["intensity"] == "built-in tfsm.toml [run.intensity]"


def test_an_operator_has_the_intensity_of_its_plugin(tmp_path: Path) -> None:
    plugins = with_part("mutation", "novel", intensity=0.125)
    resolved = resolve_in(tmp_path, plugins=plugins, mutation="novel")
    assert (resolved.settings.intensity, resolved.sources["intensity"]) == (0.125, "plugin third")
    general = resolve_general(plugins, cwd=tmp_path)
    assert (general.run["intensity"]["novel"], general.sources["intensity.novel"]) == (0.125, "plugin third")


def test_a_domains_table_wins_over_an_operators_intensity_and_the_user_over_both(tmp_path: Path) -> None:
    plugins = with_part("mutation", "novel", intensity=0.125)
    entry = with_part("domain", "strange", defaults={"intensity": {"novel": 0.5}, "population": 7}).domains["strange"]
    plugins = replace(plugins, domains=Parts("domain", [*plugins.domains.values(), entry]))
    arguments = {"plugins": plugins, "domain": "strange", "mutation": "novel"}
    assert resolve_in(tmp_path, **arguments).settings.intensity == 0.5
    mine = resolve_in(tmp_path, "[run]\npopulation = 9\n[run.intensity]\nnovel = 0.75", **arguments)
    assert (mine.settings.intensity, mine.settings.population) == (0.75, 9)
    assert mine.sources["population"] == f"{tmp_path / 'tfsm.toml'} [run]"
    flags = resolve_in(tmp_path, **arguments, overrides={"intensity": 1.5, "population": 11})
    assert (flags.settings.intensity, flags.settings.population) == (1.5, 11)


def test_a_plugins_default_does_not_count_as_a_user_setting(tmp_path: Path) -> None:
    plugins = with_part("domain", "novel", defaults=DEFAULTS)
    assert (
        resolve_in(tmp_path, plugins=plugins, domain="novel", sets=["selection=hill-climber"]).settings.population == 1
    )


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ({"populaton": 5}, "[domains.novel] populaton: unknown key, did you mean 'population'?"),
        ({"population": 0}, "[domains.novel] population=0: expected an integer >= 1"),
        ({"population": "5"}, '[domains.novel] population="5": expected an integer >= 1, without quotes'),
        ({"selection": "turnament"}, "[domains.novel] selection: no selection named 'turnament', did you mean"),
        ({"intensity": {"sm-r": -1}}, "[domains.novel.intensity] sm-r=-1: expected a number >= 0"),
        ({"intensity": {"sm-rr": 1}}, "[domains.novel.intensity]: no mutation named 'sm-rr', did you mean 'sm-r'?"),
        ({"mutation": {"experience": 3}}, "[domains.novel.mutation] experience: no mutation has this option, did you"),
    ],
)
def test_a_mistake_in_a_plugins_defaults_names_the_plugin(
    tmp_path: Path, defaults: dict[str, object], message: str
) -> None:
    plugins = with_part("domain", "novel", defaults=defaults)
    assert error_in(tmp_path, plugins=plugins, domain="novel").startswith(f"plugin 'third' (party): {message}")
    assert resolve_in(tmp_path, plugins=plugins).settings.domain == "parity"  # Other domains are not affected.


@pytest.mark.parametrize("intensity", [-1, "0.1", True, float("nan"), [0.1]])
def test_the_intensity_of_an_operator_is_validated(tmp_path: Path, intensity: Any) -> None:
    plugins = with_part("mutation", "novel", intensity=intensity)
    message = error_in(tmp_path, plugins=plugins, mutation="novel")
    assert message.startswith("plugin 'third' (party): [run.intensity] novel=")
    assert "number >= 0" in message


def test_a_domains_operator_options_skip_operators_that_lack_them(tmp_path: Path) -> None:
    toml = "[domains.parity]\nmutation = { max_change = 3.5 }"

    assert resolve_in(tmp_path, toml, mutation="sm-g-abs").settings.mutation_options["max_change"] == 3.5
    assert resolve_in(tmp_path, toml, mutation="control").settings.mutation_options == {}
    assert "max_change" not in resolve_in(tmp_path, toml, mutation="sm-r").settings.mutation_options


def test_options_of_domain_and_selection_come_from_their_tables(tmp_path: Path) -> None:
    toml = (
        "[domains.parity]\noptions = { bits = 6 }\nselection_options = { size = 7 }\n[selections.tournament]\nsize = 2"
    )
    resolved = resolve_in(tmp_path, toml)

    assert resolved.settings.domain_options["bits"] == 6
    assert resolved.settings.selection_options == {"size": 7, "removal": "fresh"}
    assert resolved.sources["domain_options.bits"] == f"{tmp_path / 'tfsm.toml'} [domains.parity]"
    assert resolve_in(tmp_path, "[selections.tournament]\nsize = 2").settings.selection_options["size"] == 2


def test_engine_settings_come_from_their_table_and_the_command_line(tmp_path: Path) -> None:
    resolved = resolve_in(tmp_path, '[engine]\ncompile = "graph"\nmemory = 1', sets=["engine.width=3"])

    assert resolved.settings.engine == {"compile": "graph", "memory": 1.0, "width": 3, "reuse": True, "threads": None}
    assert resolved.sources["engine.compile"] == f"{tmp_path / 'tfsm.toml'} [engine]"
    assert resolved.sources["engine.width"] == "--set engine.width=3"
    assert resolve_in(tmp_path, sets=["memory=2"]).settings.engine["memory"] == 2.0  # the file still says 1
    assert EngineOptions(**resolved.settings.engine).width == 3


def test_the_command_line_wins_for_every_run_setting(tmp_path: Path) -> None:
    overrides = {
        "selection": "hill-climber",
        "intensity": 0.5,
        "runs": 3,
        "seed": 2**63 - 1,
        "evaluations": 10,
        "population": 1,
        "init": "normal",
        "init_scale": 0.5,
        "log_every": 2,
    }
    resolved = resolve_in(tmp_path, "[run]\nruns = 9\nseed = 9\nlog_every = 9", overrides=overrides)

    assert {key: resolved.settings.as_dict()[key] for key in overrides} == overrides
    assert {resolved.sources[key] for key in overrides} == {"command line"}


def test_a_flag_that_was_not_given_changes_nothing(tmp_path: Path) -> None:
    assert resolve_in(tmp_path, overrides={"population": None, "seed": None}) == resolve_in(tmp_path)


def test_none_removes_a_value_of_a_file(tmp_path: Path) -> None:
    toml = '[run]\ninit = "normal"\ninit_scale = 0.1\n[domains.parity]\ninit_scale = "none"'

    assert resolve_in(tmp_path, toml, sets=["init=normal"]).settings.init_scale is None
    assert resolve_in(tmp_path, toml, sets=["init_scale=0.25"]).settings.init_scale == 0.25


def test_the_hill_climber_gets_a_population_of_one(tmp_path: Path) -> None:
    resolved = resolve_in(tmp_path, overrides={"selection": "hill-climber"})

    assert (resolved.settings.population, resolved.settings.selection_options) == (1, {})
    assert resolved.sources["population"] == "hill-climber keeps one champion"


def test_a_population_that_already_fits_keeps_its_source(tmp_path: Path) -> None:
    resolved = resolve_in(tmp_path, domain="simple-easy")

    assert (resolved.settings.selection, resolved.settings.population) == ("hill-climber", 1)
    assert resolved.sources["population"] == "built-in tfsm.toml [domains.simple-easy]"


def test_a_third_partys_option_called_population_fixes_nothing(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Islands:
        population: int = 3

    plugins = with_part("selection", "islands", Islands)
    assert resolve_in(tmp_path, plugins=plugins, overrides={"selection": "islands"}).settings.population == 250


def test_options_are_complete_and_plain_json(tmp_path: Path) -> None:
    plugins = with_part("domain", "fresh", StrengthOption)
    settings = resolve_in(tmp_path, plugins=plugins, domain="fresh", sets=["shape=4,5,6"]).settings

    assert settings.domain_options == {"strength": 3, "shape": (4, 5, 6)}
    plain = json.loads(json.dumps(settings.as_dict(), allow_nan=False))
    assert plain["domain_options"] == {"strength": 3, "shape": [4, 5, 6]}
    assert plain == settings.as_dict()


def test_an_option_without_a_default_must_be_given(tmp_path: Path) -> None:
    plugins = with_part("domain", "needy", RequiredOption)

    with pytest.raises(TfsmError, match=r"domain 'needy' .* --set domain\.needed=VALUE"):
        resolve_in(tmp_path, plugins=plugins, domain="needy")
    assert resolve_in(tmp_path, plugins=plugins, domain="needy", sets=["needed=1"]).settings.domain_options == {
        "needed": 1
    }


def test_what_holds_for_all_domains(tmp_path: Path) -> None:
    (tmp_path / "tfsm.toml").write_text("[run]\nseed = 5\n[run.intensity]\nsm-r = 0.25\n[engine]\nwidth = 2")
    general = resolve_general(built_ins(), cwd=tmp_path)

    assert (general.run["seed"], general.run["population"], general.engine["width"]) == (5, 250, 2)
    assert general.run["intensity"] == {
        "control": 0.05,
        "sm-r": 0.25,
        "sm-g-sum": 0.01,
        "sm-g-abs": 0.01,
        "sm-g-so": 0.01,
        "sm-g-rms": 0.01,
        "safe-crossover": 0.05,
    }
    assert general.sources["seed"] == f"{tmp_path / 'tfsm.toml'} [run]"
    assert general.sources["intensity.sm-r"] == f"{tmp_path / 'tfsm.toml'} [run.intensity]"
    assert general.sources["intensity.control"] == "built-in tfsm.toml [run.intensity]"


def test_undeclared_options_are_read_from_the_part(tmp_path: Path) -> None:
    plugins = with_part("mutation", "novel")

    found = resolve_in(tmp_path, plugins=plugins, mutation="novel", overrides={"intensity": 1.0}, sets=["reach=5"])

    assert found.settings.mutation_options == {"reach": 5}
    assert "expected" in error_in(
        tmp_path, plugins=plugins, mutation="novel", overrides={"intensity": 1.0}, sets=["reach=far"]
    )


OBSERVER_LEVELS = [
    ("", {}, (), "built-in default"),
    ('[run]\nobservers = ["watcher"]', {}, ("watcher",), "{file} [run]"),
    ('[run]\nobservers = ["watcher"]\n[domains.parity]\nobservers = []', {}, (), "{file} [domains.parity]"),
    ('[run]\nobservers = ["other", "watcher"]', {"overrides": {"observers": ["other"]}}, ("other",), "command line"),
]


@pytest.mark.parametrize(("toml", "arguments", "names", "source"), OBSERVER_LEVELS)
def test_observers_are_named_like_any_other_setting(
    tmp_path: Path, toml: str, arguments: dict[str, object], names: tuple[str, ...], source: str
) -> None:
    plugins = with_part("observer", "watcher", StrengthOption)
    other = replace(plugins.observers["watcher"], name="other")
    plugins = replace(plugins, observers=Parts("observer", [*plugins.observers.values(), other]))
    resolved = resolve_in(tmp_path, toml, plugins=plugins, **arguments)

    assert resolved.settings.observers == names
    assert resolved.settings.observer_options == {name: {"strength": 3, "shape": (2, 3)} for name in names}
    assert resolved.sources["observers"] == source.format(file=tmp_path / "tfsm.toml")


def test_an_observers_options_come_from_its_table_and_then_the_command_line(tmp_path: Path) -> None:
    plugins = with_part("observer", "watcher", StrengthOption)
    toml = '[run]\nobservers = ["watcher"]\n[observers.watcher]\nstrength = 8\nshape = [1]'
    resolved = resolve_in(tmp_path, toml, plugins=plugins, sets=["watcher.shape=4,5"])

    assert resolved.settings.observer_options == {"watcher": {"strength": 8, "shape": (4, 5)}}
    assert resolved.sources["observer_options.watcher.strength"] == f"{tmp_path / 'tfsm.toml'} [observers.watcher]"
    assert resolved.sources["observer_options.watcher.shape"] == "--set watcher.shape=4,5"
    plain = resolved.settings.as_dict()
    assert json.loads(json.dumps(plain)) == plain


def test_an_observers_option_without_a_default_must_be_given(tmp_path: Path) -> None:
    plugins = with_part("observer", "needy", RequiredOption)

    message = error_in(tmp_path, plugins=plugins, overrides={"observers": ["needy"]})
    assert message == "observer 'needy' has options without a default: give --set needy.needed=VALUE"


TABLES = [
    "run",
    "domains",
    "mutations",
    "selections",
    "observers",
    "engine",
    "parity",
    "simple-easy",
    "sm-r",
    "control",
]
SETTINGS = [
    "intensity",
    "runs",
    "seed",
    "evaluations",
    "population",
    "init",
    "init_scale",
    "log_every",
    "selection",
    "observers",
]
OPTIONS = ["options", "mutation", "selection_options", "bits", "experiences", "floor", "size", "memory", "populaton"]
KEYS = st.sampled_from([*TABLES, *SETTINGS, *OPTIONS]) | st.text(max_size=6)
LEAVES = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.dates(),
    st.datetimes(),
    st.sampled_from(["none", "xavier-normal", "tournament", "hill-climber", "auto", "1", "nan"]),
    st.text(max_size=6),
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
PLAUSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "runs": st.integers(0, 3),
        "seed": st.integers(0, 2**63),
        "evaluations": st.integers(1, 1_000),
        "population": st.integers(1, 300),
        "selection": st.sampled_from(["tournament", "hill-climber"]),
        "intensity": st.floats(0, 1)
        | st.dictionaries(st.sampled_from(["sm-r", "control", "x"]), st.floats(0), max_size=2),
        "init_scale": st.floats(0, 2) | st.just("none"),
    },
)
RUN_TABLE = PLAUSIBLE | st.dictionaries(KEYS, VALUES, max_size=4)
NAMED = st.dictionaries(KEYS, RUN_TABLE | VALUES, max_size=3)
FILES = st.one_of(
    st.fixed_dictionaries({"run": PLAUSIBLE, "domains": st.fixed_dictionaries({"parity": PLAUSIBLE})}),
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "run": RUN_TABLE,
            "domains": NAMED,
            "mutations": NAMED,
            "selections": NAMED,
            "observers": NAMED,
            "engine": RUN_TABLE,
        },
    ),
)
SETTING = st.sampled_from(
    ["bits", "run.seed", "mutation.experiences", "selection", "size", "population", "engine.width"]
)
SETS = st.lists(
    st.builds("{}={}".format, SETTING, st.text(max_size=4) | st.integers(-2, 300)) | st.text(max_size=8), max_size=3
)


def to_toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return repr(value)  # of infinities and NaN, too
        case date() | datetime():
            return value.isoformat()
        case dict():
            return "{" + ", ".join(f"{quoted(key)} = {to_toml(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(to_toml, value)) + "]"
        case str():
            return quoted(value)
        case _:
            return str(value)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def resolve_or_error(content: bytes, sets: Sequence[str] = ()) -> ResolvedSettings | str:
    """Return the settings or the error message; anything else is raised."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tfsm.toml"
        path.write_bytes(content)
        try:
            return resolve_in(Path(folder), sets=sets)
        except TfsmError as error:
            return str(error).replace(str(path), "FILE")


@settings(max_examples=25, deadline=None)
@given(file=FILES, sets=SETS)
def test_any_file_and_command_line_resolve_or_raise_a_readable_error(file: dict[str, object], sets: list[str]) -> None:
    toml = "".join(f"{quoted(key)} = {to_toml(value)}\n" for key, value in file.items())
    found = resolve_or_error(toml.encode(), sets)
    if isinstance(found, str):
        assert "not valid TOML" not in found, "the test wrote a bad file"
        return
    plain = found.settings.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["population"] <= plain["evaluations"]
    assert math.isfinite(plain["intensity"])


@settings(max_examples=25, deadline=None)
@given(content=st.binary(max_size=60))
def test_any_bytes_resolve_or_raise_a_readable_error(content: bytes) -> None:
    found = resolve_or_error(content)
    assert isinstance(found, ResolvedSettings) or found.startswith("FILE: ")


def test_a_profile_is_between_the_defaults_and_the_users_settings(tmp_path: Path) -> None:
    plain, published = resolve_in(tmp_path), resolve_in(tmp_path, profile="published")
    assert plain.settings.init == "xavier-normal"
    assert (published.settings.init, published.settings.init_scale) == ("uniform", pytest.approx(20**-0.5))
    assert published.settings.selection_options["removal"] == "same-later"
    assert published.settings.mutation_options["mean_over_outputs"] is True
    assert published.settings.mutation_options["replacement"] is True
    assert published.settings.intensity == plain.settings.intensity
    assert published.sources["init"] == "built-in tfsm.toml [profiles.published.domains.parity]"
    assert published.sources["population"] == "built-in tfsm.toml [domains.parity]"

    toml = "[domains.parity]\ninit_scale = 0.5\n[profiles.published.domains.parity]\npopulation = 30\nseed = 4\n"
    own = resolve_in(tmp_path, toml, profile="published", sets=["removal=fresh"], overrides={"seed": 5})
    assert (own.settings.init_scale, own.settings.population, own.settings.seed) == (0.5, 30, 5)
    assert own.settings.init == "uniform"
    assert own.settings.selection_options["removal"] == "fresh"
    assert own.sources["population"] == f"{tmp_path / 'tfsm.toml'} [profiles.published.domains.parity]"


def test_without_a_profile_profiles_change_nothing(tmp_path: Path) -> None:
    before = resolve_in(tmp_path)
    assert resolve_in(tmp_path, "[profiles.mine.run]\nseed = 9\n") == before
    assert resolve_in(tmp_path, profile="mine").settings.seed == 9


@pytest.mark.parametrize(
    ("toml", "profile", "message"),
    [
        ("", "publshed", "no profile named 'publshed', did you mean 'published'?"),
        (
            "[profiles.mine.domains.simple-easy]\nseed = 1\n",
            "mine",
            "profile 'mine' has no settings for domain 'parity'",
        ),
        ("[profiles.mine.runs]\nseed = 1\n", None, "[profiles.mine.runs]: unknown table, did you mean 'run'?"),
        ("[profiles.mine.run]\nsed = 1\n", None, "[profiles.mine.run] sed: unknown key, did you mean 'seed'?"),
        ("[profiles.mine.profiles.other]\n", None, "[profiles.mine.profiles]: unknown table"),
        ("[profiles]\nmine = 3\n", None, "[profiles] mine: expected a table, [profiles.mine]"),
        ("profiles = 3\n", None, "profiles: expected a table, [profiles]"),
        ("[profiles.mine]\nrun = 3\n", "mine", "run: expected a table, [run]"),
    ],
)
def test_mistakes_in_profiles(tmp_path: Path, toml: str, profile: str | None, message: str) -> None:
    assert message in error_in(tmp_path, toml, profile=profile)


@pytest.mark.parametrize("profile", ["published", "described"])
def test_the_profiles_cover_the_papers_experiments(tmp_path: Path, profile: str) -> None:
    plugins = load_plugins()
    for domain in {domain for figure in FIGURES.values() for domain in figure.domains}:
        found = resolve_in(tmp_path, plugins=plugins, domain=domain, mutation="control", profile=profile)
        if not domain.startswith("simple"):
            assert found.sources["init"] == f"built-in tfsm.toml [profiles.{profile}.domains.{domain}]"


def test_a_divergence_replaces_the_intensity_and_brings_its_guard(tmp_path: Path) -> None:
    found = resolve_in(tmp_path, mutation="sm-g-abs", overrides={"divergence": "1.0%"})

    assert (found.settings.intensity, found.settings.divergence, found.settings.strength) == (None, "1%", 0.01)
    assert found.settings.mutation_options["guard"] == "relative"
    assert found.sources["mutation_options.guard"] == "divergence"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, "10%"),
        ({"model": "my_models:build"}, "10%"),
        ({"model": "trained.keras"}, "1%"),
        ({"model": "trained.keras", "divergence": "10%"}, "10%"),
        ({"model": "trained.keras", "intensity": 0.1}, None),
    ],
)
def test_trained_weights_are_changed_less_than_random_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: dict[str, Any], expected: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trained.keras").write_bytes(b"PK\x05\x06" + bytes(18))
    for domain, needed in (("dataset", "domain.data=digits.npz"), ("gym", "domain.env=CartPole-v1")):
        for mutation in ("sm-g-sum", "sm-g-abs"):
            found = resolve_in(
                tmp_path,
                plugins=load_plugins(),
                domain=domain,
                mutation=mutation,
                overrides=overrides,
                sets=[needed],
            )
            assert found.settings.divergence == expected
            guard = found.settings.mutation_options["guard"]
            assert guard == ("relative" if expected else "paper")


def test_a_divergence_in_a_file_of_the_user_holds_for_trained_weights(tmp_path: Path) -> None:
    (tmp_path / "tfsm.toml").write_text("[domains.dataset]\ndivergence = '5%'")
    sets = ["domain.data=digits.npz", "init=model"]
    found = resolve_in(tmp_path, plugins=load_plugins(), domain="dataset", mutation="sm-g-sum", sets=sets)
    assert (found.settings.init, found.settings.divergence) == ("model", "5%")


def test_the_guard_of_a_divergence_can_be_chosen(tmp_path: Path) -> None:
    found = resolve_in(tmp_path, mutation="sm-g-abs", overrides={"divergence": 0.5}, sets=["guard=paper"])
    assert (found.settings.divergence, found.settings.mutation_options["guard"]) == (0.5, "paper")


@pytest.mark.parametrize(
    ("file", "overrides", "expected"),
    [
        ("[run]\ndivergence = '2%'", {}, (None, "2%")),
        ("[run]\ndivergence = 0.5", {"intensity": 0.25}, (0.25, None)),
        ("[domains.parity.divergence]\nsm-g-abs = 0.125", {}, (None, 0.125)),
        ("[domains.parity.divergence]\nsm-r = 0.125", {}, (0.001, None)),
        ("[run]\ndivergence = '2%'\n[domains.parity]\nintensity = 0.75", {}, (0.75, None)),
    ],
)
def test_the_source_of_higher_precedence_decides_between_intensity_and_divergence(
    tmp_path: Path, file: str, overrides: dict[str, Any], expected: tuple[Any, Any]
) -> None:
    (tmp_path / "tfsm.toml").write_text(file)
    settings = resolve_in(tmp_path, mutation="sm-g-abs", overrides=overrides).settings
    assert (settings.intensity, settings.divergence) == expected


@pytest.mark.parametrize(
    ("overrides", "sets", "expected"),
    [
        ({"intensity": 0.1, "divergence": "1%"}, [], "intensity=0.1 and divergence=1% exclude each other"),
        ({"divergence": "many"}, [], "--divergence: divergence: expected a number >= 0 or a percentage"),
        ({"divergence": "-1%"}, [], "expected a number >= 0 or a percentage"),
        ({"divergence": "nan"}, [], "expected a number >= 0 or a percentage"),
        ({"divergence": "1%"}, ["adapt=divergence", "target_divergence=1"], "adapt=divergence changes an intensity"),
    ],
)
def test_a_wrong_divergence_is_an_error(
    tmp_path: Path, overrides: dict[str, Any], sets: list[str], expected: str
) -> None:
    message = error_in(tmp_path, mutation="sm-g-abs", overrides=overrides, sets=sets)
    assert expected in message
    assert "\n" not in message


def test_settings_added_later_are_not_recorded_at_their_defaults(tmp_path: Path) -> None:
    old = resolve_in(tmp_path, mutation="sm-g-abs").settings.as_record()
    assert {"divergence", "guard", "probes"} & (set(old) | set(old["mutation_options"])) == set()
    new = resolve_in(
        tmp_path, mutation="sm-g-abs", overrides={"divergence": 0.5}, sets=["probes=3"]
    ).settings.as_record()
    assert (new["divergence"], new["mutation_options"]["guard"], new["mutation_options"]["probes"]) == (
        0.5,
        "relative",
        3,
    )
    assert "divergence was 0.5 and is now None" in describe_changes(new, old)
    assert describe_changes(old, old) == describe_changes(new, new) == []


@pytest.mark.parametrize(
    ("domain", "more", "expected"),
    [
        ("parity", {}, 1),
        ("parity", {"sets": ["engine.threads=2"]}, 2),
        ("hard-maze-101", {}, None),
        ("parity", {"overrides": {"model": "somewhere.networks:build"}}, None),
    ],
)
def test_a_domain_declares_threads_for_its_own_network(domain: str, more: dict[str, Any], expected: int | None) -> None:
    plugins = load_plugins()
    settings = resolve(plugins, domain=domain, mutation="control", **more).settings
    assert choose_threads(settings, plugins.domains[domain]) == expected
    assert "threads" not in settings.as_record()["engine"] or expected == 2
