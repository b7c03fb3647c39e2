"""Faults of machines and networks: a study on a Ray cluster of three nodes survives them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from tests.faults.cluster import ROOT, Cluster, ClusterError, Node
from tests.faults.lab import Bench, FinalState, Lab, Process, Trial, compare, flags
from tests.faults.process_faults import ONE_WORKER
from tests.helpers.fake_distribution import FakeSite
from tfsm.parallel.pool import GRAINS, Grain

PAUSE: Final = "0.2"
"""Seconds that an evaluation takes."""
MINUTE: Final = 60.0
LATENCY: Final = 0.2
"""Seconds that are added to a round trip between the head and another node."""


class ClusterLab:
    """Runs the small experiment on a cluster.

    Args:
        root: an empty folder.
        bench: makes what the results are compared with.
        cluster: the cluster; its nodes have the fragile domain on their path.
    """

    def __init__(self, root: Path, bench: Bench, cluster: Cluster) -> None:
        self.lab, self.bench, self.cluster = Lab(root), bench, cluster

    def begin(self, out: Path, grain: Grain) -> Process:
        """Start the experiment on the cluster, or resume it."""
        where = {"wrapper": self.cluster.head.inside(), **self.cluster.driver_variables}
        if (out / "run.json").is_file():
            return self.lab.start("run", "--resume", str(out), "--quiet", **where)  # type: ignore[arg-type]
        place = ("--backend", "ray", "--address", self.cluster.address, "--workers", "3", "--grain", grain)
        words = ("run", "fragile", "--mutation", "control", *flags(), "--out", str(out), *place)
        return self.lab.start(*words, **where)  # type: ignore[arg-type]

    def new_out(self) -> Path:
        """Return the path of a new directory."""
        return self.lab.new_out()

    def check(self, what: str, out: Path, grain: Grain, problems: list[str]) -> Trial:
        """Compare the results with those of a local run, or of a replay of the order in which children arrived."""
        if grain == "runs":
            expected = self.bench.expected
        else:
            again = self.bench.new_out()
            self.bench.run(again, backend=ONE_WORKER, order=out / "order.log")
            expected = FinalState.of(again)
        return compare(f"{what}, --grain {grain}", expected, FinalState.of(out), problems)


def wait_until_evolving(process: Process, out: Path) -> None:
    """Wait until there is a checkpoint of every run: then all nodes are at work."""

    def is_evolving() -> bool:
        files = list(out.glob("checkpoints/*.checkpoint"))
        runs = {run for file in files for run in _runs_of(file)}
        return runs >= {0, 1, 2}

    process.wait_for(is_evolving)


def _runs_of(file: Path) -> range:
    first, last = file.stem.split("-")[1:3]
    return range(int(first), int(last) + 1)


def end_well(process: Process) -> list[str]:
    """Wait for a command, and return what is wrong with how it ended."""
    ended = process.wait()
    return ended.problems + ([f"exit code {ended.code}: {ended.err}"] if ended.code else [])


def run_undisturbed(lab: ClusterLab, grain: Grain) -> Trial:
    """Run on all nodes."""
    out = lab.new_out()
    return lab.check("undisturbed", out, grain, end_well(lab.begin(out, grain)))


def kill_worker_node(lab: ClusterLab, grain: Grain) -> Trial:
    """Kill a node; its work is repeated on the others."""
    out = lab.new_out()
    process = lab.begin(out, grain)
    wait_until_evolving(process, out)
    lab.cluster.kill(lab.cluster.nodes[1])
    problems = end_well(process)
    if "a worker died" not in process.err:
        problems.append(f"messages: {process.err}")
    return lab.check("a node is killed", out, grain, problems)


def kill_head(lab: ClusterLab, grain: Grain) -> Trial:
    """Kill the head node: the command ends with a message, and is resumed when the cluster is there again."""
    out = lab.new_out()
    process = lab.begin(out, grain)
    wait_until_evolving(process, out)
    lab.cluster.kill(lab.cluster.head)
    ended = process.wait()
    problems = list(ended.problems)
    lines = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    if ended.code != 2 or len(lines) != 1 or "Ray" not in lines[0]:
        problems.append(f"exit code {ended.code}: {ended.err}")
    lab.cluster.heal()
    problems += end_well(lab.begin(out, grain))
    return lab.check("the head is killed", out, grain, problems)


def cut_off(lab: ClusterLab, grain: Grain, seconds: float | None) -> Trial:
    """Cut a node off the network, for some time or for good."""
    out = lab.new_out()
    process = lab.begin(out, grain)
    wait_until_evolving(process, out)
    lab.cluster.cut(lab.cluster.nodes[1])
    if seconds is not None:
        time.sleep(seconds)
        lab.cluster.reconnect(lab.cluster.nodes[1])
    problems = end_well(process)
    what = "a node is cut off " + ("for good" if seconds is None else f"for {seconds:g} s")
    return lab.check(what, out, grain, problems)


def join_late(lab: ClusterLab, grain: Grain) -> Trial:
    """Start a node while the others are at work."""
    late = lab.cluster.nodes[2]
    lab.cluster.kill(late)
    _wait_until_gone(lab.cluster, late)
    out = lab.new_out()
    process = lab.begin(out, grain)
    process.wait_for(lambda: any(out.glob("checkpoints/*.checkpoint")))
    lab.cluster.start(late)
    problems = end_well(process)
    return lab.check("a node joins late", out, grain, problems)


def leave_and_come_back(lab: ClusterLab, grain: Grain) -> Trial:
    """Kill a node and start it again while the others are at work."""
    out = lab.new_out()
    process = lab.begin(out, grain)
    wait_until_evolving(process, out)
    node = lab.cluster.nodes[2]
    lab.cluster.kill(node)
    lab.cluster.start(node)
    problems = end_well(process)
    return lab.check("a node leaves and comes back", out, grain, problems)


def _wait_until_gone(cluster: Cluster, node: Node) -> None:
    deadline = time.monotonic() + 3 * MINUTE
    while node.address in cluster.list_alive():
        if time.monotonic() > deadline:
            raise ClusterError(f"node {node.number} is still there")
        time.sleep(1.0)


ClusterTrial: TypeAlias = Callable[[ClusterLab, Grain], Trial]

NODE_FAULTS: Final[Sequence[tuple[str, str, ClusterTrial]]] = (
    ("cluster: no fault", "three nodes", run_undisturbed),
    ("cluster: a node is lost", "kill -9 of all on it", kill_worker_node),
    ("cluster: the head is lost", "kill -9 of all of Ray on it; started again, and resumed", kill_head),
    ("cluster: a node is cut off", "link down for 60 s", lambda lab, grain: cut_off(lab, grain, MINUTE)),
    ("cluster: a node is cut off for good", "link down", lambda lab, grain: cut_off(lab, grain, None)),
    ("cluster: a node joins late", "while the others evolve", join_late),
    ("cluster: a node leaves and comes back", "kill -9; started again at once", leave_and_come_back),
)
"""Faults of nodes: the row of the table, and the trial."""


def try_grains(lab: ClusterLab, trial: ClusterTrial) -> Iterator[Trial]:
    """Try a fault with both kinds of tasks, each time on a whole cluster."""
    for grain in GRAINS:
        lab.cluster.heal()
        yield trial(lab, grain)


def try_slow_network(root: Path, bench: Bench) -> Iterator[Trial]:
    """Try latency with both kinds of tasks, on a cluster of their own."""
    for grain in GRAINS:
        with make_cluster(root / grain) as cluster:
            yield add_latency(ClusterLab(root / grain, bench, cluster), grain)


def add_latency(lab: ClusterLab, grain: Grain) -> Trial:
    """Delay all messages to and from two of the nodes, on a cluster that is off."""
    for node in lab.cluster.nodes[1:]:
        lab.cluster.delay(node, LATENCY / 2)
    taken = min(lab.cluster.round_trip(node) for node in lab.cluster.nodes[1:])
    problems = [] if taken >= LATENCY else [f"the round trip takes {taken:.3f} s"]
    lab.cluster.start()
    out = lab.new_out()
    problems += end_well(lab.begin(out, grain))
    return lab.check(f"{1000 * LATENCY:.0f} ms of latency", out, grain, problems)


OTHERS: Final = {
    "another tfsm": "tfsm 99.0 instead of",
    "another version of the plugin": "tfsm-fragile 2.0 instead of 1.0",
    "no plugin": "no tfsm-fragile 1.0",
    "no tfsm": "Python there has no module",
}


def refuse_node(lab: ClusterLab, what: str) -> Trial:
    """Start a node that has something else installed: it is refused in one line, and the others do the work."""
    node = lab.cluster.nodes[1]
    lab.cluster.heal()
    lab.cluster.kill(node)
    _wait_until_gone(lab.cluster, node)
    lab.cluster.start(node, replaced=make_installation(lab, what))
    out = lab.new_out()
    process = lab.begin(out, "runs")
    problems = end_well(process)
    lines = [line for line in process.err.splitlines() if f"node {node.address} is not used" in line]
    if len(lines) != 1 or OTHERS[what] not in lines[0]:
        problems.append(f"messages: {process.err}")
    lab.cluster.kill(node)
    return lab.check(what, out, "runs", problems)


def make_installation(lab: ClusterLab, what: str) -> dict[Path, Path]:
    """Return what a node has in the place of which folder."""
    site = lab.lab.root / "site"
    other = lab.lab.root / what.replace(" ", "-")
    if what == "another tfsm":
        shutil.copytree(ROOT / "tfsm", other)
        init = other / "__init__.py"
        lines = init.read_text().splitlines()
        changed = ['__version__ = "99.0"' if line.startswith("__version__") else line for line in lines]
        init.write_text("\n".join([*changed, ""]))
        return {ROOT / "tfsm": other}
    other.mkdir()
    if what == "another version of the plugin":
        source = Path(__file__).with_name("fragile_domain.py").read_text(encoding="utf-8")
        FakeSite(other).install("tfsm-fragile", {"fragile": source}, version="2.0")
    return {ROOT / "tfsm" if what == "no tfsm" else site: other}


def make_cluster(lab_root: Path) -> Cluster:
    """Return a cluster for the lab of a folder."""
    from tests.faults.lab import install_fragile

    # The nodes share the memory of this machine, so what one sees says nothing about itself.
    variables = {"RAY_memory_monitor_refresh_ms": "0", "TFSM_COMPILE_CACHE": str(lab_root / "compiled")}
    return Cluster([install_fragile(lab_root)], variables | {"FRAGILE_PAUSE": PAUSE})
