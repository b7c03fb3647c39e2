"""One process a directory, and none that is dead."""

from __future__ import annotations

import pytest

from tests.faults.bench import Bench
from tests.faults.lab import Lab
from tests.faults.locks import locks
from tests.faults.trial import assert_nothing_lost


@pytest.mark.slow
def test_two_processes(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(locks(lab, bench))
