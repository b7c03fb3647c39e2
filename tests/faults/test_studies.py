"""A study that was killed, or failed, goes on where it was when it is started again."""

from __future__ import annotations

import pytest

from tests.faults.lab import Lab
from tests.faults.studies import studies
from tests.faults.trial import assert_nothing_lost


@pytest.mark.slow
@pytest.mark.parametrize("where", [[], ["--backend", "processes", "--workers", "2"]])
def test_a_study(lab: Lab, where: list[str]) -> None:
    assert_nothing_lost(studies(lab, *where))
