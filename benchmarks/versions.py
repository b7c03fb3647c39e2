"""Compare two installed versions of tfsm, or one version in two environments, by the same command in short turns.

    python -m benchmarks.versions BEFORE AFTER [--case NAME] [--seconds 60] [--before NAME=VALUE] [--after NAME=VALUE]

BEFORE and AFTER are `tfsm` executables. Both processes are started at once, and only one of them runs at any time: they
are suspended and continued in turns of half a second, so that other load on the machine affects both alike. Everything
is on one core. The table has the evaluations per second of processor time after the first logged interval, when
everything is compiled, and the processor time until then.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks import environment

CASES: Final = {
    "parity control": ("parity", "--mutation", "control", "--runs", "20"),
    "parity sm-g-sum": ("parity", "--mutation", "sm-g-sum", "--runs", "20"),
    "hard-maze control": ("hard-maze", "--mutation", "control", "--runs", "20"),
}
TURN: Final = 0.5
STARTUP_LIMIT: Final = 300.0


class Contestant:
    """A process that evolves in its turns, and the time that it had.

    Args:
        executable: the `tfsm` command.
        arguments: of `tfsm run`.
        folder: the run directory.
        variables: more environment variables.
    """

    def __init__(self, executable: str, arguments: tuple[str, ...], folder: Path, variables: Mapping[str, str]) -> None:
        command = [os.path.abspath(executable), "run", *arguments, "--set", "stop=budget", "--evaluations", "100000000"]
        self._metrics = folder / "metrics.jsonl"
        self._process = subprocess.Popen(
            [*command, "--quiet", "--checkpoint-every", "never", "--out", str(folder)],
            env={**os.environ, **variables},
            cwd=folder.parent,  # without a tfsm.toml
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._suspend()
        self.seconds = 0.0
        """Processor time so far."""
        self.marks: list[tuple[float, int]] = []
        """Seconds, and evaluations of all runs at that time."""

    def take_turn(self) -> None:
        """Run for one turn."""
        os.kill(self._process.pid, signal.SIGCONT)
        time.sleep(TURN)
        self._suspend()
        if self._process.poll() is not None:
            raise SystemExit(f"a run ended early: {self._process.communicate()[1].decode().strip()}")
        self.seconds = read_processor_seconds(self._process.pid)
        evaluations = self._count_evaluations()
        if evaluations and (not self.marks or evaluations > self.marks[-1][1]):
            self.marks.append((self.seconds, evaluations))

    @property
    def evolving_seconds(self) -> float:
        """Processor time since the first interval was logged."""
        return self.seconds - self.marks[0][0] if self.marks else 0.0

    def measure_rate(self) -> float:
        """Return evaluations per second of processor time, between the first logged interval and the last."""
        (first, before), (last, after) = self.marks[0], self.marks[-1]
        return (after - before) / (last - first)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _suspend(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def _count_evaluations(self) -> int:
        if not self._metrics.exists():
            return 0
        lines = self._metrics.read_bytes().split(b"\n")[:-1]
        latest = {line["run"]: line["evaluations"] for line in map(json.loads, lines)}
        return sum(latest.values())


def read_processor_seconds(process: int) -> float:
    """Return the processor time that a process has used, with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare(
    executables: tuple[str, str], case: str, seconds: float, variables: tuple[dict[str, str], dict[str, str]]
) -> tuple[Contestant, Contestant]:
    """Run both in turns until each has evolved for this long."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = (
            Contestant(executable, CASES[case], Path(folder) / str(number), more)
            for number, (executable, more) in enumerate(zip(executables, variables, strict=True))
        )
        try:
            while min(first.evolving_seconds, second.evolving_seconds) < seconds:
                first.take_turn()
                second.take_turn()
                if max(first.seconds, second.seconds) > STARTUP_LIMIT + seconds:
                    raise SystemExit("no interval was logged in time")
        finally:
            first.end()
            second.end()
    return first, second


def main() -> None:
    """Compare, and print one row per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executables", nargs=2, metavar="TFSM", help="tfsm executables: before, after")
    parser.add_argument("--case", action="append", choices=CASES, help="default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor seconds of evolution per side")
    for side in ("before", "after"):
        parser.add_argument(f"--{side}", action="append", default=[], metavar="NAME=VALUE", help="environment variable")
    arguments = parser.parse_args()
    environment.use_one_core()
    before, after = (dict(pair.split("=", 1) for pair in pairs) for pairs in (arguments.before, arguments.after))
    print("| case | before, evaluations/s | after | ratio | seconds to the first interval before | after |")
    print("|---|---|---|---|---|---|")
    for case in arguments.case or CASES:
        sides = compare(tuple(arguments.executables), case, arguments.seconds, (before, after))
        rates = [side.measure_rate() for side in sides]
        starts = [side.marks[0][0] for side in sides]
        print(
            f"| {case} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rates[1] / rates[0]:.3f} | {starts[0]:.1f} | "
            f"{starts[1]:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
