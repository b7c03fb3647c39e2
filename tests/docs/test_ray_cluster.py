"""The manifest in the guide to Ray clusters has the fields that KubeRay knows, and the versions that tfsm needs."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.docs.markdown import DOCS, ROOT

yaml = pytest.importorskip("yaml")

POD = {
    "containers": {"name", "image", "env", "resources", "volumeMounts"},
    "volumes": {"name", "persistentVolumeClaim"},
}
"""Fields of a pod's specification, as far as the manifest uses them."""
CLUSTER = {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"}
"""Fields of `RayClusterSpec` in `ray-operator/apis/ray/v1/raycluster_types.go` of KubeRay."""
GROUP = {"rayStartParams", "template"}
WORKERS = GROUP | {"groupName", "replicas", "minReplicas", "maxReplicas"}


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    text = (DOCS / "guides" / "ray-cluster.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def check_pod(spec: dict[str, Any]) -> None:
    assert spec.keys() <= POD.keys()
    for kind, items in spec.items():
        for item in items:
            assert item.keys() <= POD[kind]
    (container,) = spec["containers"]
    assert {"name": "RAY_worker_niceness", "value": "0"} in container["env"]
    mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
    assert mounted == {volume["name"] for volume in spec.get("volumes", [])}


def test_the_fields_are_those_of_a_ray_cluster(manifest: dict[str, Any]) -> None:
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayCluster")
    spec = manifest["spec"]
    assert spec.keys() == CLUSTER
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["headGroupSpec"].keys() == GROUP
    for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values()), "a map of strings"
        check_pod(group["template"]["spec"])
    for group in spec["workerGroupSpecs"]:
        assert group.keys() == WORKERS
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_its_version_of_ray_is_the_oldest_that_tfsm_takes(manifest: dict[str, Any]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["ray"] == ["ray>=" + manifest["spec"]["rayVersion"].removesuffix(".0")]
