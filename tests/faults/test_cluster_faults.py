"""Studies on a cluster of three nodes survive the loss of nodes and of the network: `make test-cluster`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cluster import explain_missing
from tests.faults.cluster_faults import (
    MINUTE,
    OTHERS,
    ClusterLab,
    add_latency,
    cut_off,
    join_late,
    kill_head,
    kill_worker_node,
    leave_and_come_back,
    make_cluster,
    refuse_node,
    run_undisturbed,
)
from tests.faults.lab import Bench, assert_nothing_lost
from tfsm.parallel.pool import GRAINS, Grain

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    if reason := explain_missing():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def shared(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterLab]:
    root = tmp_path_factory.mktemp("cluster")
    with make_cluster(root) as cluster:
        yield ClusterLab(root, bench, cluster)


@pytest.fixture
def healthy(shared: ClusterLab) -> ClusterLab:
    shared.cluster.heal()
    return shared


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize(
    "trial", [run_undisturbed, kill_worker_node, kill_head, join_late, leave_and_come_back], ids=lambda f: f.__name__
)
def test_nodes_may_leave_and_join(healthy: ClusterLab, trial: object, grain: Grain) -> None:
    assert_nothing_lost([trial(healthy, grain)])  # type: ignore[operator]


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("seconds", [MINUTE, None], ids=["a minute", "for good"])
def test_a_node_may_be_cut_off(healthy: ClusterLab, seconds: float | None, grain: Grain) -> None:
    assert_nothing_lost([cut_off(healthy, grain, seconds)])


@pytest.mark.parametrize("what", OTHERS)
def test_a_node_with_another_installation_is_refused(healthy: ClusterLab, what: str) -> None:
    assert_nothing_lost([refuse_node(healthy, what)])


@pytest.mark.parametrize("grain", GRAINS)
def test_the_network_may_be_slow(bench: Bench, tmp_path: Path, grain: Grain) -> None:
    with make_cluster(tmp_path) as cluster:
        assert_nothing_lost([add_latency(ClusterLab(tmp_path, bench, cluster), grain)])
