"""The table of a cluster's speed, on made-up numbers."""

from __future__ import annotations

from benchmarks.cluster_scaling import DRIVER, render
from benchmarks.scaling_model import ScalingModel


def test_the_model_stands_beside_the_measurement() -> None:
    row = {"workers": 4, "sleep": 1.0, "rate": 3.5, "driver_seconds": 0.002, "bytes_per_child": 12_340.0}
    table = render([row], ScalingModel(overhead=0.25, driver=0.001))
    assert table.splitlines()[-1] == "| 4 | 1 | 3.5 | 3.2 | 1% | 2.00 | 12.3 |"


def test_the_driver_is_valid_python() -> None:
    compile(DRIVER, "driver", "exec")
