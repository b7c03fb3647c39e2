"""One pool of each kind, shared by the tests of the common contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest

from tfsm.parallel.pool import Pool
from tfsm.parallel.process_pool import ProcessPool
from tfsm.parallel.ray_pool import RayPool, connect

Make = Callable[[int], Pool]


@pytest.fixture(scope="module", params=["processes", pytest.param("ray", marks=pytest.mark.slow)])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    if request.param == "processes":
        yield ProcessPool
        return
    if find_spec("ray") is None:  # not importorskip: Ray looks at the environment when it is imported
        pytest.skip("Ray is not installed")
    connection = connect(None, 8)  # shared, because it takes seconds to start
    yield RayPool
    connection.close()


@pytest.fixture(scope="module")
def pool(make: Make) -> Iterator[Pool]:
    with make(2) as shared:
        yield shared
