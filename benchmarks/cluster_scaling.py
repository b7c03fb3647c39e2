"""How many children a cluster makes: a sleeping domain on Ray nodes in network namespaces, beside the model.

The driver is on the head, which has no workers; two other nodes share the workers, so that all messages cross the
network and can be counted. Needs root and network namespaces, and about 0.5 GiB for each worker.

python -m benchmarks.cluster_scaling [--workers 4 16 64] [--sleep 1.0] [--out results/scaling/cluster.json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.scaling_model import ScalingModel, fit_model
from tests.faults.cluster import Cluster, explain_missing

DRIVER: Final = """
import json, sys
from pathlib import Path
from benchmarks.scaling import RateObserver
from benchmarks.synthetic_domains import SleepingDomain
from tfsm import evolve

address, workers, seconds, children = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
def count_bytes():
    folder = Path("/sys/class/net/eth0/statistics")  # of this network namespace
    return sum(int((folder / f"{way}_bytes").read_text()) for way in ("rx", "tx"))
class Counter(RateObserver):
    def __init__(self):
        super().__init__()
        self.bytes = []
    def on_progress(self, progress):
        super().on_progress(progress)
        if progress.phase == "evolving":
            self.bytes.append((progress.evaluations, count_bytes()))
rate = Counter()
evolve(SleepingDomain(seconds=seconds), mutation="control", runs=workers, population=4, intensity=0.01, size=3,
       evaluations=4 + children // workers, observers=[rate], stop="budget", log_every=1000,
       backend="ray", address=address, workers=workers, grain="children")
first, last = (next(row for row in rate.bytes if row[0] >= share * rate.bytes[-1][0]) for share in (0.5, 0.95))
print(json.dumps({**rate.steady_rate(), "bytes_per_child": (last[1] - first[1]) / (last[0] - first[0])}))
"""


def measure(workers: int, seconds: float, children: int) -> dict[str, Any]:
    """Return children per second, the driver's processor time, and bytes per child, for some workers."""
    with tempfile.TemporaryDirectory() as folder, Cluster([], cpus=-(-workers // 2), head_cpus=0) as cluster:
        cluster.start()
        words = [sys.executable, "-c", DRIVER, cluster.address, str(workers), str(seconds), str(children)]
        done = subprocess.run(
            cluster.head.inside(*words),
            env=cluster.environ() | cluster.driver_variables,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return {"workers": workers, "sleep": seconds, **json.loads(done.stdout.splitlines()[-1])}


def render(rows: list[dict[str, Any]], model: ScalingModel) -> str:
    """Return a table of the measurements, with what the model of one machine predicts."""
    lines = [
        "| workers | seconds per child | measured/s | model/s | driver load | driver, ms per child | kB per child |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        load = row["rate"] * row["driver_seconds"]
        predicted = model.rate(row["workers"], row["sleep"])
        cells = f"{row['rate']:.1f} | {predicted:.1f} | {load:.0%} | {1000 * row['driver_seconds']:.2f}"
        lines.append(f"| {row['workers']} | {row['sleep']:g} | {cells} | {row['bytes_per_child'] / 1000:.1f} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster_scaling", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--sleep", type=float, default=1.0, help="seconds that an evaluation takes")
    parser.add_argument("--each", type=int, default=60, help="children that each worker makes")
    parser.add_argument("--out", type=Path, default=Path("results/scaling/cluster.json"))
    parser.add_argument("--model", type=Path, default=Path("results/scaling/scaling.json"))
    options = parser.parse_args()
    if reason := explain_missing():
        print(reason, file=sys.stderr)
        return 1
    rows = json.loads(options.out.read_text()) if options.out.is_file() else []
    for workers in options.workers:
        row = measure(workers, options.sleep, workers * options.each)
        same = {"workers": workers, "sleep": options.sleep}
        rows = [old for old in rows if not same.items() <= old.items()] + [row]
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
        print(row, flush=True)
    rows.sort(key=lambda row: (row["sleep"], row["workers"]))
    print(render(rows, fit_model(json.loads(options.model.read_text())["children"], "ray")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
