from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.settings.settings_case import built_ins
from tfsm.cli.common import CliContext
from tfsm.cli.config import app
from tfsm.plugins import Plugins
from tfsm.settings import built_in_path


class BuiltIns(CliContext):
    """The built-in plugins, installed or not."""

    def load_plugins(self) -> Plugins:
        return built_ins()


@pytest.fixture(autouse=True)
def _empty_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tfsm_config(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), obj=BuiltIns())


def show_settings(*arguments: str) -> dict[str, list[str]]:
    """Return the rows of `config show` by setting."""
    result = tfsm_config("show", *arguments)
    assert result.exit_code == 0, result.output
    rows = [line.strip().split(maxsplit=2) for line in result.stdout.splitlines() if line]
    return {row[0]: row[1:] for row in rows}


def test_show_lists_settings_values_and_sources(tmp_path: Path) -> None:
    Path("tfsm.toml").write_text("[run]\nseed = 7\n")
    rows = show_settings("parity", "--mutation", "sm-g-abs", "--set", "bits=5")

    assert rows["SETTING"] == ["VALUE", "FROM"]
    assert rows["mutation"] == ["sm-g-abs", "command line"]
    assert rows["seed"] == ["7", f"{tmp_path / 'tfsm.toml'} [run]"]
    assert rows["population"] == ["250", "built-in tfsm.toml [domains.parity]"]
    assert rows["domain.bits"] == ["5", "--set bits=5"]
    assert rows["mutation.max_change"] == ["none", "operator's default"]
    assert rows["mutation.replacement"] == ["false", "operator's default"]
    assert rows["engine.memory"] == ["4.0", "built-in default"]


def test_show_names_the_profile_as_a_source() -> None:
    rows = show_settings("parity", "--profile", "published")
    assert rows["init"] == ["uniform", "built-in tfsm.toml [profiles.published.domains.parity]"]
    assert rows["selection.removal"] == ["same-later", "built-in tfsm.toml [profiles.published.domains.parity]"]


def test_without_a_mutation_the_control_is_shown() -> None:
    assert show_settings("parity")["mutation"] == ["control", "default of this command"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("toml", ["", '[run]\nobservers = ["tensorboard"]'], ids=["plain", "observed"])
def test_every_key_in_show_is_accepted_by_set(toml: str) -> None:
    Path("tfsm.toml").write_text(toml)
    rows = show_settings("parity", "--mutation", "sm-r")
    assert ("tensorboard.histograms" in rows) is bool(toml)
    for setting in rows.keys() - {"SETTING", "domain", "mutation"}:
        again = show_settings("parity", "--mutation", "sm-r", "--set", f"{setting}={rows[setting][0]}")
        assert again[setting] == [rows[setting][0], f"--set {setting}={rows[setting][0]}"]


def test_show_as_json(tmp_path: Path) -> None:
    Path("mine.toml").write_text("[domains.parity]\npopulation = 10\n")
    printed = json.loads(tfsm_config("show", "parity", "--config", "mine.toml", "--json").stdout)

    assert printed["files"] == [str(built_in_path()), str(tmp_path / "mine.toml")]
    assert (printed["settings"]["mutation"], printed["settings"]["population"]) == ("control", 10)
    assert printed["settings"]["domain_options"]["bits"] == 4
    assert printed["sources"]["population"] == f"{tmp_path / 'mine.toml'} [domains.parity]"


def test_without_a_domain_show_prints_files_and_defaults(tmp_path: Path) -> None:
    Path("tfsm.toml").write_text("[run.intensity]\nsm-r = 0.25\n")
    output = tfsm_config("show").stdout
    rows = show_settings()

    assert output.index(str(built_in_path())) < output.index(f"  {tmp_path / 'tfsm.toml'}\n")
    assert rows["population"] == ["250", "built-in tfsm.toml [run]"]
    assert rows["intensity.sm-r"] == ["0.25", f"{tmp_path / 'tfsm.toml'} [run.intensity]"]
    assert rows["engine.width"] == ["none", "built-in default"]
    printed = json.loads(tfsm_config("show", "--json").stdout)
    assert printed["settings"]["intensity"]["sm-r"] == 0.25
    assert printed["settings"]["engine"]["compile"] == "auto"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["party"], "no domain named 'party', did you mean 'parity'?"),
        (["--set", "bits=5"], "name its DOMAIN"),
        (["--mutation", "sm-r"], "name its DOMAIN"),
        (["--profile", "published"], "name its DOMAIN"),
        (["parity", "--config", "none.toml"], "none.toml: no such file"),
        (["--config", "."], "is a directory"),
        (["parity", "--set", "bits"], "--set bits: expected key=value"),
    ],
)
def test_mistakes_are_user_errors(arguments: list[str], message: str) -> None:
    error = tfsm_config("show", *arguments).exception

    assert type(error).__module__ == "tfsm.errors"
    assert message in str(error)


def test_path_prints_the_files_in_order_even_if_one_is_broken(tmp_path: Path) -> None:
    assert tfsm_config("path").stdout.splitlines() == [str(built_in_path())]
    Path("tfsm.toml").write_text("[run\n")
    assert tfsm_config("path").stdout.splitlines() == [str(built_in_path()), str(tmp_path / "tfsm.toml")]
    Path("mine.toml").touch()
    mine = tfsm_config("path", "--config", "mine.toml").stdout.splitlines()
    assert mine == [str(built_in_path()), str(tmp_path / "mine.toml")]


def test_path_names_the_file_of_a_checkout_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built_in_path().parent)

    assert tfsm_config("path").stdout.splitlines() == [str(built_in_path())]
