"""What becomes of errors on their way to the user."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tfsm.cli import main as module


def ended(monkeypatch: pytest.MonkeyPatch, error: BaseException, cause: BaseException | None) -> int:
    def app(**_: object) -> NoReturn:
        raise error from cause

    monkeypatch.setattr(module, "app", app)
    with pytest.raises(SystemExit) as found:
        module.main([])
    return int(str(found.value.code))


def test_ctrl_c_is_ctrl_c_even_where_a_library_makes_an_error_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, KeyboardInterrupt(), None) == 130
    assert ended(monkeypatch, SystemError("returned a result with an exception set"), KeyboardInterrupt()) == 130


def test_an_error_of_our_own_making_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemError, match="a bug"):
        ended(monkeypatch, SystemError("a bug"), ValueError("of somebody"))
