"""Where settings come from: files, plugins, flags and --set."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.settings.settings_case import built_ins, error_in, resolve_in, with_part
from tfsm.errors import TfsmError
from tfsm.plugins.registry import Parts
from tfsm.settings import built_in_path, config_paths, nearest_path
from tfsm.settings.sources import config_sources
from tfsm.settings.validation import check_source


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
    resolved = resolve_in(tmp_path, sets=[text])
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

    settings = resolve_in(
        tmp_path, domain="simple-easy", sets=["domain.tolerance=0.5", "mutation.tolerance=0.25"]
    ).settings
    assert settings.domain_options["tolerance"] == 0.5
    assert settings.mutation_options["tolerance"] == 0.25


def test_an_unknown_key_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    assert error_in(tmp_path, sets=["bist=5"]).splitlines() == [
        "--set bist=5: unknown key 'bist', did you mean 'bits'?",
        "known keys:",
        "  domain: bits, outputs, units, layers",
        "  mutation: experiences, replacement, tolerance, max_steps, mean_over_outputs",
        "  selection: size, removal",
        "  run: selection, intensity, divergence, runs, seed, evaluations, population, offspring, init, init_scale, "
        "model, trust_model, mutated_layers, stop, adapt, adapt_rate, target_divergence, log_every, checkpoint_every, "
        "evaluation_timeout, failures, observers",
        "  engine: compile, memory, width, reuse, threads",
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
def test_a_malformed_assignment_is_reported(tmp_path: Path, text: str) -> None:
    assert error_in(tmp_path, sets=[text]).startswith(f"--set {text}: expected key=value")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bits=many", "--set bits=many: expected an integer >= 1 and <= 12"),
        ("bits=13", "--set bits=13: expected an integer >= 1 and <= 12"),
        ("bits=", "--set bits=: expected an integer"),
        ("intensity=nan", "--set intensity=nan: expected a finite number >= 0"),
        ("init=xavier", "--set init=xavier: expected xavier-normal or"),
        ("memory=0", "--set memory=0: expected a number > 0"),
        ("width=0", "--set width=0: expected an integer >= 1 or none"),
        ("compile=jit", "--set compile=jit: expected auto or xla or graph"),
        (
            "selection=turnament",
            "--set selection=turnament: no selection named 'turnament', did you mean 'tournament'?",
        ),
    ],
)
def test_a_wrong_value_is_reported(tmp_path: Path, text: str, expected: str) -> None:
    assert error_in(tmp_path, sets=[text]).startswith(expected)


def test_a_selection_can_be_set_together_with_its_options(tmp_path: Path) -> None:
    sets = ["selection.size=2", "run.selection=tournament", "population=4"]
    settings = resolve_in(tmp_path, domain="simple-easy", sets=sets).settings

    assert (settings.selection, settings.selection_options["size"], settings.population) == ("tournament", 2, 4)
    assert "unknown key 'size'" in error_in(tmp_path, sets=["size=2", "selection=hill-climber"])


def test_an_option_called_selection_makes_the_bare_key_ambiguous(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Options:
        selection: str = "x"

    plugins = with_part("domain", "fresh", Options)
    message = error_in(tmp_path, plugins=plugins, domain="fresh", sets=["selection=y"])
    assert "--set domain.selection=y or --set run.selection=y" in message
    settings = resolve_in(tmp_path, plugins=plugins, domain="fresh", sets=["domain.selection=y"]).settings
    assert (settings.domain_options, settings.selection) == ({"selection": "y"}, "tournament")


def test_a_setting_given_twice_is_reported(tmp_path: Path) -> None:
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
    resolved = resolve_in(tmp_path, plugins=plugins, sets=sets)

    assert resolved.settings.observers == ("a.watcher",)
    assert resolved.settings.observer_options == {"a.watcher": {"often": True, "reach": 5}}
    assert resolved.sources["observer_options.a.watcher.often"] == "--set a.watcher.often=yes"
    assert resolved.sources["observers"] == "--set observers=a.watcher"


def test_no_observer_is_an_empty_list(tmp_path: Path) -> None:
    plugins = with_part("observer", "watcher", Watching)
    settings = resolve_in(tmp_path, '[run]\nobservers = ["watcher"]', plugins=plugins, sets=["observers=[]"]).settings

    assert (settings.observers, settings.observer_options) == ((), {})


@pytest.mark.parametrize(
    ("sets", "beginning"),
    [
        (["often=yes"], "--set often=yes: unknown key 'often'\nknown keys:"),
        (["watcher.oftn=yes"], "--set watcher.oftn=yes: unknown key 'watcher.oftn', did you mean 'watcher.often'?"),
        (["wacher.often=yes"], "--set wacher.often=yes: unknown key 'wacher.often', did you mean 'watcher.often'?"),
        (["watcher.reach=far"], "--set reach=far: expected an integer"),
        (
            ["watcher.reach=1", "watcher.reach=2"],
            "--set watcher.reach=2: reach was already given by --set watcher.reach=1",
        ),
        (["other.often=yes"], "--set other.often=yes: observer 'other' is not used, add --observer other"),
    ],
)
def test_mistakes_in_options_of_observers_are_reported(tmp_path: Path, sets: list[str], beginning: str) -> None:
    plugins = with_part("observer", "watcher", Watching)
    other = replace(plugins.observers["watcher"], name="other")
    plugins = replace(plugins, observers=Parts("observer", [*plugins.observers.values(), other]))
    message = error_in(tmp_path, plugins=plugins, overrides={"observers": ["watcher"]}, sets=sets)

    assert message.startswith(beginning)
    if "known keys" in message:
        assert message.splitlines()[-1] == "  watcher: often, reach"


def test_an_observer_may_have_the_name_of_a_table(tmp_path: Path) -> None:
    plugins = with_part("observer", "domain", Watching)
    settings = resolve_in(
        tmp_path, plugins=plugins, overrides={"observers": ["domain"]}, sets=["domain.bits=5"]
    ).settings

    assert settings.domain_options["bits"] == 5
    assert settings.observer_options == {"domain": {"often": False, "reach": 3}}


def test_the_user_file_is_the_nearest_in_a_parent_folder(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "tfsm.toml").write_text("[run]\nseed = 1")
    assert resolve_in(inner).settings.seed == 1

    (tmp_path / "a" / "tfsm.toml").write_text("[run]\nruns = 2")
    resolved = resolve_in(inner)
    assert (resolved.settings.seed, resolved.settings.runs) == (0, 2)
    assert config_paths(cwd=inner) == (built_in_path(), tmp_path / "a" / "tfsm.toml")


def test_a_folder_named_tfsm_toml_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "inner" / "tfsm.toml").mkdir(parents=True)
    (tmp_path / "tfsm.toml").write_text("[run]\nseed = 1")

    assert nearest_path(tmp_path / "inner") == tmp_path / "tfsm.toml"


def test_config_replaces_the_nearest_file(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[run]\nruns = 2")
    resolved = resolve_in(tmp_path, "[run]\nseed = 1", config=Path("other.toml"))

    assert (resolved.settings.seed, resolved.settings.runs) == (0, 2)
    assert resolved.sources["runs"] == f"{tmp_path / 'other.toml'} [run]"


@pytest.mark.parametrize("how", ["the file itself", "a copy"])
def test_the_built_in_file_is_accepted_as_a_user_file(tmp_path: Path, how: str) -> None:
    path = built_in_path()
    if how == "a copy":
        path = tmp_path / "copy.toml"
        path.write_bytes(built_in_path().read_bytes())

    assert resolve_in(tmp_path, config=path) == resolve_in(tmp_path)
    # its population does not count as a user setting
    settings = resolve_in(tmp_path, config=path, overrides={"selection": "hill-climber"}).settings
    assert settings.population == 1


def test_the_built_in_file_passes_the_checks_of_a_users_file() -> None:
    check_source(replace(config_sources(config=built_in_path())[0], kind="user"), built_ins())


@pytest.mark.parametrize("missing", ["tfsm_plugins.mutations", "tfsm_plugins.selections", "tfsm_domains.toy"])
def test_a_disabled_plugin_does_not_make_the_built_in_file_wrong(tmp_path: Path, missing: str) -> None:
    plugins = built_ins(
        *sorted(
            {"tfsm_plugins.mutations", "tfsm_plugins.selections", "tfsm_domains.toy", "tfsm_domains.parity"} - {missing}
        )
    )
    message = {
        "tfsm_plugins.mutations": "no mutation named 'sm-r'; none is registered",
        "tfsm_plugins.selections": (
            f"{built_in_path()}: [domains.parity] selection=tournament: no selection named 'tournament'"
        ),
    }.get(missing)

    if message is None:
        assert resolve_in(tmp_path, plugins=plugins).settings.population == 250
    else:
        assert message in error_in(tmp_path, plugins=plugins)


def test_without_the_built_in_operators_a_third_partys_still_runs(tmp_path: Path) -> None:
    others = built_ins("tfsm_plugins.selections", "tfsm_domains.toy", "tfsm_domains.parity")
    plugins = replace(others, mutations=Parts("mutation", [with_part("mutation", "novel").mutations["novel"]]))

    for domain in ("parity", "simple-easy"):  # whose tables have options of built-in operators
        assert resolve_in(tmp_path, plugins=plugins, domain=domain, mutation="novel", sets=["intensity=1"])


def test_in_a_wheel_the_built_in_file_is_package_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "tfsm"
    package.mkdir(parents=True)
    monkeypatch.setattr("importlib.resources.files", lambda name: package)
    with pytest.raises(TfsmError, match=r"tfsm's own tfsm\.toml is missing"):
        built_in_path()

    (package.parent / "tfsm.toml").touch()
    assert built_in_path() == package.parent / "tfsm.toml"
    (package / "tfsm.toml").touch()
    assert built_in_path() == package / "tfsm.toml"


def test_syntax_errors_have_a_line_and_a_column(tmp_path: Path) -> None:
    message = error_in(tmp_path, "[run]\nseed = = 1\n")

    assert message.startswith(f"{tmp_path / 'tfsm.toml'}: not valid TOML: ")
    assert "line 2, column 8" in message


def test_a_number_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    message = error_in(tmp_path, f"[run]\nruns = 0x{'f' * 5000}\n")

    assert message == f"{tmp_path / 'tfsm.toml'}: an integer of more than 1024 bits"


def test_a_config_that_is_missing_or_a_directory_is_reported(tmp_path: Path) -> None:
    assert error_in(tmp_path, config=Path("none.toml")) == f"{tmp_path / 'none.toml'}: no such file"
    assert error_in(tmp_path, config=tmp_path) == f"{tmp_path}: is a directory, expected a TOML file"
    assert "cannot be read: embedded null byte" in error_in(tmp_path, config=Path("a\0b"))


def test_an_unreadable_config_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.toml"
    path.touch()
    may_read = Path.read_bytes

    def read_bytes(self: Path) -> bytes:  # a superuser may read anything, so file modes prove nothing
        if self == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return may_read(self)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert error_in(tmp_path, config=path) == f"{path}: cannot be read: Permission denied"


def test_a_file_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tfsm.toml").write_bytes("[run]\n# grün\n".encode("latin-1"))

    assert error_in(tmp_path) == f"{tmp_path / 'tfsm.toml'}: not UTF-8 (byte 10), save it as UTF-8"


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "tfsm.toml").write_bytes(b"\xef\xbb\xbf[run]\r\nseed = 3\r\n")

    assert resolve_in(tmp_path).settings.seed == 3


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("x = " + "[" * 20_000, "not valid TOML"),
        (".".join("a" * 5_000) + " = 1", "nested deeper than 20 tables"),
        ("[run]\nseed = " + "9" * 10_000, "not valid TOML"),
    ],
    ids=["brackets", "dots", "digits"],
)
def test_absurd_files_are_refused(tmp_path: Path, toml: str, message: str) -> None:
    assert f"{tmp_path / 'tfsm.toml'}: {message}" in error_in(tmp_path, toml)


def test_a_deleted_working_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        os.getcwd()
    except FileNotFoundError:
        with pytest.raises(TfsmError, match="cannot read the working directory"):
            config_paths()
    else:
        pytest.skip("this system keeps the working directory of a process")


def test_importing_settings_imports_neither_tensorflow_nor_pydantic() -> None:
    code = "import sys, tfsm.settings; print({'tensorflow', 'keras', 'numpy', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
