from __future__ import annotations

import sys

import pytest

from tfsm.errors import TfsmError, import_optional


def test_an_installed_module_is_imported() -> None:
    import json

    assert import_optional("json", extra="replay", purpose="a test") is json


def test_a_missing_module_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)  # as if it were not installed
    with pytest.raises(TfsmError, match=r"^drawing needs pygame: pip install 'tfsm\[replay\]'$"):
        import_optional("pygame", extra="replay", purpose="drawing")
