from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("pygame")

DOUBLE = "tests.domains.ple.double"
MODULES = ("", ".games", ".games.base", ".games.base.pygamewrapper", ".games.catcher", ".games.raycastmaze")


@pytest.fixture
def nothing() -> Iterator[None]:
    """Remove `ple` from the imported modules during a test, and restore it afterwards."""
    before = _forget()
    yield
    _forget()
    sys.modules.update(before)


@pytest.fixture
def double(nothing: None) -> None:
    """Install the test double as `ple`."""
    sys.modules.update({f"ple{name}": importlib.import_module(f"{DOUBLE}{name}") for name in MODULES})


@pytest.fixture(params=["double", "real"])
def ple(request: pytest.FixtureRequest) -> str:
    """Install the test double as `ple`; then use the real one, if it is installed."""
    if request.param == "double":
        request.getfixturevalue("double")
    elif not _has_real_ple():
        pytest.skip("ple is not installed: it comes from the source of ntasfi/PyGame-Learning-Environment")
    return str(request.param)


def _has_real_ple() -> bool:
    """Return whether the package `ple` has PLE's games; an unrelated one of PyPI has the same name."""
    spec = importlib.util.find_spec("ple")
    folders = spec.submodule_search_locations if spec is not None else None
    return any((Path(folder) / "games" / "base" / "pygamewrapper.py").is_file() for folder in folders or ())


def _forget() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "ple"]
    return {name: sys.modules.pop(name) for name in names}
