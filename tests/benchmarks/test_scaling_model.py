"""The model of many workers, on synthetic numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.scaling_model import ScalingModel, compare_with_model, fit_model, plot_scaling, render_tables


def row(backend: str, workers: int, sleep: float, rate: float, driver: float = 0.002) -> dict[str, Any]:
    return {"backend": backend, "workers": workers, "sleep": sleep, "rate": rate, "driver_seconds": driver}


MEASURED = [
    row("processes", 1, 0.0, 100.0, 0.004),
    row("processes", 4, 0.0, 200.0),
    row("processes", 4, 0.19, 20.0),
    row("ray", 1, 0.0, 50.0),
]


def test_workers_add_up_until_the_driver_is_busy_all_the_time() -> None:
    model = ScalingModel(overhead=0.1, driver=0.01)
    assert model.rate(1, 0.9) == pytest.approx(1.0)
    assert model.rate(10, 0.9) == pytest.approx(10.0)
    assert model.rate(1000, 0.9) == pytest.approx(100.0)


def test_the_overhead_is_the_time_of_one_worker_without_work() -> None:
    assert fit_model(MEASURED, "processes") == ScalingModel(0.01, 0.002)
    ((measured, predicted),) = compare_with_model(MEASURED)
    assert measured["sleep"] == 0.19
    assert predicted == pytest.approx(4 / 0.2)


def test_all_results_are_tabulated_and_drawn(tmp_path: Path) -> None:
    results = {
        "cores": 2,
        "threads": [{"backend": "local", "workers": None, "rate": 12.0}],
        "groups": [{"backend": "local", "workers": None, "rate": 10.0}, {"backend": "ray", "workers": 2, "rate": 15.0}],
        "children": MEASURED,
        "driver": [{"runs": 8, "seconds": 0.0005}],
        "first_person": {"child": 0.98, "driver": 0.001, "bytes_sent": 400_000, "bytes_returned": 600_000},
    }
    text = render_tables(results)
    assert "| `ray` | 2 | 1 | 15 | 1.50 |" in text
    assert "| `local` | - | 2 | 12 | 1.20 |" in text
    assert "| 8 | 0.50 | 2,000 |" in text
    # One second per child with messages, and 0.002 s of the driver.
    assert "| 10 | 10.0 | 2.8 h | 2% | 10.0 MB/s |" in text
    assert "| 1,000 | 500.0 | 3 min | 100% | 500.0 MB/s |" in text
    plot_scaling(results, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 10_000
