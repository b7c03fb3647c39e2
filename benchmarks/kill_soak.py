"""Hours of runs that are killed at random moments: results, memory and disk must be those of undisturbed ones.

Each stretch runs one experiment, kills its command with SIGKILL at random moments, resumes it each time, and compares
what it leaves with an undisturbed run, piece by piece. It appends one line to a CSV file, so a soak can be continued at
any time: the next stretch takes the case with the fewest lines.

python -m benchmarks.kill_soak --hours 6 [--out results/soak/stretches.csv]
python -m benchmarks.kill_soak --summary
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from tests.faults.lab import FinalState, is_running, list_child_processes

CSV: Final = Path("results/soak/stretches.csv")
MOST_KILLS: Final = 4
"""Kills of one experiment, after which it may finish."""
SAMPLE_SECONDS: Final = 0.25
GONE_SECONDS: Final = 20.0
"""Time in which everything that a killed command has started must end."""
DOMAINS: Final = {
    "parity": ("--mutation", "sm-g-sum", "--evaluations", "12000", "--runs", "2", "--population", "50"),
    "hard-maze": ("--mutation", "control", "--evaluations", "1500", "--runs", "2", "--population", "50"),
    "gym": ("--mutation", "control", "--evaluations", "80", "--runs", "2", "--population", "20",
            "--set", "env=CartPole-v1", "--set", "stop=budget"),
    "dataset": ("--mutation", "sm-g-abs", "--evaluations", "6000", "--runs", "2", "--population", "30",
                "--set", "data={data}", "--set", "stop=budget"),
}  # fmt: skip
BACKENDS: Final = {
    "local": (),
    "processes": ("--backend", "processes", "--workers", "2"),
    "ray": ("--backend", "ray", "--workers", "2"),
}
# Networks round differently with another number of threads.
THREADS: Final = {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Stretch(NamedTuple):
    """One experiment: a line of the CSV file."""

    when: str
    version: str
    domain: str
    backend: str
    kills: int
    seconds: float
    mib_first: float
    """Peak memory of the processes of the first command that evolved, together."""
    mib_most: float
    """Peak memory of any command."""
    disk_mib: float
    """The largest size of the run directory."""
    checkpoints: int
    """The most checkpoint files at a time."""
    left: int
    """Processes that stayed after a kill."""
    lost: int
    """Pieces of the results that differ from those of an undisturbed run."""
    problem: str


@dataclass
class Usage:
    """What a command used at most."""

    mib: float = 0.0
    disk_mib: float = 0.0
    checkpoints: int = 0

    def sample(self, pid: int, out: Path) -> None:
        """Look at a process with all that it has started, and at a run directory."""
        self.mib = max(self.mib, sum(map(read_memory, [pid, *list_descendants(pid)])))
        sizes = []
        for path in out.rglob("*"):
            try:
                sizes.append(path.stat().st_size)
            except OSError:  # it was renamed or removed
                continue
        self.disk_mib = max(self.disk_mib, sum(sizes) / 2**20)
        self.checkpoints = max(self.checkpoints, len(list(out.glob("checkpoints/*.checkpoint"))))


def read_memory(pid: int) -> float:
    """Return the MiB that are a process's own, and its share of what it has in common with others."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def list_descendants(pid: int) -> list[int]:
    """Return all processes that a process has started, and those that they have."""
    children = list_child_processes(pid)
    return [number for child in children for number in (child, *list_descendants(child))]


@dataclass
class Soak:
    """Runs stretches in a folder.

    Args:
        folder: an empty folder.
        rng: draws the moments.
    """

    folder: Path
    rng: random.Random
    expected: dict[str, tuple[FinalState, float]] = field(default_factory=dict)
    """By domain, the results of an undisturbed run, and the seconds that it took."""

    def start(self, domain: str, out: Path, backend: str) -> subprocess.Popen[bytes]:
        """Start an experiment, or resume it."""
        if (out / "run.json").is_file():
            words = ["run", "--resume", str(out), "--quiet"]
        else:
            words = ["run", domain, *DOMAINS[domain], "--seed", "3", "--checkpoint-every", "2s", "--quiet"]
            words = [word.format(data=self._write_data()) for word in words]
            words += ["--out", str(out), *BACKENDS[backend]]
        return subprocess.Popen(
            [sys.executable, "-m", "tfsm", *words],
            env=os.environ | THREADS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "stderr.txt").open("ab"),
        )

    def _write_data(self) -> Path:
        file = self.folder / "data.npz"
        if not file.exists():
            x = np.random.default_rng(0).normal(size=(256, 4)).astype("f4")
            np.savez(file, x=x, y=(x[:, :1] * x[:, 1:2] > 0).astype("f4"))
        return file

    def undisturbed(self, domain: str) -> tuple[FinalState, float]:
        """Return the results without kills, in one process, and the seconds that they took."""
        if domain not in self.expected:
            out, start = self.folder / f"undisturbed-{domain}", time.monotonic()
            if code := self.start(domain, out, "local").wait():
                raise RuntimeError(f"{domain}: exit code {code}: {self._errors()}")
            self.expected[domain] = FinalState.of(out), time.monotonic() - start
        return self.expected[domain]

    def run(self, domain: str, backend: str) -> Stretch:
        """Run one experiment with kills at random moments."""
        expected, seconds = self.undisturbed(domain)
        out, start = self.folder / "run", time.monotonic()
        shutil.rmtree(out, ignore_errors=True)
        (self.folder / "stderr.txt").write_text("")
        total, peaks = Usage(), []
        kills = left = 0
        code: int | None = None
        while code is None:
            process, usage = self.start(domain, out, backend), Usage()
            moment = self.rng.uniform(0.0, 1.3) * seconds if kills < MOST_KILLS else float("inf")
            begin = time.monotonic()
            while (code := process.poll()) is None and time.monotonic() - begin < moment:
                usage.sample(process.pid, out)
                time.sleep(SAMPLE_SECONDS)
            if code is None:
                started = list_descendants(process.pid)
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
                left += count_left(started)
            if usage.checkpoints or code == 0:
                peaks.append(usage.mib)
            total.disk_mib = max(total.disk_mib, usage.disk_mib)
            total.checkpoints = max(total.checkpoints, usage.checkpoints)
        lost = expected.list_lost(FinalState.of(out)) if code == 0 else ["everything"]
        errors = self._errors()
        problem = (
            f"exit code {code}: {errors}" if code else "traceback" if "Traceback" in errors else "; ".join(lost[:3])
        )
        first, most = (peaks[0], max(peaks)) if peaks else (0.0, 0.0)
        return Stretch(
            datetime.now(UTC).isoformat(timespec="seconds"), read_version(), domain, backend, kills,
            round(time.monotonic() - start, 1), round(first, 1), round(most, 1), round(total.disk_mib, 3),
            total.checkpoints, left, len(lost), " ".join(problem.split())[:300],
        )  # fmt: skip

    def _errors(self) -> str:
        file = self.folder / "stderr.txt"
        return file.read_text(errors="replace") if file.is_file() else ""


def count_left(processes: Sequence[int]) -> int:
    """Wait until processes have ended, and return how many have not after some time; these are killed."""
    deadline = time.monotonic() + GONE_SECONDS
    while (left := [pid for pid in processes if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(SAMPLE_SECONDS)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(left)


def read_version() -> str:
    """Return the commit."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def read_stretches(file: Path) -> list[dict[str, Any]]:
    """Return the lines of the CSV file."""
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def append(file: Path, stretch: Stretch) -> None:
    """Append a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    is_new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        if is_new:
            writer.writerow(Stretch._fields)
        writer.writerow(stretch)


def summarize(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table by domain and backend."""
    lines = [
        "| domain | backend | runs | kills | hours | peak MiB, first command | any command | run directory, MiB | "
        "checkpoint files | processes left | results lost |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for domain in DOMAINS:
        for backend in BACKENDS:
            found = [row for row in rows if (row["domain"], row["backend"]) == (domain, backend)]
            if not found:
                continue
            hours = sum(float(row["seconds"]) for row in found) / 3600
            first = statistics.median(float(row["mib_first"]) for row in found)
            most, disk = (max(float(row[name]) for row in found) for name in ("mib_most", "disk_mib"))
            kills, left, lost = (sum(int(row[name]) for row in found) for name in ("kills", "left", "lost"))
            files = max(int(row["checkpoints"]) for row in found)
            cells = f"{len(found)} | {kills} | {hours:.2f} | {first:,.0f} | {most:,.0f} | {disk:.1f} | {files}"
            lines.append(f"| `{domain}` | `{backend}` | {cells} | {left} | {lost} |")
    return "\n".join(lines)


def main() -> int:
    """Run stretches for some hours, or summarize them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--out", type=Path, default=CSV)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--summary", action="store_true", help="only print a table of what was run so far")
    options = parser.parse_args()
    if not options.summary:
        end = time.monotonic() + 3600 * options.hours
        with tempfile.TemporaryDirectory(prefix="tfsm-soak-") as folder:
            soak = Soak(Path(folder), random.Random())
            while time.monotonic() < end:
                counts = Counter((row["domain"], row["backend"]) for row in read_stretches(options.out))
                cases = [(domain, backend) for backend in options.backends for domain in DOMAINS]
                domain, backend = min(cases, key=lambda case: counts[case])
                stretch = soak.run(domain, backend)
                append(options.out, stretch)
                print(*stretch, flush=True)
    rows = read_stretches(options.out)
    print(summarize(rows))
    return 1 if any(int(row["lost"]) or int(row["left"]) or row["problem"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
