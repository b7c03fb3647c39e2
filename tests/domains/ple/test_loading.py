from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tfsm.errors import TfsmError
from tfsm.interfaces import Domain, Filmed
from tfsm.plugins.registry import Registry
from tfsm_domains.ple import tfsm_register_domains
from tfsm_domains.ple.domain import Ple
from tfsm_domains.ple.games import load_arcade


@pytest.mark.usefixtures("nothing")
def test_without_ple_the_domain_is_listed_and_built_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ple", None)
    registry = Registry("domain", plugin="tfsm-ple", distribution="tfsm", taken={})
    tfsm_register_domains(registry)
    (entry,) = registry.entries
    domain = entry.load()()
    assert isinstance(domain, Domain)
    assert isinstance(domain, Filmed)
    with pytest.raises(TfsmError, match=r"needs ple.*ntasfi/PyGame-Learning-Environment.*pip install") as error:
        domain.network()
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.usefixtures("ple")
def test_an_unknown_game_is_told_the_nearest_one_and_all_that_there_are() -> None:
    with pytest.raises(TfsmError, match="no game named 'Cacher', did you mean 'Catcher'") as error:
        Ple(game="Cacher").network()
    assert "RaycastMaze" in str(error.value)
    assert "PyGameWrapper" not in str(error.value)
    with pytest.raises(TfsmError, match=r"no game named 'Q'; known: Catcher,.*RaycastMaze") as error:
        Ple(game="Q").network()
    assert str(error.value).count("RaycastMaze") == 1


def package(root: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    monkeypatch.syspath_prepend(root)
    (root / "ple" / "games" / "base").mkdir(parents=True)
    base = "class PyGameWrapper: pass\n"
    texts = {"__init__": "", "games/__init__": "", "games/base/__init__": "", "games/base/pygamewrapper": base}
    for name, text in {**texts, **files}.items():
        (root / "ple" / f"{name}.py").write_text(text)


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "clone the GitHub project"),
        ({"__init__": "import surely_not_installed"}, "ple needs surely_not_installed"),
        ({"__init__": "class PLE: pass", "games/__init__": "\tindented"}, "cannot be imported: IndentationError"),
    ],
    ids=["another package", "a library is missing", "a broken file"],
)
def test_a_ple_that_cannot_be_used_is_one_message(
    files: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, monkeypatch, **files)
    with pytest.raises(TfsmError, match=message):
        load_arcade("Catcher")


@pytest.mark.usefixtures("nothing")
def test_what_ple_prints_when_it_is_imported_is_not_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    games = "print('no doom')\nfrom ple.games.base.pygamewrapper import PyGameWrapper\nclass Own(PyGameWrapper): pass\n"
    package(tmp_path, monkeypatch, **{"__init__": "class PLE: pass", "games/__init__": games})
    assert load_arcade("Own").name == "Own"
    assert capsys.readouterr() == ("", "")
