from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.settings_case import built_ins, error_in, settle, with_part
from tfsm.errors import TfsmError
from tfsm.plugins.registry import Parts
from tfsm.settings import built_in_path, config_paths, nearest_path
from tfsm.settings.sources import ConfigFile, config_files
from tfsm.settings.validation import check


def test_the_nearest_file_upwards_is_the_users(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "tfsm.toml").write_text("[run]\nseed = 1")
    assert settle(inner).settings.seed == 1

    (tmp_path / "a" / "tfsm.toml").write_text("[run]\nruns = 2")
    resolved = settle(inner)
    assert (resolved.settings.seed, resolved.settings.runs) == (0, 2)
    assert config_paths(cwd=inner) == (built_in_path(), tmp_path / "a" / "tfsm.toml")


def test_a_folder_called_tfsm_toml_is_passed_by(tmp_path: Path) -> None:
    (tmp_path / "inner" / "tfsm.toml").mkdir(parents=True)
    (tmp_path / "tfsm.toml").write_text("[run]\nseed = 1")

    assert nearest_path(tmp_path / "inner") == tmp_path / "tfsm.toml"


def test_config_replaces_the_nearest_file(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[run]\nruns = 2")
    resolved = settle(tmp_path, "[run]\nseed = 1", config=Path("other.toml"))

    assert (resolved.settings.seed, resolved.settings.runs) == (0, 2)
    assert resolved.sources["runs"] == f"{tmp_path / 'other.toml'} [run]"


@pytest.mark.parametrize("how", ["the file itself", "a copy"])
def test_the_built_in_file_is_accepted_as_a_users(tmp_path: Path, how: str) -> None:
    path = built_in_path()
    if how == "a copy":
        path = tmp_path / "copy.toml"
        path.write_bytes(built_in_path().read_bytes())

    assert settle(tmp_path, config=path) == settle(tmp_path)
    # its population is nobody's wish
    settings = settle(tmp_path, config=path, overrides={"selection": "hill-climber"}).settings
    assert settings.population == 1


def test_the_built_in_file_stands_all_the_checks_that_a_users_does() -> None:
    check(ConfigFile(built_in_path(), config_files(built_in_path())[0].tables, built_in=False), built_ins())


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
        assert settle(tmp_path, plugins=plugins).settings.population == 250
    else:
        assert message in error_in(tmp_path, plugins=plugins)


def test_without_the_built_in_operators_a_third_partys_still_runs(tmp_path: Path) -> None:
    others = built_ins("tfsm_plugins.selections", "tfsm_domains.toy", "tfsm_domains.parity")
    plugins = replace(others, mutations=Parts("mutation", [with_part("mutation", "novel").mutations["novel"]]))

    for domain in ("parity", "simple-easy"):  # whose tables have options of built-in operators
        assert settle(tmp_path, plugins=plugins, domain=domain, mutation="novel", sets=["intensity=1"])


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


def test_a_number_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    message = error_in(tmp_path, f"[run]\nruns = 0x{'f' * 5000}\n")

    assert message == f"{tmp_path / 'tfsm.toml'}: a whole number of more than 1024 bits"


def test_a_config_that_is_missing_or_a_directory_is_told(tmp_path: Path) -> None:
    assert error_in(tmp_path, config=Path("none.toml")) == f"{tmp_path / 'none.toml'}: no such file"
    assert error_in(tmp_path, config=tmp_path) == f"{tmp_path}: is a directory, expected a TOML file"
    assert "cannot be read: embedded null byte" in error_in(tmp_path, config=Path("a\0b"))


def test_a_config_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.toml"
    path.touch()
    may_read = Path.read_bytes

    def read_bytes(self: Path) -> bytes:  # a superuser may read anything, so file modes prove nothing
        if self == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return may_read(self)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert error_in(tmp_path, config=path) == f"{path}: cannot be read: Permission denied"


def test_a_file_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    (tmp_path / "tfsm.toml").write_bytes("[run]\n# grün\n".encode("latin-1"))

    assert error_in(tmp_path) == f"{tmp_path / 'tfsm.toml'}: not UTF-8 (byte 10), save it as UTF-8"


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "tfsm.toml").write_bytes(b"\xef\xbb\xbf[run]\r\nseed = 3\r\n")

    assert settle(tmp_path).settings.seed == 3


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("x = " + "[" * 20_000, "not valid TOML"),
        (".".join("a" * 5_000) + " = 1", "nested deeper than 20 tables"),
        ("[run]\nseed = " + "9" * 10_000, "not valid TOML"),
    ],
    ids=["brackets", "dots", "digits"],
)
def test_absurd_files_are_turned_away(tmp_path: Path, toml: str, message: str) -> None:
    assert f"{tmp_path / 'tfsm.toml'}: {message}" in error_in(tmp_path, toml)


def test_a_working_directory_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        os.getcwd()
    except FileNotFoundError:
        with pytest.raises(TfsmError, match="the working directory cannot be read"):
            config_paths()
    else:
        pytest.skip("this system keeps the working directory of a process")


def test_importing_settings_imports_neither_tensorflow_nor_pydantic() -> None:
    code = "import sys, tfsm.settings; print({'tensorflow', 'keras', 'numpy', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
