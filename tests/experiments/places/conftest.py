"""One pool of each kind, which the tests of the contract share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tfsm.experiments.places.processes import ProcessPool
from tfsm.experiments.places.task import Pool

Make = Callable[[int], Pool]


@pytest.fixture(scope="module", params=["processes"])
def make(request: pytest.FixtureRequest) -> Make:
    return ProcessPool


@pytest.fixture(scope="module")
def pool(make: Make) -> Iterator[Pool]:
    with make(2) as made:
        yield made
